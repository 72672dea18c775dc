//! Files, names, access rules and space, as a running process meets them.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf, rc::Rc};

use engine::io::{
    Access, BLOCK_BYTES, Buffer, DirectoryEntry, DiskSpace, File, Mapping, Runtime, Space,
    script::{
        EAGAIN, EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOSPC, ENOTDIR, Kind, ScriptBuffer, ScriptRuntime,
    },
};

use super::{BLOCK, blocks_of, filled, open, segment, world, world_with_segment, write};

fn errno_of<T>(result: io::Result<T>) -> i32 {
    result.err().expect("it fails").raw_os_error().expect("with an errno")
}

#[test]
fn a_created_file_is_zeros_of_full_length_and_must_be_new() {
    let runtime = world();
    let path = Path::new("/store/commitlog/0");
    for space in [Space::Sparse, Space::Allocated] {
        runtime.block_on(runtime.create(path, 10_000, space)).unwrap();
        assert_eq!(runtime.disk().read(path), Some(vec![0; 10_000]));
        assert_eq!(errno_of(runtime.block_on(runtime.create(path, 10_000, space))), EEXIST);
        runtime.block_on(runtime.remove(path)).unwrap();
        assert_eq!(errno_of(runtime.block_on(runtime.remove(path))), ENOENT);
    }
}

#[test]
fn reads_give_any_range_and_fewer_bytes_only_at_the_end() {
    let runtime = world();
    let bytes: Vec<u8> = (0..10_000_u32).map(|index| index.to_le_bytes()[0]).collect();
    runtime.disk().put("/store/commitlog/0", &bytes);
    for access in [Access::Direct, Access::Buffered, Access::ReadOnly] {
        let file = open(&runtime, "/store/commitlog/0", access);
        let read = |position, len| runtime.block_on(file.read(position, len)).unwrap();
        assert_eq!(read(0, 10_000), bytes);
        assert_eq!(read(4095, 3), bytes[4095..4098]);
        assert_eq!(read(9_990, 100), bytes[9_990..]);
        assert!(read(20_000, 1).is_empty());
    }
}

