//! JSON, read in pieces: what may come next, and what would complete what has come.

use super::NotAResponse;

/// Deeper than anybody nests.
const MAX_DEPTH: usize = 1024;
/// Of a name or a value no more is kept.
const MAX_KEPT: usize = 256;
/// How far down names and values are kept.
const KEPT_DEPTH: usize = 2;

pub(super) struct Grammar {
    /// Of each object or array that is open, whether it is an object.
    open: Vec<bool>,
    place: Place,
    /// The name or the value that was read last, as it stands there.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before a value.
    Value,
    /// After `[`: a value, or the end.
    FirstItem,
    /// After `{`: a name, or the end.
    FirstName,
    /// After a comma in an object.
    Name,
    Colon,
    /// After a value: a comma, or the end of what it stands in.
    Next,
    InText {
        is_name: bool,
        text: Text,
    },
    InNumber(Number),
    /// In `true`, `false` or `null`, of which this is missing.
    InWord(&'static [u8]),
    /// After the message.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Plain,
    /// After an escape that wants the second half of a character.
    HalfCharacter,
    /// After a backslash.
    Escape {
        after_half: bool,
    },
    /// In `\uXXXX`, of which so many digits were read.
    Digits {
        after_half: bool,
        value: u16,
        read: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    /// Nothing but a point or an exponent may follow.
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// What a part of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// White space, or a part of something longer.
    Part,
    /// The first byte of a text or a scalar that is a value.
    Begin,
    /// The end of a name.
    Name,
    /// The end of a text or a scalar that is a value.
    End,
    Open,
    Close,
    Comma,
}

impl Grammar {
    pub(super) fn new() -> Grammar {
        Grammar { open: vec![], place: Place::Value, kept: vec![] }
    }

    /// How many objects and arrays are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether nothing has come yet of the list that was just opened.
    pub(super) fn is_empty(&self) -> bool {
        self.place == Place::FirstItem
    }

    /// Whether the innermost of them is an object.
    pub(super) fn in_object(&self) -> bool {
        self.open.last() == Some(&true)
    }

    pub(super) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// The name or the value that has just ended, unless it is long or deep.
    pub(super) fn kept(&self) -> Option<&[u8]> {
        (self.kept.len() <= MAX_KEPT).then_some(&self.kept)
    }

    /// Reads on in bytes that are not empty. Returns how many it has read, and what they are.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Token), NotAResponse> {
        match self.place {
            Place::InText { text: Text::Plain, .. } if !matches!(bytes[0], b'"' | b'\\') => {
                let end = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                // Without a way out, so that many are compared at once.
                if bytes[..end].iter().fold(u8::MAX, |least, byte| least.min(*byte)) < b' ' {
                    return Err(NotAResponse);
                }
                self.keep(&bytes[..end]);
                Ok((end, Token::Part))
            }
            Place::InText { is_name, text } => {
                self.keep(&bytes[..1]);
                self.read_text(is_name, text, bytes[0]).map(|token| (1, token))
            }
            Place::InNumber(number) => match number.then(bytes[0]) {
                Some(number) => {
                    self.keep(&bytes[..1]);
                    self.place = Place::InNumber(number);
                    Ok((1, Token::Part))
                }
                None if number.is_complete() => {
                    self.place = Place::Next;
                    Ok((0, Token::End))
                }
                None => Err(NotAResponse),
            },
            Place::InWord([next, rest @ ..]) if *next == bytes[0] => {
                self.keep(&bytes[..1]);
                self.place = if rest.is_empty() { Place::Next } else { Place::InWord(rest) };
                Ok((1, if rest.is_empty() { Token::End } else { Token::Part }))
            }
            Place::InWord(_) => Err(NotAResponse),
            _ if matches!(bytes[0], b' ' | b'\t' | b'\r' | b'\n') => Ok((1, Token::Part)),
            _ => self.read_between(bytes[0]).map(|token| (1, token)),
        }
    }

    /// A byte between names and values.
    fn read_between(&mut self, byte: u8) -> Result<Token, NotAResponse> {
        let (place, token) = match (self.place, byte) {
            (Place::FirstName | Place::Name, b'"') => {
                self.kept.clear();
                self.keep(b"\"");
                (Place::InText { is_name: true, text: Text::Plain }, Token::Part)
            }
            (Place::Colon, b':') => (Place::Value, Token::Part),
            (Place::Next, b',') if self.in_object() => (Place::Name, Token::Comma),
            (Place::Next, b',') if self.depth() > 0 => (Place::Value, Token::Comma),
            (Place::Next | Place::FirstName, b'}') if self.in_object() => (self.close(), Token::Close),
            (Place::Next | Place::FirstItem, b']') if !self.in_object() => (self.close(), Token::Close),
            (Place::Value | Place::FirstItem, b'{' | b'[') if self.depth() < MAX_DEPTH => {
                self.open.push(byte == b'{');
                (if byte == b'{' { Place::FirstName } else { Place::FirstItem }, Token::Open)
            }
            (Place::Value | Place::FirstItem, _) => {
                self.kept.clear();
                self.keep(&[byte]);
                let place = match byte {
                    b'"' => Place::InText { is_name: false, text: Text::Plain },
                    b'-' => Place::InNumber(Number::Minus),
                    b'0' => Place::InNumber(Number::Zero),
                    b'1'..=b'9' => Place::InNumber(Number::Whole),
                    b't' => Place::InWord(b"rue"),
                    b'f' => Place::InWord(b"alse"),
                    b'n' => Place::InWord(b"ull"),
                    _ => return Err(NotAResponse),
                };
                (place, Token::Begin)
            }
            _ => return Err(NotAResponse),
        };
        self.place = place;
        Ok(token)
    }

    fn read_text(&mut self, is_name: bool, text: Text, byte: u8) -> Result<Token, NotAResponse> {
        let text = match (text, byte) {
            (Text::Plain | Text::HalfCharacter, b'"') => {
                self.place = if is_name { Place::Colon } else { Place::Next };
                return Ok(if is_name { Token::Name } else { Token::End });
            }
            (Text::Plain | Text::HalfCharacter, b'\\') => {
                Text::Escape { after_half: text == Text::HalfCharacter }
            }
            (Text::Plain | Text::HalfCharacter, b' '..) => Text::Plain,
            (Text::Escape { after_half }, b'u') => Text::Digits { after_half, value: 0, read: 0 },
            (Text::Escape { .. }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Text::Plain,
            (Text::Digits { after_half, value, read }, _) => {
                let digit = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok());
                let value = value << 4 | digit.ok_or(NotAResponse)?;
                match (read, value) {
                    (3, 0xd800..=0xdbff) => Text::HalfCharacter,
                    (3, _) => Text::Plain,
                    _ => Text::Digits { after_half, value, read: read + 1 },
                }
            }
            _ => return Err(NotAResponse),
        };
        self.place = Place::InText { is_name, text };
        Ok(Token::Part)
    }

    /// Where we are after the innermost object or array.
    fn close(&mut self) -> Place {
        self.open.pop();
        if self.open.is_empty() { Place::Over } else { Place::Next }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.depth() <= KEPT_DEPTH {
            // One more than the longest, so that what is too long is seen to be.
            let room = (MAX_KEPT + 1).saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Writes what completes the text or the scalar that was begun, and the member that it belongs to.
    pub(super) fn complete(&mut self, out: &mut Vec<u8>) {
        match self.place {
            Place::InText { is_name, text } => {
                out.extend_from_slice(text.rest());
                out.extend_from_slice(if is_name { b"\":null" } else { b"\"" });
            }
            Place::InNumber(number) if !number.is_complete() => out.push(b'0'),
            Place::InWord(rest) => out.extend_from_slice(rest),
            Place::Colon => out.extend_from_slice(b":null"),
            Place::Value if self.in_object() => out.extend_from_slice(b"null"),
            // Something can be added here.
            Place::Value | Place::Name | Place::FirstItem | Place::FirstName => return,
            Place::InNumber(_) | Place::Next | Place::Over => {}
        }
        self.place = Place::Next;
    }

    /// Writes one more item or member into the innermost object or array, which is [complete](Grammar::complete).
    pub(super) fn add(&mut self, item: &[u8], out: &mut Vec<u8>) {
        if self.place == Place::Next {
            out.push(b',');
        }
        out.extend_from_slice(item);
        self.place = Place::Next;
    }

    /// Writes the end of the innermost object or array, which is [complete](Grammar::complete).
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        match self.place {
            Place::Value => out.extend_from_slice(b"null"),
            Place::Name => out.extend_from_slice(b"\"\":null"),
            _ => {}
        }
        out.push(if self.in_object() { b'}' } else { b']' });
        self.place = self.close();
    }

    /// What has come since the last value was not given on: as if it had not come. `is_first` if no value came before.
    pub(super) fn take_back(&mut self, is_first: bool) {
        self.place = if is_first { Place::FirstName } else { Place::Next };
    }

    /// The object or array that was just opened was not given on.
    pub(super) fn take_back_open(&mut self) {
        self.open.pop();
    }

    /// As [`take_back`](Grammar::take_back), for an object in the outermost one: what has come since a value in it was not given on.
    pub(super) fn reopen_result(&mut self, is_empty: bool) {
        self.open = vec![true, true];
        self.take_back(is_empty);
    }

    /// The same for a list in such an object.
    pub(super) fn reopen_content(&mut self, is_empty: bool) {
        self.open = vec![true, true, false];
        self.place = if is_empty { Place::FirstItem } else { Place::Next };
    }
}

impl Text {
    /// What completes it, up to the closing quote.
    fn rest(self) -> &'static [u8] {
        match self {
            Text::Plain => b"",
            Text::HalfCharacter => b"\\udc00",
            Text::Escape { after_half: false } => b"\\",
            Text::Escape { after_half: true } => b"udc00",
            Text::Digits { after_half: true, read, .. } => &b"dc00"[read..],
            // The first half of a character wants its second.
            Text::Digits { value: 0xd8..=0xdb, read: 2, .. } => b"00\\udc00",
            Text::Digits { value: 0xd80..=0xdbf, read: 3, .. } => b"0\\udc00",
            Text::Digits { read, .. } => &b"0000"[read..],
        }
    }
}

impl Number {
    fn then(self, byte: u8) -> Option<Number> {
        Some(match (self, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus, b'1'..=b'9') | (Number::Whole, b'0'..=b'9') => Number::Whole,
            (Number::Zero | Number::Whole, b'.') => Number::Point,
            (Number::Point | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Exponent, b'+' | b'-') => Number::Sign,
            (Number::Exponent | Number::Sign | Number::Power, b'0'..=b'9') => Number::Power,
            _ => return None,
        })
    }

    fn is_complete(self) -> bool {
        matches!(self, Number::Zero | Number::Whole | Number::Fraction | Number::Power)
    }
}
