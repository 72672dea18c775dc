//! RocketMQ's remoting protocol: bytes to commands and back. No I/O, clock, threads or unsafe; bounded by what
//! [`limits`] says; a frame's header and body are borrowed from the receive buffer, and the ext fields are read into a
//! table that is used again, so that a steady stream of requests allocates nothing.
//!
//! ```text
//!             total                          kind and header length            header              body
//! ┌──────────────────────────────┬──────────────────────────────────────┬───────────────────┬────────────────┐
//! │ i32: bytes that follow       │ u8: 0 JSON, 1 ROCKETMQ │ u24: bytes  │ code, flag, opaque│ message, batch,│
//! │ (4 + header + body)          │                        │ of header   │ remark, ext fields│ JSON or nothing│
//! └──────────────────────────────┴──────────────────────────────────────┴───────────────────┴────────────────┘
//! ```
//!
//! Requests of one connection are pipelined and answered in any order, matched by `opaque`; both sides send requests.
//!
//! In reading order: [`frame`] cuts the stream, [`codec`] reads and writes headers of a [`command`], [`session`] is
//! both as one value per connection; [`header`] gives ext fields their types, [`message`] and [`properties`] read what
//! is stored and sent, [`body`] the JSON bodies; [`code`], [`limits`], [`error`] are tables.
//!
//! ```
//! use protocol::code::{request, response};
//! use protocol::header::offset::{OffsetResponse, QueueOffsetRequest};
//! use protocol::{Serialization, Session, frame, write_request, write_response};
//!
//! // What a client sends …
//! let mut sent = Vec::new();
//! let question = QueueOffsetRequest { topic: "TopicTest", queue_id: 3 };
//! question.encode(write_request(&mut sent, Serialization::Json, request::GET_MAX_OFFSET, 7, 0)).finish();
//!
//! // … a server takes out of its session and answers.
//! let mut session = Session::new(frame::FRAME_BYTES_MAX);
//! session.on_bytes(&sent);
//! let command = session.poll_command()?.expect("a whole frame has arrived");
//! assert_eq!(QueueOffsetRequest::decode(command.fields)?, question);
//! let mut answers = Vec::new();
//! let answer = write_response(&mut answers, command.serialization, response::SUCCESS, command.opaque);
//! OffsetResponse { offset: 42 }.encode(answer).finish();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod frame;
pub mod command;
pub mod codec;
pub mod session;
pub mod header;
pub mod message;
pub mod properties;
pub mod body;
pub mod code;
pub mod limits;
pub mod error;
#[doc(hidden)]
pub mod fuzz;

pub use codec::{FrameWriter, write_request, write_response};
pub use command::{Command, FieldTable, Language, Serialization, VERSION};
pub use error::Error;
pub use session::Session;
