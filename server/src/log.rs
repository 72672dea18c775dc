//! Log lines to stderr, written by a thread of their own: a slow terminal or pipe never holds up a core.
//!
//! Lines beyond what the thread can keep up with are dropped and counted; nothing of the data path waits for them.

use std::{
    io::Write,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;

/// How long the end of the process waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What the thread is handed.
enum Handed {
    Line(String),
    /// To be answered when everything before it is written.
    Flush(SyncSender<()>),
}

static SENDER: OnceLock<SyncSender<Handed>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts the thread. Call it before any thread is pinned, so that it isn't. Lines before that go out directly.
pub fn start() {
    let (sender, receiver) = sync_channel::<Handed>(LINES_MAX);
    let writer = thread::Builder::new().name("log".to_owned()).spawn(move || {
        for handed in receiver {
            let line = match handed {
                Handed::Line(line) => line,
                Handed::Flush(written) => {
                    // Whoever asked may have given up by now.
                    let _heard = written.try_send(());
                    continue;
                }
            };
            let dropped = DROPPED.swap(0, Ordering::Relaxed);
            let mut stderr = std::io::stderr().lock();
            if dropped > 0 {
                // Nobody can be told when stderr itself is gone.
                let _unsaid = writeln!(stderr, "WARN {dropped} log lines were dropped");
            }
            let _unsaid = writeln!(stderr, "{line}");
        }
    });
    if writer.is_ok() {
        // A second start in one process (tests) keeps the first thread.
        let _started = SENDER.set(sender);
    }
}

/// Something an operator may want to know.
pub fn info(text: &str) {
    write(format!("INFO {text}"));
}

/// Something an operator should look at.
pub fn warn(text: &str) {
    write(format!("WARN {text}"));
}

/// Waits until what was said so far is written, but not for a reader that is stuck. For the process' end, on an ordinary
/// thread.
pub fn flush() {
    let Some(sender) = SENDER.get() else { return };
    let (written, is_written) = sync_channel(1);
    if sender.try_send(Handed::Flush(written)).is_ok() {
        // In time or not, the process ends.
        let _written = is_written.recv_timeout(LAST_LINES);
    }
}

fn write(line: String) {
    match SENDER.get() {
        None => {
            let _unsaid = writeln!(std::io::stderr(), "{line}");
        }
        Some(sender) => {
            if let Err(TrySendError::Full(_)) = sender.try_send(Handed::Line(line)) {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
