//! Appends whole frames to a byte buffer, so that many answers leave in one send. Values are written in place and the
//! lengths patched at the end; nothing is allocated when the buffer has room. JSON keys come in Java's (alphabetical)
//! order, so that what we write can be compared with captures byte for byte.

use super::json::write_string;
use super::rocketmq::{EMPTY_BYTES, FIXED_BYTES};
use crate::command::{FLAG_RESPONSE, Language, Serialization, VERSION};
use crate::frame::{LENGTH_BYTES, PREFIX_BYTES};
use crate::limits::{FIELD_NAME_BYTES_MAX, HEADER_BYTES_MAX};

/// A frame being written at the end of a buffer. Call what applies in any order, then one of the `finish` methods.
#[must_use = "the buffer holds half a frame until one of the finish methods is called"]
pub struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the frame begins in `out`.
    start: usize,
    serialization: Serialization,
    code: i32,
    opaque: i32,
    flag: i32,
    language: Language,
    version: i32,
    remark: Option<&'a str>,
    has_fields: bool,
}

/// Begins a response: `flag` 1, language JAVA (which every client knows), our version.
pub fn write_response<'a>(
    out: &'a mut Vec<u8>,
    serialization: Serialization,
    code: i32,
    opaque: i32,
) -> FrameWriter<'a> {
    FrameWriter::begin(out, serialization, code, opaque, FLAG_RESPONSE)
}

/// Begins a request with the given `flag` (0, or [`crate::command::FLAG_ONEWAY`]). Language and version as in
/// [`write_response`] unless set.
pub fn write_request<'a>(
    out: &'a mut Vec<u8>,
    serialization: Serialization,
    code: i32,
    opaque: i32,
    flag: i32,
) -> FrameWriter<'a> {
    FrameWriter::begin(out, serialization, code, opaque, flag)
}

