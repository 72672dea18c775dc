//! A small remoting client: requests out, whole frames in, over a real socket or the scripted network.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use engine::io::script;
use protocol::{Language, Serialization, Session, frame::FRAME_BYTES_MAX, write_request};

/// A request as a test writes it down.
#[derive(Clone, Debug)]
pub struct Request {
    pub code: i32,
    pub flag: i32,
    pub version: i32,
    pub serialization: Serialization,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(code: i32) -> Request {
        Request {
            code,
            flag: 0,
            version: protocol::VERSION,
            serialization: Serialization::Json,
            fields: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Sets a field; one that is there already is replaced.
    pub fn field(mut self, name: &str, value: impl ToString) -> Request {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().to_vec();
        self
    }

    pub fn binary(mut self) -> Request {
        self.serialization = Serialization::RocketMq;
        self
    }

    pub fn oneway(mut self) -> Request {
        self.flag = protocol::command::FLAG_ONEWAY;
        self
    }

    pub fn version(mut self, version: i32) -> Request {
        self.version = version;
        self
    }

    pub fn frame(&self, opaque: i32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = write_request(&mut out, self.serialization, self.code, opaque, self.flag)
            .version(self.version)
            .language(Language(0));
        for (name, value) in &self.fields {
            writer = writer.field(name, value);
        }
        writer.finish_with_body(&self.body);
        out
    }
}

/// A JSON frame whose header is written out by the test.
pub fn raw_json(header: &str, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    out.extend_from_slice(&length(4 + header.len() + body.len()));
    out.extend_from_slice(&length(header.len()));
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

/// What came: an answer, or a request of the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub code: i32,
    pub flag: i32,
    pub opaque: i32,
    pub remark: Option<String>,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
    pub serialization: Serialization,
}

impl Frame {
    fn parse(bytes: &[u8]) -> Frame {
        let mut session = Session::new(FRAME_BYTES_MAX);
        session.on_bytes(bytes);
        let command =
            session.poll_command().expect("the server writes frames that read").expect("a whole frame");
        Frame {
            code: command.code,
            flag: command.flag,
            opaque: command.opaque,
            remark: command.remark.map(str::to_owned),
            fields: command.fields.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: command.body.to_vec(),
            serialization: command.serialization,
        }
    }

    pub fn is_answer(&self) -> bool {
        self.flag & protocol::command::FLAG_RESPONSE != 0
    }

    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }

    pub fn int(&self, name: &str) -> i64 {
        self.field(name).parse().unwrap_or_else(|_| panic!("{name} is no number in {self:?}"))
    }

    pub fn remark(&self) -> &str {
        self.remark.as_deref().unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// Itself, when its code is `code`.
    pub fn expect_code(self, code: i32) -> Frame {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// What carries the bytes.
pub trait Transport {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Exactly `len` bytes; an error when they don't come in reasonable time.
    fn receive(&mut self, len: usize) -> io::Result<Vec<u8>>;
}

impl Transport for script::Client {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        script::Client::send(self, bytes)
    }

    fn receive(&mut self, len: usize) -> io::Result<Vec<u8>> {
        script::Client::receive(self, len)
    }
}

impl Transport for TcpStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn receive(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// How long a real server may take for anything that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A connection with a memory for what came while something else was waited for.
pub struct Peer<T> {
    pub transport: T,
    opaque_next: i32,
    aside: VecDeque<Frame>,
}

/// A connection to a real process.
pub type TcpPeer = Peer<TcpStream>;

impl TcpPeer {
    pub fn connect(address: SocketAddr) -> TcpPeer {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer::new(stream)
    }
}

impl<T: Transport> Peer<T> {
    pub fn new(transport: T) -> Peer<T> {
        Peer { transport, opaque_next: 1, aside: VecDeque::new() }
    }

    /// Sends `request`; the opaque by which its answer is known.
    pub fn send(&mut self, request: &Request) -> i32 {
        let opaque = self.opaque_next;
        self.opaque_next += 1;
        self.transport.send(&request.frame(opaque)).expect("the server takes requests");
        opaque
    }

    pub fn call(&mut self, request: &Request) -> Frame {
        let opaque = self.send(request);
        self.answer(opaque)
    }

    /// The answer to `opaque`; everything else is kept for later.
    pub fn answer(&mut self, opaque: i32) -> Frame {
        self.take(|frame| frame.is_answer() && frame.opaque == opaque)
    }

    /// The next request of the server's own.
    pub fn push(&mut self) -> Frame {
        self.take(|frame| !frame.is_answer())
    }

    fn take(&mut self, wanted: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(at) = self.aside.iter().position(&wanted) {
            return self.aside.remove(at).expect("it was found there");
        }
        loop {
            let frame = self.receive().expect("the server answers in time");
            if wanted(&frame) {
                return frame;
            }
            self.aside.push_back(frame);
        }
    }

    /// The next frame, whatever it is.
    pub fn receive(&mut self) -> io::Result<Frame> {
        let mut bytes = self.transport.receive(4)?;
        let len = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        bytes.extend(self.transport.receive(len)?);
        Ok(Frame::parse(&bytes))
    }
}

impl Peer<script::Client> {
    /// Whole frames that have come by now, without time passing.
    pub fn arrived(&mut self) -> Vec<Frame> {
        let mut frames: Vec<Frame> = self.aside.drain(..).collect();
        let bytes = self.transport.receive_some().expect("the connection holds");
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = 4 + u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            frames.push(Frame::parse(&rest[..len]));
            rest = &rest[len..];
        }
        frames
    }
}