#[test]
fn names_are_operated_on_as_the_kernel_does() {
    let runtime = world();
    let [one, two, directory] = ["/store/1", "/store/2", "/store/config"].map(Path::new);
    runtime.block_on(async {
        runtime.create_directory(Path::new("/store/config/deep")).await.unwrap();
        runtime.create_directory(Path::new("/store/config/deep")).await.unwrap();
        runtime.write_file(one, b"one".to_vec()).await.unwrap();
        runtime.write_file(two, b"two".to_vec()).await.unwrap();
        assert_eq!(errno_of(runtime.hard_link(one, two).await), EEXIST);
        assert_eq!(errno_of(runtime.rename(Path::new("/store/3"), two).await), ENOENT);
        assert_eq!(errno_of(runtime.rename(one, directory).await), EISDIR);
        assert_eq!(errno_of(runtime.write_file(Path::new("/nowhere/1"), vec![]).await), ENOENT);
        assert_eq!(errno_of(runtime.write_file(Path::new("/store/1/2"), vec![]).await), ENOTDIR);
        assert_eq!(errno_of(runtime.create_directory(Path::new("/store/1/2")).await), ENOTDIR);
        assert_eq!(errno_of(runtime.open(Path::new("/store/3"), Access::Direct).await), ENOENT);
        assert_eq!(errno_of(runtime.sync_directory(Path::new("/nowhere")).await), ENOENT);

        runtime.rename(one, two).await.unwrap();
        assert_eq!(runtime.read_file(one).await.unwrap(), None);
        assert_eq!(runtime.read_file(two).await.unwrap(), Some(b"one".to_vec()));
        runtime.hard_link(two, one).await.unwrap();
        runtime.rename(one, two).await.unwrap();
        assert_eq!(
            runtime.read_file(one).await.unwrap(),
            Some(b"one".to_vec()),
            "two names of one file stay"
        );

        let listed = runtime.list(Path::new("/store")).await.unwrap().unwrap();
        let entry =
            |name: &str, len, is_directory| DirectoryEntry { name: name.to_owned(), len, is_directory };
        let expected = [
            entry("1", 3, false),
            entry("2", 3, false),
            entry("commitlog", 0, true),
            entry("config", 0, true),
        ];
        assert_eq!(listed, expected);
        assert_eq!(runtime.list(Path::new("/nowhere")).await.unwrap(), None);
        assert_eq!(errno_of(runtime.list(one).await), ENOTDIR);
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    runtime.block_on(runtime.remove(Path::new("/store/commitlog/0"))).unwrap();
    runtime.block_on(runtime.sync_directory(Path::new("/store/commitlog"))).unwrap();
    write(&runtime, &file, 0, 9);
    assert_eq!(runtime.block_on(file.read(4000, 1000)).unwrap(), [9; 96]);
}

#[test]
fn a_new_buffer_is_full_of_garbage() {
    let mut buffer = world().allocate(3 * BLOCK_BYTES);
    assert_eq!(buffer.bytes(), [ScriptBuffer::GARBAGE; 3 * BLOCK_BYTES]);
    buffer.truncate(BLOCK_BYTES);
    assert_eq!(buffer.bytes().len(), BLOCK_BYTES);
}

#[test]
fn direct_writes_are_whole_blocks_from_buffers() {
    let runtime = world_with_segment(2);
    for access in [Access::Direct, Access::DirectSync] {
        let file = segment(&runtime, access);
        for position in [1, 512, 4095] {
            assert_eq!(
                errno_of(runtime.block_on(file.write_buffer(filled(&runtime, 1, 1), position))),
                EINVAL
            );
        }
        assert_eq!(errno_of(runtime.block_on(file.write_bytes(vec![1; 4096], 0))), EINVAL);
    }
    assert_eq!(blocks_of(&runtime, "/store/commitlog/0"), [0, 0]);
}

#[test]
fn a_file_open_for_reading_only_takes_no_writes() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::ReadOnly);
    assert_eq!(errno_of(runtime.block_on(file.write_buffer(filled(&runtime, 1, 1), 0))), EBADF);
    assert_eq!(errno_of(runtime.block_on(file.write_bytes(vec![1], 0))), EBADF);
}

#[test]
fn direct_access_alternates_with_others_but_never_overlaps() {
    let runtime = world_with_segment(1);
    let path = Path::new("/store/commitlog/0");
    drop(segment(&runtime, Access::Direct));
    drop(segment(&runtime, Access::Buffered));
    drop(runtime.block_on(runtime.map(path)).unwrap());
    let both = [segment(&runtime, Access::Direct), segment(&runtime, Access::DirectSync)];
    drop(both);
    let both = (segment(&runtime, Access::Buffered), runtime.block_on(runtime.map(path)).unwrap());
    drop(both);
}

#[test]
#[should_panic(expected = "both directly and through the page cache")]
fn opening_directly_what_is_open_buffered_is_a_bug() {
    let runtime = world_with_segment(1);
    let _buffered = segment(&runtime, Access::ReadOnly);
    let _direct = segment(&runtime, Access::Direct);
}

#[test]
#[should_panic(expected = "both directly and through the page cache")]
fn mapping_what_is_open_directly_is_a_bug() {
    let runtime = world_with_segment(1);
    let _direct = segment(&runtime, Access::DirectSync);
    drop(runtime.block_on(runtime.map(Path::new("/store/commitlog/0"))));
}

#[test]
#[should_panic(expected = "mapped twice")]
fn mapping_a_file_twice_is_a_bug() {
    let runtime = world_with_segment(1);
    let _map = runtime.block_on(runtime.map(Path::new("/store/commitlog/0"))).unwrap();
    drop(runtime.block_on(runtime.map(Path::new("/store/commitlog/0"))));
}

