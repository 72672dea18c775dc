//! The scripted runtime keeps its promises; everything else that is tested stands on them.

use std::{cell::RefCell, path::Path, rc::Rc};

use engine::io::{
    Access, Buffer, File, Runtime, Space,
    script::{ScriptBuffer, ScriptFile, ScriptRuntime},
};

mod tasks;
mod disk;
mod plan;
mod crash;
mod net;

const BLOCK: u64 = 4096;

/// A world with the directories `/store` and `/store/commitlog`.
fn world() -> ScriptRuntime {
    let runtime = ScriptRuntime::new(7);
    runtime.disk().create_directory("/store/commitlog");
    runtime
}

/// A durable segment of `blocks` zero blocks at `/store/commitlog/0`.
fn world_with_segment(blocks: u64) -> ScriptRuntime {
    let runtime = world();
    runtime.block_on(async {
        let path = Path::new("/store/commitlog/0");
        runtime.create(path, blocks * BLOCK, Space::Allocated).await.unwrap();
        runtime.sync_directory(Path::new("/store/commitlog")).await.unwrap();
    });
    runtime
}

fn open(runtime: &ScriptRuntime, path: &str, access: Access) -> ScriptFile {
    runtime.block_on(runtime.open(Path::new(path), access)).unwrap()
}

fn segment(runtime: &ScriptRuntime, access: Access) -> Rc<ScriptFile> {
    Rc::new(open(runtime, "/store/commitlog/0", access))
}

/// `blocks` blocks full of `byte`.
fn filled(runtime: &ScriptRuntime, blocks: usize, byte: u8) -> Rc<ScriptBuffer> {
    let mut buffer = runtime.allocate(blocks * 4096);
    buffer.bytes_mut().fill(byte);
    Rc::new(buffer)
}

/// What tasks noted, in order.
type Notes<T> = Rc<RefCell<Vec<T>>>;

/// Starts writing one block full of `byte` to block `index`; notes `byte` when done.
fn start_write(runtime: &ScriptRuntime, file: &Rc<ScriptFile>, index: u64, byte: u8, notes: &Notes<u8>) {
    let (file, notes) = (Rc::clone(file), Rc::clone(notes));
    let buffer = filled(runtime, 1, byte);
    runtime.spawn(async move {
        assert_eq!(file.write_buffer(buffer, index * BLOCK).await.unwrap(), 4096);
        notes.borrow_mut().push(byte);
    });
}

fn write(runtime: &ScriptRuntime, file: &ScriptFile, index: u64, byte: u8) {
    let written = runtime.block_on(file.write_buffer(filled(runtime, 1, byte), index * BLOCK)).unwrap();
    assert_eq!(written, 4096);
}

/// The first byte of each block of a file, which must be full of it.
fn blocks_of(runtime: &ScriptRuntime, path: &str) -> Vec<u8> {
    let bytes = runtime.disk().read(path).expect("the file exists");
    let uniform = |block: &[u8]| {
        assert!(block.iter().all(|byte| *byte == block[0]), "a torn block in {path}");
        block[0]
    };
    bytes.chunks(4096).map(uniform).collect()
}
