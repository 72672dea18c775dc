//! RocketMQ's RemotingCommand as borrowed values: what every request and response has in common. Owns the reusable
//! table of ext fields; never knows what a field means (that is `header`).

use std::fmt;

/// `flag` bit: this is a response.
pub const FLAG_RESPONSE: i32 = 1;
/// `flag` bit: no response is wanted, whatever happens.
pub const FLAG_ONEWAY: i32 = 2;
/// The version we report: `V5_3_3` (remoting protocol, 1.7).
pub const VERSION: i32 = 479;

/// How a header is written; the high byte of the frame's second word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Serialization {
    /// JSON text, type 0.
    Json,
    /// Fixed binary layout, type 1.
    RocketMq,
}

impl Serialization {
    /// The type byte on the wire.
    pub fn byte(self) -> u8 {
        match self {
            Serialization::Json => 0,
            Serialization::RocketMq => 1,
        }
    }

    /// The serialisation of a type byte, if there is one.
    pub fn from_byte(kind: u8) -> Option<Serialization> {
        match kind {
            0 => Some(Serialization::Json),
            1 => Some(Serialization::RocketMq),
            _ => None,
        }
    }
}

/// The language a peer says it is written in: a number in binary headers, a name in JSON (remoting protocol, 1.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Language(pub u8);

const LANGUAGE_NAMES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
    "RUST", "NODE_JS",
];

impl Language {
    /// Java, and whoever says nothing.
    pub const JAVA: Language = Language(0);
    /// C++, and the Python client that wraps it.
    pub const CPP: Language = Language(1);
    /// Every name and number that isn't in the table.
    pub const OTHER: Language = Language(7);
    /// Go.
    pub const GO: Language = Language(9);
    /// Rust.
    pub const RUST: Language = Language(12);

    /// The language of a number; [`Language::OTHER`] when unknown.
    pub fn from_number(number: i64) -> Language {
        match u8::try_from(number) {
            Ok(number) if usize::from(number) < LANGUAGE_NAMES.len() => Language(number),
            _ => Language::OTHER,
        }
    }

    /// The language of a name; [`Language::OTHER`] when unknown.
    pub fn from_name(name: &str) -> Language {
        let number = LANGUAGE_NAMES.iter().position(|known| *known == name);
        number.and_then(|number| u8::try_from(number).ok()).map_or(Language::OTHER, Language)
    }

    /// Its name in JSON headers.
    pub fn name(self) -> &'static str {
        LANGUAGE_NAMES.get(usize::from(self.0)).copied().unwrap_or("OTHER")
    }
}

/// A table of (name, value) texts: one string that holds all of them, and their ends. Cleared and filled again for each
/// command, so that it allocates nothing once it has grown to the size of the usual header.
#[derive(Clone, Default)]
pub struct FieldTable {
    text: String,
    entries: Vec<Entry>,
}

/// Name and value stand side by side in the text, in this order.
#[derive(Clone, Copy)]
struct Entry {
    name_start: u32,
    name_end: u32,
    value_end: u32,
}

/// A piece of a [`FieldTable`]'s text that isn't a field: the remark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRange {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl FieldTable {
    /// An empty table; allocates on first use.
    pub fn new() -> FieldTable {
        FieldTable::default()
    }

    /// Forgets all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
    }

    /// Adds a field behind the others. A name may repeat: the later one counts.
    pub fn push(&mut self, name: &str, value: &str) {
        let name_start = self.text_end();
        self.text.push_str(name);
        let name_end = self.text_end();
        self.text.push_str(value);
        self.push_entry(name_start, name_end);
    }

    /// All fields in the order they came, repeated names included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| {
            let name = &self.text[entry.name_start as usize..entry.name_end as usize];
            (name, &self.text[entry.name_end as usize..entry.value_end as usize])
        })
    }

    /// The value of the last field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let is_it = |entry: &&Entry| {
            self.text.as_bytes()[entry.name_start as usize..entry.name_end as usize] == *name.as_bytes()
        };
        let entry = self.entries.iter().rev().find(is_it)?;
        Some(&self.text[entry.name_end as usize..entry.value_end as usize])
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Decoders write names and values straight into the text, then call `push_entry`.
    pub(crate) fn text_mut(&mut self) -> &mut String {
        &mut self.text
    }

    pub(crate) fn text_end(&self) -> u32 {
        // Texts come out of one frame, whose length is far below 4 GiB; only a caller of `push` could exceed it.
        u32::try_from(self.text.len()).expect("the text of one header is shorter than 4 GiB")
    }

    /// Declares that the text from `name_start` is a name up to `name_end` and then, up to its end now, a value.
    pub(crate) fn push_entry(&mut self, name_start: u32, name_end: u32) {
        let value_end = self.text_end();
        assert!(name_start <= name_end && name_end <= value_end, "{name_start} {name_end} {value_end}");
        self.entries.push(Entry { name_start, name_end, value_end });
    }

    /// Forgets the fields and keeps the text, of which a remark may be a part.
    pub(crate) fn clear_entries(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn text(&self, range: TextRange) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Gives memory back that one unusual header made it take.
    pub(crate) fn shrink_to(&mut self, text_bytes: usize) {
        if self.text.capacity() > text_bytes {
            self.clear();
            self.text.shrink_to(text_bytes);
        }
    }
}

impl fmt::Debug for FieldTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Equal when they hold the same fields in the same order.
impl PartialEq for FieldTable {
    fn eq(&self, other: &FieldTable) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FieldTable {}

/// One request or response, borrowed from a session until its next call. Bounded and well-formed; what its values say is
/// still only the peer's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// What is asked (`code::request`), or how it went (`code::response`).
    pub code: i32,
    /// The sender's language.
    pub language: Language,
    /// The sender's version, as RocketMQ counts them (remoting protocol, 1.7).
    pub version: i32,
    /// The sender's number for this request; a response repeats it. Any value, negative ones too.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`], [`FLAG_ONEWAY`]; test bits, never compare.
    pub flag: i32,
    /// Free text, in responses mostly the reason of a failure.
    pub remark: Option<&'a str>,
    /// The ext fields.
    pub fields: &'a FieldTable,
    /// The body; empty when there is none.
    pub body: &'a [u8],
    /// How its header was written, hence how to answer.
    pub serialization: Serialization,
}

impl Command<'_> {
    /// Whether this answers a request of ours.
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender wants no answer, whatever happens.
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_field_of_a_name_counts() {
        let mut table = FieldTable::new();
        table.push("topic", "A");
        table.push("", "empty name");
        table.push("topic", "B");
        assert_eq!(table.get("topic"), Some("B"));
        assert_eq!(table.get(""), Some("empty name"));
        assert_eq!(table.get("topi"), None);
        assert_eq!(table.len(), 3);
        table.clear();
        assert!(table.is_empty());
        assert_eq!(table.get("topic"), None);
    }

    #[test]
    fn languages_have_names_and_numbers_and_unknown_ones_are_other() {
        for number in 0..14 {
            let language = Language::from_number(number);
            assert_eq!(i64::from(language.0), number);
            assert_eq!(Language::from_name(language.name()), language);
        }
        for unknown in [-1, 14, 255, 256, i64::MAX] {
            assert_eq!(Language::from_number(unknown), Language::OTHER);
        }
        assert_eq!(Language::from_name("COBOL"), Language::OTHER);
        assert_eq!(Language(200).name(), "OTHER");
    }
}