#[test]
#[should_panic(expected = "grow beyond")]
fn a_write_that_makes_a_data_file_grow_is_a_bug() {
    let runtime = world();
    // 2,000 bytes, as a small consume queue has: a direct write of its last block would grow it.
    runtime.disk().put("/store/consumequeue/t/0/0", &[0; 2000]);
    let file = open(&runtime, "/store/consumequeue/t/0/0", Access::Direct);
    write(&runtime, &file, 0, 1);
}

#[test]
fn files_elsewhere_grow_when_written() {
    let runtime = world();
    runtime.disk().put("/store/ringmq/log", b"ab");
    let file = open(&runtime, "/store/ringmq/log", Access::Buffered);
    runtime.block_on(file.write_bytes(b"cd".to_vec(), 4)).unwrap();
    assert_eq!(runtime.disk().read("/store/ringmq/log"), Some(b"ab\0\0cd".to_vec()));
    runtime.disk().set_fixed_length_under(&["ringmq"]);
    assert!(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(runtime.block_on(file.write_bytes(b"x".to_vec(), 6)));
        }))
        .is_err()
    );
}

#[test]
fn a_map_is_the_page_cache() {
    let runtime = world();
    runtime.disk().put("/store/commitlog/0", &[1; 10_000]);
    let path = Path::new("/store/commitlog/0");
    let mut map = runtime.block_on(runtime.map(path)).unwrap();
    assert_eq!(map.bytes(), [1; 10_000]);
    map.bytes_mut()[9_000] = 2;
    let file = open(&runtime, "/store/commitlog/0", Access::Buffered);
    assert_eq!(runtime.block_on(file.read(9_000, 2)).unwrap(), [2, 1], "reads see what the map wrote");
    runtime.block_on(file.write_bytes(vec![3], 5)).unwrap();
    assert_eq!(map.bytes()[5], 3, "the map sees what was written");
    drop(map);
    let bytes = runtime.block_on(runtime.read_file(path)).unwrap().unwrap();
    assert_eq!((bytes[5], bytes[9_000]), (3, 2), "the file keeps what the map wrote");
    runtime.disk().put("/store/empty", &[]);
    assert_eq!(errno_of(runtime.block_on(runtime.map(Path::new("/store/empty")))), EINVAL);
}

#[test]
fn the_lock_is_held_once_until_dropped() {
    let runtime = world();
    let path = Path::new("/store/lock");
    let lock = runtime.block_on(runtime.lock(path)).unwrap();
    assert!(runtime.disk().read(path).is_some(), "created when missing");
    let refused = runtime.block_on(runtime.lock(path)).err().expect("held by us");
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    drop(runtime.block_on(runtime.lock(path)).unwrap());
    runtime.disk().lock(path);
    assert_eq!(errno_of(runtime.block_on(runtime.lock(path))), EAGAIN, "held by another process");
    runtime.disk().unlock(path);
    runtime.block_on(runtime.lock(path)).unwrap();
}

