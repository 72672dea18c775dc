//! The witness: `fio`, when it is installed, on the plain side's file.

use std::process::{Command, Stdio};

use engine::{io::BLOCK_BYTES, write::flush::SyncMethod};

use super::{Load, Problem, engine_side::record_bytes, plain_side::Plain};

/// Durable writes per second that `fio` reaches; `None` without `fio`. Its writes are whole blocks that don't overlap,
/// as many as the group needs.
///
/// # Errors
/// When it is there and fails.
pub fn measure(plain: &Plain, load: Load) -> Result<Option<f64>, Problem> {
    let (path, method) = plain.file();
    let bytes = (load.group * record_bytes()).next_multiple_of(BLOCK_BYTES);
    let mut fio = Command::new("fio");
    fio.args([
        "--name=floor",
        "--rw=write",
        "--ioengine=psync",
        "--direct=1",
        "--overwrite=1",
        "--time_based",
    ])
    .arg(match method {
        SyncMethod::Dsync => "--sync=dsync",
        SyncMethod::Fdatasync => "--fdatasync=1",
    })
    .arg(format!("--filename={}", path.display()))
    .arg(format!("--bs={bytes}"))
    .arg(format!("--size={}", plain.len() / bytes as u64 * bytes as u64))
    .arg(format!("--runtime={}ms", load.at_most.as_millis().max(1_000)))
    .arg("--output-format=json")
    .stdin(Stdio::null());
    let output = match fio.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot run fio: {error}")),
    };
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("fio's report can't be read: {error}"))?;
    match report["jobs"][0]["write"]["iops"].as_f64() {
        Some(per_second) if per_second > 0.0 => Ok(Some(per_second)),
        _ => Err("fio's report has no write rate".to_owned()),
    }
}
