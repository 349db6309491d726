//! Undoes the escapes that programs put into text: of URLs, of forms, of JSON and shells, of HTML.
//!
//! Which characters a program escapes differs from one to the next, and so does how, so nothing here expects that: each
//! escape is undone where it stands, and everything else stands for itself. Nothing here knows what is looked for.

/// A byte of a reading, and where in the stream begins what stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedByte {
    pub(super) start: u64,
    pub(super) byte: u8,
}

/// A way to escape characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EscapeStyle {
    /// `%2F`, as in URLs.
    Percent,
    /// The same, with `+` for a space, as in forms.
    Form,
    /// `\"`, `\n`, `\u00e9`, `\xc3`, `\303`: as in JSON, in programs and after `printf %q` of a shell.
    Backslash,
    /// The same where `\xe9` is a character and not a byte.
    Point,
    /// `&amp;`, `&#39;`, as in HTML and XML.
    Entity,
}

/// How a text is read beside as it is: which escapes are undone, one after the other. JSON is often put into JSON, and a
/// URL into a URL.
pub(super) const READINGS: &[&[EscapeStyle]] = &[
    &[EscapeStyle::Percent],
    &[EscapeStyle::Percent, EscapeStyle::Percent],
    &[EscapeStyle::Form],
    &[EscapeStyle::Backslash],
    &[EscapeStyle::Backslash, EscapeStyle::Backslash],
    &[EscapeStyle::Point],
    &[EscapeStyle::Entity],
];

/// Whether a byte begins an escape of any sort.
pub(super) fn begins_one(byte: u8) -> bool {
    matches!(byte, b'%' | b'+' | b'\\' | b'&')
}

/// The longest entity that is undone, from `&` to `;`.
const LONGEST_ENTITY: usize = 10;

/// What the beginning of an escape is so far.
enum Undone {
    /// More bytes decide.
    Open,
    /// It is none: its first byte stands for itself.
    Nothing,
    /// It stands for this character.
    Character(char),
    /// It stands for this byte.
    Byte(u8),
}

impl EscapeStyle {
    fn begins_with(self, byte: u8) -> bool {
        match self {
            Self::Percent => byte == b'%',
            Self::Form => matches!(byte, b'%' | b'+'),
            Self::Backslash | Self::Point => byte == b'\\',
            Self::Entity => byte == b'&',
        }
    }

    fn undo(self, bytes: &[u8]) -> Undone {
        match self {
            Self::Form if bytes == b"+" => Undone::Byte(b' '),
            Self::Percent | Self::Form => hex_byte(&bytes[1..]),
            Self::Backslash => backslash(&bytes[1..]),
            Self::Point => match bytes.strip_prefix(b"\\x") {
                Some(digits) => hex_character(digits, 2),
                None => backslash(&bytes[1..]),
            },
            Self::Entity => entity(&bytes[1..]),
        }
    }
}

/// Undoes one sort of escape, byte by byte.
#[derive(Debug)]
pub(super) struct Unescape {
    escape: EscapeStyle,
    /// The beginning of what may be an escape.
    open: Vec<PlacedByte>,
}

impl Unescape {
    pub(super) fn new(escape: EscapeStyle) -> Self {
        Self { escape, open: Vec::new() }
    }

    /// Whether a byte would begin an escape, or be one.
    pub(super) fn is_begun_by(&self, byte: u8) -> bool {
        self.escape.begins_with(byte)
    }

    /// Whether a byte stands for itself.
    pub(super) fn passes(&self, byte: u8) -> bool {
        self.open.is_empty() && !self.is_begun_by(byte)
    }

    /// Where begins what is not decided yet.
    pub(super) fn open_from(&self) -> Option<u64> {
        self.open.first().map(|placed| placed.start)
    }

    /// Takes a byte, and gives what is decided.
    pub(super) fn push(&mut self, next: PlacedByte, give: &mut Vec<PlacedByte>) {
        if self.passes(next.byte) {
            give.push(next);
            return;
        }
        self.open.push(next);
        let bytes: Vec<u8> = self.open.iter().map(|placed| placed.byte).collect();
        let start = self.open[0].start;
        match self.escape.undo(&bytes) {
            Undone::Open => {}
            Undone::Byte(byte) => {
                self.open.clear();
                give.push(PlacedByte { start, byte });
            }
            Undone::Character(character) => {
                self.open.clear();
                let mut buffer = [0; 4];
                give.extend(
                    character.encode_utf8(&mut buffer).bytes().map(|byte| PlacedByte { start, byte }),
                );
            }
            Undone::Nothing => {
                // An escape is a few bytes long, so this goes a few levels deep.
                let open = std::mem::take(&mut self.open);
                give.push(open[0]);
                for placed in &open[1..] {
                    self.push(*placed, give);
                }
            }
        }
    }
}

