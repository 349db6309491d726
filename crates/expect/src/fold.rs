//! Texts in which capitals and small letters are the same.
//!
//! Folding goes character by character, through capitals to small letters, so that `ß` meets `SS` and all forms of a
//! sigma are one. Text in ASCII, which most is, is compared in place.

/// A text to look for, folded once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needle {
    plain: Box<str>,
    /// Folded, where it is to be found in any case.
    folded: Option<Box<str>>,
}

/// Where in a text a part has to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
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
            folded.into()
        });
        Self { plain: text.into(), folded }
    }

    /// Whether it stands there. `scratch` is used where the text has to be folded as a whole.
    pub(crate) fn is_in(&self, text: &str, place: Where, scratch: &mut String) -> bool {
        match &self.folded {
            None => stands(text, &self.plain, place),
            Some(folded) if text.is_ascii() => folded.is_ascii() && stands_in_ascii(text, folded, place),
            Some(folded) => {
                scratch.clear();
                fold_into(text, scratch);
                stands(scratch, folded, place)
            }
        }
    }
}

fn stands(text: &str, part: &str, place: Where) -> bool {
    match place {
        Where::Start => text.starts_with(part),
        Where::End => text.ends_with(part),
        Where::Anywhere => memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some(),
        Where::Whole => text == part,
    }
}

/// The part is folded already.
fn stands_in_ascii(text: &str, part: &str, place: Where) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let Some(last) = text.len().checked_sub(part.len()) else { return false };
    match place {
        Where::Start => text[..part.len()].eq_ignore_ascii_case(part),
        Where::End => text[last..].eq_ignore_ascii_case(part),
        Where::Whole => text.eq_ignore_ascii_case(part),
        Where::Anywhere => {
            let Some(&first) = part.first() else { return true };
            let begins = memchr::memchr2_iter(first, first.to_ascii_uppercase(), &text[..=last]);
            begins.into_iter().any(|at| text[at..at + part.len()].eq_ignore_ascii_case(part))
        }
    }
}

fn fold_into(text: &str, out: &mut String) {
    out.extend(text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(part: &str, text: &str, place: Where) -> bool {
        Needle::new(part, true).is_in(text, place, &mut String::new())
    }

    #[test]
    fn capitals_and_small_letters_are_the_same() {
        for (part, text) in [
            ("balance", "Your BALANCE is low"),
            ("BALANCE", "your balance is low"),
            ("straße", "Hauptstrasse 5"),
            ("STRASSE", "Hauptstraße 5"),
            ("σοφος", "ΣΟΦΟΣ"),
            ("kelvin", "5 \u{212a}elvin"),
            ("", "anything"),
            ("é", "CAFÉ"),
        ] {
            assert!(found(part, text, Where::Anywhere), "{part} in {text}");
        }
        assert!(!found("balances", "Balance", Where::Anywhere));
        assert!(!found("é", "cafe", Where::Anywhere));
    }

    #[test]
    fn beginnings_ends_and_wholes() {
        assert!(
            found("YOUR", "Your balance", Where::Start) && !found("balance", "Your balance", Where::Start)
        );
        assert!(found("balance", "Your Balance", Where::End) && !found("your", "Your Balance", Where::End));
        assert!(found("your", "YOUR", Where::Whole) && !found("your", "YOURS", Where::Whole));
        assert!(!found("longer than the text", "text", Where::Start));
    }
}