#[test]
fn allocated_files_take_space_at_once_and_sparse_ones_when_written() {
    let runtime = world();
    runtime.disk().set_space_total(10 * BLOCK);
    let available = || runtime.block_on(runtime.disk_space(Path::new("/store"))).unwrap().available / BLOCK;
    let create = |name: &str, blocks, space| {
        let path = PathBuf::from("/store/commitlog").join(name);
        runtime.block_on(runtime.create(&path, blocks * BLOCK, space))
    };
    create("0", 4, Space::Allocated).unwrap();
    assert_eq!(available(), 6);
    assert_eq!(errno_of(create("1", 7, Space::Allocated)), ENOSPC);
    assert_eq!(runtime.disk().read("/store/commitlog/1"), None);
    create("sparse", 100, Space::Sparse).unwrap();
    assert_eq!(available(), 6);
    let sparse = open(&runtime, "/store/commitlog/sparse", Access::Direct);
    write(&runtime, &sparse, 50, 1);
    write(&runtime, &sparse, 50, 2);
    assert_eq!(available(), 5);
    let written = runtime.block_on(sparse.write_buffer(filled(&runtime, 8, 3), 60 * BLOCK)).unwrap();
    assert_eq!(written as u64, 5 * BLOCK, "what fits is written");
    assert_eq!(errno_of(runtime.block_on(sparse.write_buffer(filled(&runtime, 1, 3), 70 * BLOCK))), ENOSPC);
    let allocated = segment(&runtime, Access::Direct);
    write(&runtime, &allocated, 3, 4);
    let full = runtime.block_on(runtime.write_file(Path::new("/store/abort"), vec![1]));
    assert_eq!(errno_of(full), ENOSPC);
    drop(allocated);
    runtime.block_on(runtime.remove(Path::new("/store/commitlog/0"))).unwrap();
    assert_eq!(runtime.disk().space(), DiskSpace { total: 10 * BLOCK, available: 4 * BLOCK });
}

#[test]
fn a_removed_file_takes_space_until_it_is_closed() {
    let runtime = world_with_segment(4);
    runtime.disk().set_space_total(4 * BLOCK);
    let file = segment(&runtime, Access::Direct);
    runtime.block_on(runtime.remove(Path::new("/store/commitlog/0"))).unwrap();
    assert_eq!(runtime.disk().space().available, 0);
    drop(file);
    assert_eq!(runtime.disk().space().available, 4 * BLOCK);
}

#[test]
fn a_buffer_in_flight_cannot_be_changed() {
    let runtime = world_with_segment(1);
    let file = segment(&runtime, Access::Direct);
    let hold = runtime.plan().add(engine::io::script::Rule::of(Kind::Write).hold());
    let mut buffer = filled(&runtime, 1, 1);
    assert!(runtime.try_block_on(file.write_buffer(Rc::clone(&buffer), 0)).is_none());
    assert!(Rc::get_mut(&mut buffer).is_none());
    runtime.plan().lift(hold);
    runtime.run_until_idle();
    assert!(Rc::get_mut(&mut buffer).is_some());
}

#[test]
fn a_real_directory_goes_in_and_comes_out_the_same() {
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("commitlog/deep")).unwrap();
    fs::write(source.path().join("commitlog/deep/0"), [vec![0; 10_000], vec![1; 5]].concat()).unwrap();
    fs::write(source.path().join("checkpoint"), b"c").unwrap();
    let runtime = ScriptRuntime::new(1);
    runtime.disk().import(source.path(), "/store").unwrap();
    let files = BTreeMap::from([
        (PathBuf::from("/store/commitlog/deep/0"), [vec![0; 10_000], vec![1; 5]].concat()),
        (PathBuf::from("/store/checkpoint"), b"c".to_vec()),
    ]);
    assert_eq!(runtime.disk().files(), files);
    assert_eq!(runtime.disk().durable_files(), files);
    let target = tempfile::tempdir().unwrap();
    runtime.disk().export("/store", &target.path().join("copy")).unwrap();
    let again = ScriptRuntime::new(1);
    again.disk().import(&target.path().join("copy"), "/store").unwrap();
    assert_eq!(again.disk().files(), files);
    assert_eq!(
        runtime.disk().import(Path::new("/nowhere/at/all"), "/x").unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
}

#[test]
fn damage_reaches_every_layer() {
    let runtime = world_with_segment(2);
    let file = segment(&runtime, Access::Direct);
    write(&runtime, &file, 1, 1);
    runtime.disk().damage("/store/commitlog/0", 5000, &[9; 10]);
    let damaged = |bytes: &[u8]| bytes[5000..5010] == [9; 10];
    assert!(damaged(&runtime.disk().files()[Path::new("/store/commitlog/0")]));
    assert!(damaged(&runtime.disk().durable_files()[Path::new("/store/commitlog/0")]));
}
