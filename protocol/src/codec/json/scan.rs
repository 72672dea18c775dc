//! A scanner over one JSON text that never recurses beyond its bound, never allocates on the usual path, and reads each
//! byte once. It moves text into strings that its caller owns.

use std::borrow::Cow;

use crate::error::{JsonError, JsonErrorKind};
use crate::limits::HEADER_DEPTH_MAX;

pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

type Scanned<T> = Result<T, JsonError>;

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    pub(super) fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError { at: self.at, kind }
    }

    /// Walks one object: `member` is called with each key, and must read the value that follows.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Scanner<'t>, &str) -> Scanned<()>,
    ) -> Scanned<()> {
        self.open(b'{')?;
        let mut first = true;
        while self.next_item(b'}', &mut first)? {
            let key = self.string()?;
            self.colon()?;
            member(self, &key)?;
        }
        Ok(())
    }

    /// Only whitespace may be left.
    pub(super) fn end(&mut self) -> Scanned<()> {
        self.skip_space();
        match self.bytes().get(self.at) {
            None => Ok(()),
            Some(&byte) => Err(self.error(JsonErrorKind::UnexpectedByte { byte })),
        }
    }

    /// The next byte that isn't whitespace, which stays.
    pub(super) fn peek(&mut self) -> Scanned<u8> {
        self.skip_space();
        self.bytes().get(self.at).copied().ok_or(self.error(JsonErrorKind::UnexpectedEnd))
    }

    /// Takes an opening bracket.
    pub(super) fn open(&mut self, bracket: u8) -> Scanned<()> {
        self.take(bracket)
    }

    /// Takes the comma before the next item, if there is one, or else the closing bracket; says whether an item follows.
    pub(super) fn next_item(&mut self, bracket: u8, first: &mut bool) -> Scanned<bool> {
        let byte = self.peek()?;
        if byte == bracket {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.take(b',')?;
        }
        Ok(true)
    }

    pub(super) fn colon(&mut self) -> Scanned<()> {
        self.take(b':')
    }

    /// A string without its quotes; borrowed unless it has escapes.
    pub(super) fn string(&mut self) -> Scanned<Cow<'t, str>> {
        self.take(b'"')?;
        let start = self.at;
        let end = self.find_special()?;
        if self.bytes()[end] == b'"' {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[start..end]));
        }
        let mut text = String::new();
        self.rest_of_string_into(&mut text)?;
        Ok(Cow::Owned(text))
    }

    /// Appends a string without its quotes to `out`.
    pub(super) fn string_into(&mut self, out: &mut String) -> Scanned<()> {
        self.take(b'"')?;
        self.rest_of_string_into(out)
    }

    /// Appends the text of a scalar to `out`: a string's content, a number or boolean as written, an object or list as
    /// its JSON text. Says false, and appends nothing, for `null`.
    pub(super) fn scalar_into(&mut self, out: &mut String) -> Scanned<bool> {
        match self.peek()? {
            b'"' => self.string_into(out)?,
            b'n' => {
                self.literal("null")?;
                return Ok(false);
            }
            _ => {
                let start = self.at;
                self.skip_value(2)?;
                out.push_str(&self.text[start..self.at]);
            }
        }
        Ok(true)
    }

    /// A 32-bit integer, quoted or not; 0 for `null`.
    pub(super) fn integer(&mut self) -> Scanned<i32> {
        match self.peek()? {
            b'"' => {
                let text = self.string()?;
                text.parse().map_err(|_| self.error(JsonErrorKind::NotAnInteger))
            }
            b'n' => self.literal("null").map(|()| 0),
            _ => {
                let start = self.at;
                self.number()?;
                self.text[start..self.at].parse().map_err(|_| self.error(JsonErrorKind::NotAnInteger))
            }
        }
    }

    pub(super) fn literal(&mut self, word: &str) -> Scanned<()> {
        if self.bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        let byte = self.peek()?;
        Err(self.error(JsonErrorKind::UnexpectedByte { byte }))
    }

    /// Reads over any value; `depth` is how many objects and lists are open around it.
    pub(super) fn skip_value(&mut self, depth: usize) -> Scanned<()> {
        let byte = self.peek()?;
        match byte {
            b'"' => self.string().map(drop),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' | b'[' if depth >= HEADER_DEPTH_MAX => Err(self.error(JsonErrorKind::TooDeep)),
            b'{' => self.object(|scanner, _| scanner.skip_value(depth + 1)),
            b'[' => {
                self.at += 1;
                let mut first = true;
                while self.next_item(b']', &mut first)? {
                    self.skip_value(depth + 1)?;
                }
                Ok(())
            }
            _ => Err(self.error(JsonErrorKind::UnexpectedByte { byte })),
        }
    }

    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes().get(self.at) {
            self.at += 1;
        }
    }

    fn take(&mut self, expected: u8) -> Scanned<()> {
        let byte = self.peek()?;
        if byte != expected {
            return Err(self.error(JsonErrorKind::UnexpectedByte { byte }));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads over a number by JSON's grammar.
    fn number(&mut self) -> Scanned<()> {
        let bytes = self.bytes();
        let mut at = self.at + usize::from(bytes[self.at] == b'-');
        let whole_start = at;
        at = digits_end(bytes, at);
        let leading_zero = at > whole_start + 1 && bytes[whole_start] == b'0';
        let mut good = at > whole_start && !leading_zero;
        if bytes.get(at) == Some(&b'.') {
            let fraction_start = at + 1;
            at = digits_end(bytes, fraction_start);
            good &= at > fraction_start;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            let exponent_start = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            at = digits_end(bytes, exponent_start);
            good &= at > exponent_start;
        }
        if !good {
            return Err(self.error(JsonErrorKind::BadNumber));
        }
        self.at = at;
        Ok(())
    }

    fn rest_of_string_into(&mut self, out: &mut String) -> Scanned<()> {
        loop {
            let end = self.find_special()?;
            out.push_str(&self.text[self.at..end]);
            self.at = end + 1;
            if self.bytes()[end] == b'"' {
                return Ok(());
            }
            out.push(self.escape()?);
        }
    }

    /// The character that an escape stands for; the backslash has been read.
    fn escape(&mut self) -> Scanned<char> {
        let byte = *self.bytes().get(self.at).ok_or(self.error(JsonErrorKind::UnexpectedEnd))?;
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.error(JsonErrorKind::BadEscape)),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, and the low half that must follow a high one. A half alone becomes U+FFFD.
    fn unicode_escape(&mut self) -> Scanned<char> {
        let unit = self.hex_unit()?;
        if !(0xd800..0xdc00).contains(&unit) {
            return Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if !self.bytes()[self.at..].starts_with(b"\\u") {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let high_end = self.at;
        self.at += 1;
        let low = self.hex_unit()?;
        if (0xdc00..0xe000).contains(&low) {
            let scalar = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        self.at = high_end;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// The `u` and four hexadecimal digits.
    fn hex_unit(&mut self) -> Scanned<u32> {
        let Some(digits) = self.bytes().get(self.at + 1..self.at + 5) else {
            return Err(self.error(JsonErrorKind::UnexpectedEnd));
        };
        let mut unit = 0;
        for &digit in digits {
            let value = char::from(digit).to_digit(16).ok_or(self.error(JsonErrorKind::BadEscape))?;
            unit = unit << 4 | value;
        }
        self.at += 5;
        Ok(unit)
    }

    /// Where the next quote or backslash stands. Eight bytes at a time: property strings are long.
    fn find_special(&self) -> Scanned<usize> {
        const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
        const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
        let bytes = self.bytes();
        let mut at = self.at;
        while let Some(chunk) = bytes[at..].first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let found = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES);
            if found != 0 {
                return Ok(at + (found.trailing_zeros() / 8) as usize);
            }
            at += 8;
        }
        let tail = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
        tail.map(|offset| at + offset)
            .ok_or(JsonError { at: bytes.len(), kind: JsonErrorKind::UnexpectedEnd })
    }
}

/// The top bit of each byte of `word` that is zero; exact up to the first one, which is all that is asked.
fn zero_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

fn digits_end(bytes: &[u8], start: usize) -> usize {
    let count = bytes.get(start..).unwrap_or(&[]).iter().take_while(|byte| byte.is_ascii_digit()).count();
    start + count
}
