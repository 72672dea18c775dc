//! One connection's inbound half as a value: bytes go in, whole commands come out. No socket, no clock.
//!
//! Order of calls: ask for [`Session::receive_room`], receive into it, say [`Session::on_received`], then take commands
//! by [`Session::poll_command`] until it says `None`. An error is final: the session repeats it, the connection is closed.
//!
//! Memory: the buffer grows with what has really arrived, at most doubling, never because a length word claims much;
//! it holds at most one frame and the room asked for, as long as commands are taken out before more is received. What
//! one long frame made it take is given back once it has been consumed.

use crate::codec;
use crate::command::{Command, FieldTable};
use crate::error::Error;
use crate::frame;
use crate::limits::{FIELDS_RETAINED_BYTES, SESSION_RETAINED_BYTES};

/// See the module's text.
pub struct Session {
    frame_bytes_max: usize,
    /// Received and not yet consumed: `buffer[start..end]`. The rest is room.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    fields: FieldTable,
    failure: Option<Error>,
}

impl Session {
    /// A session that refuses frames longer than `frame_bytes_max`, usually [`frame::FRAME_BYTES_MAX`]. Allocates on
    /// first use, so that idle connections are cheap.
    pub fn new(frame_bytes_max: usize) -> Session {
        Session {
            frame_bytes_max,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            fields: FieldTable::new(),
            failure: None,
        }
    }

    /// Room to receive into, at least `len_min` bytes.
    pub fn receive_room(&mut self, len_min: usize) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.give_back_what_is_unusual(len_min);
        }
        if self.buffer.len() - self.end < len_min {
            self.make_room(len_min);
        }
        &mut self.buffer[self.end..]
    }

    /// Says that the first `len` bytes of the room have been filled.
    pub fn on_received(&mut self, len: usize) {
        let room = self.buffer.len() - self.end;
        assert!(len <= room, "{len} bytes received into a room of {room}");
        self.end += len;
    }

    /// Copies received bytes in: for tests, and clients that don't mind the copy.
    pub fn on_bytes(&mut self, bytes: &[u8]) {
        self.receive_room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.on_received(bytes.len());
    }

    /// The next whole command; `None` when more bytes are needed. What is returned is borrowed until the next call.
    pub fn poll_command(&mut self) -> Result<Option<Command<'_>>, Error> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let received = &self.buffer[self.start..self.end];
        let (frame, consumed) = match frame::split(received, self.frame_bytes_max) {
            Ok(Some(split)) => split,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.failure = Some(error.into());
                return Err(error.into());
            }
        };
        self.start += consumed;
        let command = codec::decode(frame, &mut self.fields);
        if let Err(error) = command {
            self.failure = Some(error);
        }
        command.map(Some)
    }

    /// Bytes received that belong to no command taken yet.
    pub fn buffered_len(&self) -> usize {
        self.end - self.start
    }

    /// Bytes of memory it holds: for accounting and tests.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.fields.memory_bytes()
    }

    fn make_room(&mut self, len_min: usize) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let needed = self.end + len_min;
        if self.buffer.len() < needed {
            // Twice what is there keeps the copying of long frames linear; what is there can't exceed one frame by much.
            let doubled = (self.end * 2).min(self.frame_bytes_max);
            // Rounded up, because the rest of a frame that is kept varies: else every longest one so far would grow it.
            let len = needed.max(doubled).next_multiple_of(GROWTH_BYTES);
            self.buffer.reserve_exact(len - self.buffer.len());
            self.buffer.resize(len, 0);
        }
    }

    fn give_back_what_is_unusual(&mut self, len_min: usize) {
        let retained = SESSION_RETAINED_BYTES.max(len_min);
        if self.buffer.len() > retained {
            self.buffer.truncate(retained);
            self.buffer.shrink_to(retained);
        }
        self.fields.shrink_to(FIELDS_RETAINED_BYTES);
    }
}

/// The receive buffer grows by whole ones of these.
const GROWTH_BYTES: usize = 8 * 1024;
