//! What several themes need: hexadecimal, an owned picture of a command, a random stream with a fixed seed.

use protocol::{Command, Error, Language, Serialization, Session};

/// Bytes of a hexadecimal text; whitespace is skipped.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap() as u8).collect();
    assert!(digits.len().is_multiple_of(2), "odd number of hexadecimal digits");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A command that outlives its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub code: i32,
    pub language: Language,
    pub version: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<String>,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub serialization: Serialization,
}

impl From<Command<'_>> for Owned {
    fn from(command: Command<'_>) -> Owned {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Owned {
            code: command.code,
            language: command.language,
            version: command.version,
            opaque: command.opaque,
            flag: command.flag,
            remark: command.remark.map(str::to_owned),
            fields: command.fields.iter().map(own).collect(),
            body: command.body.to_vec(),
            serialization: command.serialization,
        }
    }
}

/// All commands that a session has now.
pub fn drain(session: &mut Session) -> Result<Vec<Owned>, Error> {
    let mut commands = Vec::new();
    while let Some(command) = session.poll_command()? {
        commands.push(command.into());
    }
    Ok(commands)
}

/// All commands of a whole stream; nothing may be left over.
pub fn decode_all(stream: &[u8]) -> Vec<Owned> {
    let mut session = Session::new(protocol::frame::FRAME_BYTES_MAX);
    session.on_bytes(stream);
    let commands = drain(&mut session).unwrap();
    assert_eq!(session.buffered_len(), 0, "bytes are left over");
    commands
}

/// The only command of a frame.
pub fn decode_one(frame: &[u8]) -> Owned {
    let mut commands = decode_all(frame);
    assert_eq!(commands.len(), 1);
    commands.remove(0)
}

/// Splitmix64: small, seeded, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A text of up to `len_max` characters, with what needs escaping and what has several bytes in it.
    pub fn text(&mut self, len_max: usize) -> String {
        const ALPHABET: &[char] = &[
            'a', 'Z', '0', ' ', '"', '\\', '/', '\n', '\u{1}', '\u{2}', '\u{1f}', '\u{7f}', 'é', '订', '😀',
            '{',
        ];
        let len = self.below(len_max + 1);
        (0..len).map(|_| ALPHABET[self.below(ALPHABET.len())]).collect()
    }
}
