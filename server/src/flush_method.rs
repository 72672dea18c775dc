//! Which way of making a group durable is faster here: fdatasync after the write, or an O_DSYNC write.
//!
//! Both are measured in the store's own directory, alternating, on a file that was written before: that is how the log
//! is written. The result is shown; `flushMethod` overrides it.

use std::{fmt, io, path::Path, rc::Rc, time::Duration};

use engine::{
    io::{Access, BLOCK_BYTES, Buffer, File, Runtime, Space},
    write::flush::SyncMethod,
};

/// Pairs measured. The median of so many is steady enough to choose by, and takes a few ms on a calm disk.
const PAIRS: usize = 15;
const PROBE_BYTES: u64 = 1024 * 1024;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Median of a write and fdatasync.
    pub fdatasync: Duration,
    /// Median of an O_DSYNC write.
    pub dsync: Duration,
}

impl Measured {
    /// The faster one.
    #[must_use]
    pub fn better(&self) -> SyncMethod {
        if self.dsync <= self.fdatasync { SyncMethod::Dsync } else { SyncMethod::Fdatasync }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.better() {
            SyncMethod::Dsync => "dsync",
            SyncMethod::Fdatasync => "fdatasync",
        };
        write!(
            f,
            "auto: {word} (median of {PAIRS} in this directory: O_DSYNC write {:.3} ms, write + fdatasync {:.3} ms)",
            self.dsync.as_secs_f64() * 1e3,
            self.fdatasync.as_secs_f64() * 1e3
        )
    }
}

/// Measures both in `directory`, which is created when missing; leaves nothing behind.
///
/// # Errors
/// When the directory can't be written to.
pub async fn measure<R: Runtime>(runtime: &R, directory: &Path) -> io::Result<Measured> {
    runtime.create_directory(directory).await?;
    let path = directory.join("flush-probe");
    match runtime.remove(&path).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    runtime.create(&path, PROBE_BYTES, Space::Allocated).await?;
    let measured = measure_file(runtime, &path).await;
    runtime.remove(&path).await?;
    measured
}

async fn measure_file<R: Runtime>(runtime: &R, path: &Path) -> io::Result<Measured> {
    let plain = runtime.open(path, Access::Direct).await?;
    let dsync = runtime.open(path, Access::DirectSync).await?;
    let mut zeros = runtime.allocate(usize::try_from(PROBE_BYTES).expect("a MiB"));
    zeros.bytes_mut().fill(0);
    plain.write_buffer(Rc::new(zeros), 0).await?;
    plain.sync_data().await?;
    let mut block = runtime.allocate(BLOCK_BYTES);
    block.bytes_mut().fill(0);
    let block = Rc::new(block);
    let (mut with_fdatasync, mut with_dsync) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let position = (pair * 2 * BLOCK_BYTES) as u64;
        let begun = runtime.now();
        plain.write_buffer(Rc::clone(&block), position).await?;
        plain.sync_data().await?;
        with_fdatasync.push(runtime.now().saturating_duration_since(begun));
        let begun = runtime.now();
        dsync.write_buffer(Rc::clone(&block), position + BLOCK_BYTES as u64).await?;
        with_dsync.push(runtime.now().saturating_duration_since(begun));
    }
    Ok(Measured { fdatasync: median(&mut with_fdatasync), dsync: median(&mut with_dsync) })
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
