//! What can go wrong for the person at the terminal. Every message says what was wrong, where, and what to do;
//! nothing here is parsed by other code.

use std::fmt;
use std::io;
use std::path::Path;

/// A failure of a whole command. Failures of single messages are counted, not raised.
#[derive(Debug)]
pub enum Error {
    /// The command line asks for something that cannot be done.
    Usage(String),
    /// The operating system refused: what was being done, and its answer.
    Os {
        /// What was being done, with the path or address.
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A server answered a control request with an error code.
    Refused {
        /// The request, in words.
        request: String,
        /// Who answered.
        server: String,
        /// RocketMQ's response code.
        code: i32,
        /// The server's remark.
        remark: String,
    },
    /// A server sent what RocketMQ's protocol does not allow here.
    Protocol {
        /// Who sent it.
        server: String,
        /// What was wrong.
        what: String,
    },
    /// The carried server did not start, stopped by itself, or did not stop.
    Server(String),
    /// The disk has not the room that the plan needs.
    Space {
        /// Where.
        directory: String,
        /// Bytes the plan needs.
        needed: u64,
        /// Bytes the file system offers.
        free: u64,
        /// What would help.
        remedy: String,
    },
    /// A report or evidence file is not what it should be.
    Data(String),
}

/// The result of nearly everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an error of the system with what was being done.
    pub fn os(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error::Os { doing: doing.into(), source: source.into() }
    }

    /// As [`Error::os`], for a path.
    pub fn path(doing: &str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::os(format!("{doing} {}", path.display()), source)
    }

    /// Wraps what a server got wrong.
    pub fn protocol(server: impl fmt::Display, what: impl Into<String>) -> Error {
        Error::Protocol { server: server.to_string(), what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(what) | Error::Server(what) | Error::Data(what) => f.write_str(what),
            Error::Os { doing, source } => write!(f, "{doing}: {source}"),
            Error::Refused { request, server, code, remark } => {
                write!(f, "{server} refused to {request}: code {code} ({remark})")
            }
            Error::Protocol { server, what } => write!(f, "{server} broke the protocol: {what}"),
            Error::Space { directory, needed, free, remedy } => write!(
                f,
                "not enough room in {directory}: the plan needs {}, the file system offers {}; {remedy}",
                crate::units::bytes(*needed),
                crate::units::bytes(*free)
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}
