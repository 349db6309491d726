//! 100,000 malformed documents: each is read without a panic, and what can be read is evaluated without one.
//!
//! They are valid files in which something was changed: keys, types, nesting, characters, the end. The same ones are
//! made each time, so a failure is there again.

use crate::generate::{Gen, VALUES, Without};
use crate::support::{detected, evaluating, json, loaded};
use proptest::prelude::RngExt as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use threadline_expect::{Actual, DocumentKind};
use threadline_lang::data::DataFormat;
use threadline_lang::diag::Diagnostic;

/// Documents a test makes. There are eight, so that they share the processors.
const DOCUMENTS: usize = 12_500;

/// Text that a file of expectations should not have there.
const ODD: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "'",
    "\n",
    "\t",
    "- ",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "#",
    "|",
    ">-",
    "? ",
    "---",
    "${",
    "${text}",
    "${facts.x | default(1)}",
    "${= 1 / 0}",
    "\u{0}",
    "\u{feff}",
    "\u{202e}",
    "é",
    "😀",
    "\u{fffd}",
    "999999999999999999999999999999999999999999",
    "1e999999999",
    "-0",
    ".5",
    "/(/i",
    "(?=a)",
    "\\",
    "null",
    "not-",
    "i",
];

/// Keys of every kind, to stand where others did.
const KEYS: [&str; 36] = [
    "all",
    "any",
    "not",
    "when",
    "then",
    "else",
    "expr",
    "judge",
    "weight",
    "must",
    "threshold",
    "distinct",
    "name",
    "expectations",
    "facts",
    "unknown",
    "depth",
    "value",
    "text",
    "plan",
    "expectedParams",
    "expectedAgent",
    "shouldContain",
    "shouldReject",
    "eq",
    "not-not-eq",
    "iGt",
    "between",
    "schema",
    "approx",
    "atLeast",
    "each",
    "value[-1]",
    "value.a[99999999999999999999]",
    "",
    "value[\"",
];

struct Maker {
    rng: TestRng,
}

impl Maker {
    fn pick(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    fn one<'o>(&mut self, of: &[&'o str]) -> &'o str {
        of[self.pick(of.len())]
    }

    fn choices(&mut self) -> Vec<u16> {
        (0..self.pick(40)).map(|_| self.rng.random()).collect()
    }

    fn actual(&mut self) -> Actual {
        let document = Gen::new(&self.choices(), Without::default()).document();
        Actual::new(DocumentKind::Answer, json(&document)).unwrap_or_else(|_| panic!("too deep"))
    }

    /// A file as it should be.
    fn sound(&mut self) -> String {
        let choices = self.choices();
        let mut made = Gen::new(&choices, Without::default());
        match self.pick(4) {
            0 => format!("{{\"depth\": 9, \"expectations\": {{\"it\": {}}}}}", made.expectation()),
            1 => format!("[{}]", made.expectations().join(", ")),
            2 => format!("{{\"threshold\": 0.5, \"all\": [{}]}}", made.expectations().join(", ")),
            _ => made.expectation(),
        }
    }

    /// One with something wrong in it, mostly.
    fn malformed(&mut self) -> String {
        let mut text = self.sound();
        for _ in 0..=self.pick(3) {
            let at = self.place(&text);
            match self.pick(10) {
                0 | 1 => text.insert_str(at, self.one(&ODD)),
                2 => text.truncate(at),
                3 => {
                    let end = self.place(&text);
                    let part = text[at.min(end)..at.max(end)].to_owned();
                    text.insert_str(self.place(&text), &part);
                }
                4 => {
                    let end = self.place(&text);
                    text.replace_range(at.min(end)..at.max(end), "");
                }
                5 | 6 => self.key(&mut text),
                7 | 8 => self.value(&mut text),
                _ => {
                    let deep = self.pick(300);
                    let (open, close) = if self.pick(2) == 0 { ("[", "]") } else { ("{\"not\": ", "}") };
                    text = format!("{}{text}{}", open.repeat(deep), close.repeat(deep));
                }
            }
        }
        text
    }

    fn place(&mut self, text: &str) -> usize {
        text.floor_char_boundary(self.pick(text.len() + 1))
    }

    /// Another key.
    fn key(&mut self, text: &mut String) {
        let quoted: Vec<usize> = text.match_indices("\": ").map(|(at, _)| at).collect();
        if quoted.is_empty() {
            return;
        }
        let end = quoted[self.pick(quoted.len())];
        if let Some(start) = text[..end].rfind('"') {
            text.replace_range(start + 1..end, self.one(&KEYS));
        }
    }

    /// Another value behind a key.
    fn value(&mut self, text: &mut String) {
        let behind: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
        if behind.is_empty() {
            return;
        }
        let start = behind[self.pick(behind.len())];
        let end = text[start..].find([',', '}', ']']).map_or(text.len(), |end| start + end);
        let value = if self.pick(4) == 0 { self.one(&ODD) } else { self.one(&VALUES) };
        text.replace_range(start..end, value);
    }
}

fn actuals() -> Vec<Actual> {
    let texts = [
        r#"{"text": "I cannot send 5 DOT?", "type": "error", "plan": [{"agent": "A", "params": {"amount": 5}}], "facts": {"x": 5}}"#,
        r#"{"value": {"a": 5, "b": "5 DOT", "list": [1, 5, "abc"]}, "output": "", "exit_code": 0, "meta": {}}"#,
        "[1, {\"a\": [[]]}, null]",
        "null",
    ];
    texts.into_iter().map(detected).collect()
}

/// Reads documents and evaluates what can be read; how many could be.
fn tried(part: u8) -> usize {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[part; 32]);
    let (mut maker, actuals, mut sound) = (Maker { rng }, actuals(), 0);
    for at in 0..DOCUMENTS {
        let text = maker.malformed();
        let format = if at % 2 == 0 { DataFormat::Yaml } else { DataFormat::Json };
        let (expectations, problems) = loaded(&text, format);
        for problem in &problems {
            assert!(text.get(problem.span.range()).is_some(), "{problem:?} in {text}");
            assert!(!problem.message.is_empty());
        }
        let Some(expectations) = expectations else {
            assert!(problems.iter().any(Diagnostic::is_error), "nothing is wrong with {text}");
            continue;
        };
        sound += 1;
        let made = maker.actual();
        let actual = actuals.get(at % (actuals.len() + 2)).unwrap_or(&made);
        evaluating(actual, |evaluation| {
            let answers: Vec<_> = expectations.members().iter().map(|it| evaluation.answer(it)).collect();
            let explained: Vec<_> =
                expectations.members().iter().map(|it| evaluation.explain(it).answer).collect();
            assert_eq!(answers, explained, "{text}");
        });
    }
    sound
}

macro_rules! parts {
    ($($name:ident $part:literal)*) => {
        $(
            #[test]
            fn $name() {
                let sound = tried($part);
                // Enough of them are read for the evaluation to be tried, and enough are not.
                assert!((DOCUMENTS / 20..DOCUMENTS / 2).contains(&sound), "{sound} of {DOCUMENTS} are sound");
            }
        )*
    };
}

parts! {
    first 1
    second 2
    third 3
    fourth 4
    fifth 5
    sixth 6
    seventh 7
    eighth 8
}
