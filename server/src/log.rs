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
};

/// Lines that may wait to be written.
const LINES_MAX: usize = 4096;

static SENDER: OnceLock<SyncSender<String>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Starts the thread. Call it before any thread is pinned, so that it isn't. Lines before that go out directly.
pub fn start() {
    let (sender, receiver) = sync_channel::<String>(LINES_MAX);
    let writer = thread::Builder::new().name("log".to_owned()).spawn(move || {
        for line in receiver {
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

fn write(line: String) {
    match SENDER.get() {
        None => {
            let _unsaid = writeln!(std::io::stderr(), "{line}");
        }
        Some(sender) => {
            if let Err(TrySendError::Full(_)) = sender.try_send(line) {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
