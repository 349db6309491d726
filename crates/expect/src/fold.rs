//! Texts in which capitals and small letters are the same.
//!
//! Folding goes character by character, through capitals to small letters, so that `ß` meets `SS` and all forms of a
//! sigma are one. A part in ASCII, which most are, is looked for in place.

use std::cell::Cell;

/// A text to look for, folded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needle {
    plain: Box<str>,
    /// Folded, where it is to be found in any case.
    folded: Option<Folded>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Folded {
    text: Box<str>,
    is_ascii: bool,
}

/// Where in a text a part has to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextPosition {
    Start,
    End,
    Anywhere,
    Whole,
}

impl Needle {
    pub(crate) fn new(text: &str, fold: bool) -> Self {
        let folded = fold.then(|| {
            let mut folded = String::new();
            fold_into(text, &mut folded);
            Folded { is_ascii: folded.is_ascii(), text: folded.into() }
        });
        Self { plain: text.into(), folded }
    }

    /// Whether it stands there. `scratch` is used where the text has to be folded as a whole.
    pub(crate) fn is_in(&self, text: &str, place: TextPosition, scratch: &mut String) -> bool {
        self.is_in_text(&SearchedText::new(text), place, scratch)
    }

    /// The same of a text that is looked at more than once.
    pub(crate) fn is_in_text(
        &self,
        text: &SearchedText<'_>,
        place: TextPosition,
        scratch: &mut String,
    ) -> bool {
        let Some(folded) = &self.folded else { return stands(text.text, &self.plain, place) };
        // What stands there before the text is folded does so after it.
        if folded.is_ascii && stands_as_ascii(text.text, &folded.text, place) {
            return true;
        }
        match text.letters() {
            Letters::Ascii => return false,
            Letters::Others if folded.is_ascii => return false,
            Letters::Others | Letters::Hidden => {}
        }
        scratch.clear();
        fold_into(text.text, scratch);
        stands(scratch, &folded.text, place)
    }
}

/// A text to look in. What has to be known of the whole of it is found out once.
pub(crate) struct SearchedText<'t> {
    text: &'t str,
    letters: Cell<Option<Letters>>,
}

#[derive(Clone, Copy)]
enum Letters {
    Ascii,
    /// There are others, and none of them folds to ASCII.
    Others,
    /// Some may fold to ASCII, as `ß` does and the sign of Kelvin.
    Hidden,
}

impl<'t> SearchedText<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, letters: Cell::new(None) }
    }

    fn letters(&self) -> Letters {
        let letters = self.letters.get().unwrap_or_else(|| letters(self.text));
        self.letters.set(Some(letters));
        letters
    }
}

/// What looks at bytes never ends early: so the compiler makes a few instructions of many of them.
fn letters(text: &str) -> Letters {
    let bytes = text.as_bytes();
    if bytes.iter().fold(0, |all, byte| all | byte).is_ascii() {
        return Letters::Ascii;
    }
    let pairs = bytes.iter().zip(&bytes[1..]);
    let begins = pairs.fold(false, |some, (one, next)| some | may_begin_hidden(*one, *next));
    if begins && text.chars().any(hides_ascii) { Letters::Hidden } else { Letters::Others }
}

/// Whether a letter that hides ASCII may begin with these bytes. Signs and pictures, which texts of models are full
/// of, do not.
fn may_begin_hidden(one: u8, next: u8) -> bool {
    let is = |first: u8, second: u8| one == first && next == second;
    (0xc3..=0xc7).contains(&one) | is(0xe1, 0xba) | is(0xe2, 0x84) | is(0xef, 0xac)
}

/// Whether a letter beyond ASCII folds to one of it, or to several with one among them.
fn hides_ascii(char: char) -> bool {
    matches!(char, 'ß' | 'İ' | 'ı' | 'ŉ' | 'ſ' | 'ǰ' | 'ẖ'..='ẚ' | 'ẞ' | '\u{212a}' | 'ﬀ'..='ﬆ')
}

fn stands(text: &str, part: &str, place: TextPosition) -> bool {
    match place {
        TextPosition::Start => text.starts_with(part),
        TextPosition::End => text.ends_with(part),
        TextPosition::Anywhere => memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some(),
        TextPosition::Whole => text == part,
    }
}

/// Only letters of ASCII are the same in both cases. The part is folded already.
fn stands_as_ascii(text: &str, part: &str, place: TextPosition) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let Some(last) = text.len().checked_sub(part.len()) else { return false };
    match place {
        TextPosition::Start => text[..part.len()].eq_ignore_ascii_case(part),
        TextPosition::End => text[last..].eq_ignore_ascii_case(part),
        TextPosition::Whole => text.eq_ignore_ascii_case(part),
        TextPosition::Anywhere => stands_anywhere(text, part),
    }
}