impl<'a> FrameWriter<'a> {
    fn begin(
        out: &'a mut Vec<u8>,
        wanted: Serialization,
        code: i32,
        opaque: i32,
        flag: i32,
    ) -> FrameWriter<'a> {
        // Binary headers have 16 bits for the code. Peers that speak them read JSON too.
        let serialization = if i16::try_from(code).is_ok() { wanted } else { Serialization::Json };
        let start = out.len();
        match serialization {
            Serialization::Json => {
                out.extend_from_slice(&[0; PREFIX_BYTES]);
                out.extend_from_slice(b"{\"code\":");
                write_integer(out, code.into());
            }
            Serialization::RocketMq => out.extend_from_slice(&[0; PREFIX_BYTES + EMPTY_BYTES]),
        }
        let (language, version) = (Language::JAVA, VERSION);
        FrameWriter {
            out,
            start,
            serialization,
            code,
            opaque,
            flag,
            language,
            version,
            remark: None,
            has_fields: false,
        }
    }

    /// Says another language than JAVA.
    pub fn language(mut self, language: Language) -> Self {
        self.language = language;
        self
    }

    /// Says another version than ours.
    pub fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Sets the remark; the last one counts.
    pub fn remark(mut self, remark: &'a str) -> Self {
        self.remark = Some(remark);
        self
    }

    /// Adds an ext field. Names are ours, at most [`FIELD_NAME_BYTES_MAX`] bytes.
    pub fn field(mut self, name: &str, value: &str) -> Self {
        match self.serialization {
            Serialization::Json => {
                self.write_json_name(name);
                write_string(self.out, value);
            }
            Serialization::RocketMq => {
                self.write_binary_name(name);
                write_length(self.out, value.len());
                self.out.extend_from_slice(value.as_bytes());
            }
        }
        self
    }

    /// Adds an ext field that is an integer, written as its text: all ext fields are strings on the wire.
    pub fn field_int(mut self, name: &str, value: i64) -> Self {
        match self.serialization {
            Serialization::Json => {
                self.write_json_name(name);
                self.out.push(b'"');
                write_integer(self.out, value);
                self.out.push(b'"');
            }
            Serialization::RocketMq => {
                self.write_binary_name(name);
                let length_at = self.out.len();
                self.out.extend_from_slice(&[0; 4]);
                write_integer(self.out, value);
                let length = length_word(self.out.len() - length_at - 4);
                self.out[length_at..length_at + 4].copy_from_slice(&length);
            }
        }
        self
    }

    /// Adds an ext field that is `true` or `false`.
    pub fn field_bool(self, name: &str, value: bool) -> Self {
        self.field(name, if value { "true" } else { "false" })
    }

    /// Adds an ext field if it has a value.
    pub fn field_opt(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Ends a frame without body.
    pub fn finish(self) {
        self.finish_with_body_len(0);
    }

    /// Ends a frame with this body.
    pub fn finish_with_body(mut self, body: &[u8]) {
        self.end_header(body.len());
        self.out.extend_from_slice(body);
    }

    /// Ends the header of a frame whose body, exactly `body_len` bytes, the caller appends next, or sends from elsewhere.
    pub fn finish_with_body_len(mut self, body_len: usize) {
        self.end_header(body_len);
    }

    fn write_json_name(&mut self, name: &str) {
        assert!(name.len() <= FIELD_NAME_BYTES_MAX, "field name of {} bytes", name.len());
        let before: &[u8] = if self.has_fields { b"," } else { b",\"extFields\":{" };
        self.out.extend_from_slice(before);
        self.has_fields = true;
        write_string(self.out, name);
        self.out.push(b':');
    }

    fn write_binary_name(&mut self, name: &str) {
        assert!(name.len() <= FIELD_NAME_BYTES_MAX, "field name of {} bytes", name.len());
        let length = i16::try_from(name.len()).expect("the bound is below 16 bits");
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(name.as_bytes());
    }

    fn end_header(&mut self, body_len: usize) {
        match self.serialization {
            Serialization::Json => self.end_json(),
            Serialization::RocketMq => self.end_binary(),
        }
        let header_len = self.out.len() - self.start - PREFIX_BYTES;
        assert!(header_len <= HEADER_BYTES_MAX, "header of {header_len} bytes");
        let [_, high, middle, low] = length_word(header_len);
        let prefix = &mut self.out[self.start..self.start + PREFIX_BYTES];
        prefix[..4].copy_from_slice(&length_word(PREFIX_BYTES - LENGTH_BYTES + header_len + body_len));
        prefix[4..].copy_from_slice(&[self.serialization.byte(), high, middle, low]);
    }

    fn end_json(&mut self) {
        if self.has_fields {
            self.out.push(b'}');
        }
        self.out.extend_from_slice(b",\"flag\":");
        write_integer(self.out, self.flag.into());
        self.out.extend_from_slice(b",\"language\":\"");
        self.out.extend_from_slice(self.language.name().as_bytes());
        self.out.extend_from_slice(b"\",\"opaque\":");
        write_integer(self.out, self.opaque.into());
        if let Some(remark) = self.remark {
            self.out.extend_from_slice(b",\"remark\":");
            write_string(self.out, remark);
        }
        self.out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        write_integer(self.out, self.version.into());
        self.out.push(b'}');
    }

    fn end_binary(&mut self) {
        let header_start = self.start + PREFIX_BYTES;
        let fields_len = self.out.len() - header_start - EMPTY_BYTES;
        let code = i16::try_from(self.code).expect("other codes are written in JSON");
        let version = i16::try_from(self.version).unwrap_or(i16::MAX);
        let remark = self.remark.unwrap_or("");
        let mut fixed = [0; EMPTY_BYTES];
        fixed[0..2].copy_from_slice(&code.to_be_bytes());
        fixed[2] = self.language.0;
        fixed[3..5].copy_from_slice(&version.to_be_bytes());
        fixed[5..9].copy_from_slice(&self.opaque.to_be_bytes());
        fixed[9..13].copy_from_slice(&self.flag.to_be_bytes());
        fixed[13..17].copy_from_slice(&length_word(remark.len()));
        fixed[17..21].copy_from_slice(&length_word(fields_len));
        self.out[header_start..header_start + EMPTY_BYTES].copy_from_slice(&fixed);
        if !remark.is_empty() {
            // The remark stands before the fields. It is rare and short, so making room late is cheap.
            let at = header_start + FIXED_BYTES + 4;
            self.out.splice(at..at, remark.bytes());
        }
    }
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&length_word(length));
}

fn length_word(length: usize) -> [u8; 4] {
    i32::try_from(length).expect("a frame is shorter than 2 GiB").to_be_bytes()
}

/// Appends an integer in decimal.
pub(crate) fn write_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}