/// The number of hexadecimal digits, when all bytes are such.
fn hex(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u32::from_str_radix(text, 16).ok() } else { None }
}

/// A byte as two hexadecimal digits.
fn hex_byte(digits: &[u8]) -> Undone {
    if digits.is_empty() {
        return Undone::Open;
    }
    match (hex(digits).map(u8::try_from), digits.len()) {
        (Some(Ok(byte)), 2) => Undone::Byte(byte),
        (Some(_), 1) => Undone::Open,
        _ => Undone::Nothing,
    }
}

/// A character as so many hexadecimal digits.
fn hex_character(digits: &[u8], count: usize) -> Undone {
    if digits.is_empty() {
        return Undone::Open;
    }
    match hex(digits) {
        None => Undone::Nothing,
        Some(_) if digits.len() < count => Undone::Open,
        Some(code) => char::from_u32(code).map_or(Undone::Nothing, Undone::Character),
    }
}

/// What follows a backslash.
fn backslash(rest: &[u8]) -> Undone {
    let Some((kind, digits)) = rest.split_first() else { return Undone::Open };
    match kind {
        b'a' => Undone::Byte(7),
        b'b' => Undone::Byte(8),
        b'e' | b'E' => Undone::Byte(27),
        b'f' => Undone::Byte(12),
        b'n' => Undone::Byte(b'\n'),
        b'r' => Undone::Byte(b'\r'),
        b't' => Undone::Byte(b'\t'),
        b'v' => Undone::Byte(11),
        b'x' => hex_byte(digits),
        b'U' => hex_character(digits, 8),
        b'u' => match digits {
            [b'{', inner @ .., b'}'] => hex_character(inner, 1),
            [b'{', inner @ ..] if inner.len() <= 6 && (inner.is_empty() || hex(inner).is_some()) => {
                Undone::Open
            }
            [b'{', ..] => Undone::Nothing,
            _ => utf16(digits),
        },
        b'0'..=b'7' if rest.len() < 3 => Undone::Open,
        b'0'..=b'7' => {
            let octal = std::str::from_utf8(rest).ok().and_then(|text| u8::from_str_radix(text, 8).ok());
            octal.map_or(Undone::Nothing, Undone::Byte)
        }
        other => Undone::Byte(*other),
    }
}

/// What follows `\u`: four digits, and another escape where that is half of a character.
fn utf16(digits: &[u8]) -> Undone {
    let Some((unit, low)) = digits.split_at_checked(4) else { return hex_character(digits, 4) };
    let Some(high) = hex(unit) else { return Undone::Nothing };
    if !(0xD800..0xDC00).contains(&high) {
        return hex_character(unit, 4);
    }
    match low.split_at_checked(2) {
        None if b"\\u".starts_with(low) => Undone::Open,
        Some((b"\\u", digits)) if digits.len() < 4 => Undone::Open,
        Some((b"\\u", digits)) => match hex(digits) {
            Some(low @ 0xDC00..0xE000) => {
                let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                char::from_u32(code).map_or(Undone::Nothing, Undone::Character)
            }
            _ => Undone::Nothing,
        },
        _ => Undone::Nothing,
    }
}

/// What follows `&`.
fn entity(rest: &[u8]) -> Undone {
    let Some((b';', name)) = rest.split_last() else {
        let is_name = rest.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
        return if is_name && rest.len() < LONGEST_ENTITY - 1 { Undone::Open } else { Undone::Nothing };
    };
    let code = match name {
        b"amp" => return Undone::Byte(b'&'),
        b"lt" => return Undone::Byte(b'<'),
        b"gt" => return Undone::Byte(b'>'),
        b"quot" => return Undone::Byte(b'"'),
        b"apos" => return Undone::Byte(b'\''),
        [b'#', b'x' | b'X', digits @ ..] => hex(digits),
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    code.and_then(char::from_u32).map_or(Undone::Nothing, Undone::Character)
}