/// Looks for the first and the last byte at once, in blocks that the compiler makes a few instructions of.
#[expect(clippy::needless_bitwise_bool, reason = "without branches, a block is compared at once")]
fn stands_anywhere(text: &[u8], part: &[u8]) -> bool {
    const BLOCK: usize = 32;
    /// Both cases of a letter are the same with this bit; of other bytes, two that are rarely met.
    const CASE: u8 = 0x20;
    let [first, .., last] = part else {
        return part.first().is_none_or(|only| text.iter().any(|byte| byte.eq_ignore_ascii_case(only)));
    };
    let (first, last) = (first | CASE, last | CASE);
    let count = text.len() - part.len() + 1;
    let (heads, tails) = (&text[..count], &text[part.len() - 1..]);
    let fits = |(head, tail): (&u8, &u8)| (head | CASE == first) & (tail | CASE == last);
    let within = |at: usize, heads: &[u8], tails: &[u8]| {
        let mut begins = heads.iter().zip(tails).enumerate().filter(|(_, ends)| fits(*ends));
        begins.any(|(offset, _)| text[at + offset..][..part.len()].eq_ignore_ascii_case(part))
    };
    let some = |heads: &[u8; BLOCK], tails: &[u8; BLOCK]| {
        heads.iter().zip(tails).fold(false, |some, ends| some | fits(ends))
    };
    let blocks = heads.as_chunks::<BLOCK>().0.iter().zip(tails.as_chunks::<BLOCK>().0).enumerate();
    for (at, (heads, tails)) in blocks {
        if some(heads, tails) && within(at * BLOCK, heads, tails) {
            return true;
        }
    }
    // The last block ends where the text does, and looks at some of the one before again.
    match (heads.last_chunk::<BLOCK>(), tails.last_chunk::<BLOCK>()) {
        (Some(heads), Some(tails)) => some(heads, tails) && within(count - BLOCK, heads, tails),
        _ => within(0, heads, tails),
    }
}

fn fold_into(text: &str, out: &mut String) {
    out.extend(text.chars().flat_map(folded));
}

fn folded(char: char) -> impl Iterator<Item = char> {
    // The capital `ẞ` is the capital of a small letter whose own is `SS`.
    char.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(part: &str, text: &str, place: TextPosition) -> bool {
        Needle::new(part, true).is_in(text, place, &mut String::new())
    }

    #[test]
    fn capitals_and_small_letters_are_the_same() {
        for (part, text) in [
            ("balance", "Your BALANCE is low"),
            ("BALANCE", "your balance is low"),
            ("straße", "Hauptstrasse 5"),
            ("STRASSE", "Hauptstraße 5"),
            ("straße", "HAUPTSTRAẞE 5"),
            ("σοφος", "ΣΟΦΟΣ"),
            ("kelvin", "5 \u{212a}elvin"),
            ("", "anything"),
            ("é", "CAFÉ"),
        ] {
            assert!(found(part, text, TextPosition::Anywhere), "{part} in {text}");
        }
        assert!(!found("balances", "Balance", TextPosition::Anywhere));
        assert!(!found("é", "cafe", TextPosition::Anywhere));
    }

    #[test]
    fn beginnings_ends_and_wholes() {
        assert!(
            found("YOUR", "Your balance", TextPosition::Start)
                && !found("balance", "Your balance", TextPosition::Start)
        );
        assert!(
            found("balance", "Your Balance", TextPosition::End)
                && !found("your", "Your Balance", TextPosition::End)
        );
        assert!(found("your", "YOUR", TextPosition::Whole) && !found("your", "YOURS", TextPosition::Whole));
        assert!(!found("longer than the text", "text", TextPosition::Start));
    }

    #[test]
    fn every_letter_that_hides_ascii_is_known() {
        for char in char::MIN..=char::MAX {
            let hides = !char.is_ascii() && folded(char).any(|char| char.is_ascii());
            assert_eq!(hides_ascii(char), hides, "{char:?}");
            let mut bytes = [0; 4];
            char.encode_utf8(&mut bytes);
            assert!(!hides || may_begin_hidden(bytes[0], bytes[1]), "{char:?}");
        }
    }

    /// In place or folded as a whole, wherever it stands.
    #[test]
    fn the_way_of_looking_makes_no_difference() {
        let parts = ["", "e", "[", "No", "ERROR", "a[b", "erro", "ss", "k", "ß", "é!"];
        let words =
            ["", "x", "No ", "{", "erro", "Error", "A[B", "A{B", "é", "É!", "ß", "\u{212a}", "–", "ER–ROR"];
        let ends =
            ["", "-", "no error, ", "sixteen letters ", "a text that is longer than one block of 32 bytes "];
        let every = |before: &str, word: &str, after: &str| {
            let text = format!("{before}{word}{after}");
            for part in parts {
                let (mut folded_text, mut folded_part) = (String::new(), String::new());
                fold_into(&text, &mut folded_text);
                fold_into(part, &mut folded_part);
                for place in
                    [TextPosition::Start, TextPosition::End, TextPosition::Anywhere, TextPosition::Whole]
                {
                    let expected = stands(&folded_text, &folded_part, place);
                    assert_eq!(found(part, &text, place), expected, "{part:?} in {text:?}, {place:?}");
                }
            }
        };
        for before in ends {
            for word in words {
                for after in ends {
                    every(before, word, after);
                }
            }
        }
    }
}
