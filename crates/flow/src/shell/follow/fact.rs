//! What is known about a text before the run: the values that can be in it, and the literals that it can be.

use ecow::EcoString;

/// Maximum number of sources that one fact names.
const MAX_SOURCES: usize = 64;

/// Maximum number of literals that one fact lists.
const MAX_LITERALS: usize = 8;

/// How a value is in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Passage(u8);

impl Passage {
    /// The text can begin with the value.
    pub(super) const BEGINS: Self = Self(1);
    /// The text can be a line of the value, or the value without the blanks around it.
    pub(super) const PIECE: Self = Self(2);
    /// The text can be one of several fields of the value.
    pub(super) const FIELD: Self = Self(32);
    /// The shell changed the end of the value.
    pub(super) const TRIMMED: Self = Self(4);
    /// A program or the shell made the text out of the value.
    pub(super) const DERIVED: Self = Self(8);
    /// The text is the path of a file that holds the value.
    pub(super) const IN_FILE: Self = Self(16);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueSource {
    /// A reference of the text, by the index of its slot.
    Slot(u32),
    /// A variable that `env:` sets from a value, by its index.
    Environment(u32),
    /// A file that an earlier step writes with values, by its index.
    File(u32),
}

/// The literals that a text can be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Literals {
    /// No text has been seen yet.
    #[default]
    Unset,
    Known(Vec<EcoString>),
    /// Texts that are not listed.
    Any,
}

impl Literals {
    /// Adds the literals of another text. Returns whether one is new.
    fn join(&mut self, other: &Self) -> bool {
        match (&mut *self, other) {
            (_, Self::Unset) | (Self::Any, _) => false,
            (Self::Unset, other) => {
                *self = other.clone();
                true
            }
            (_, Self::Any) => {
                *self = Self::Any;
                true
            }
            (Self::Known(known), Self::Known(more)) => {
                let before = known.len();
                for literal in more {
                    if !known.contains(literal) {
                        known.push(literal.clone());
                    }
                }
                let changed = known.len() > before;
                if known.len() > MAX_LITERALS {
                    *self = Self::Any;
                }
                changed
            }
        }
    }

    /// Every text followed by every text of another one.
    fn append(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Known(first), Self::Known(second)) if second.len() == 1 && first.len() <= MAX_LITERALS => {
                for text in first {
                    text.push_str(&second[0]);
                }
            }
            (Self::Known(first), Self::Known(second)) if first.len() * second.len() <= MAX_LITERALS => {
                let mut all = Vec::new();
                for start in first {
                    for end in second {
                        let mut text = start.clone();
                        text.push_str(end);
                        all.push(text);
                    }
                }
                *self = Self::Known(all);
            }
            _ => *self = Self::Any,
        }
    }
}

/// What is known about a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fact {
    /// The values that can be in it, in order, each with the ways in which it gets there.
    pub sources: Vec<(ValueSource, Passage)>,
    /// Whether there are more than are listed.
    pub overflow: bool,
    pub literals: Literals,
}

impl Fact {
    pub(super) fn literal(text: &str) -> Self {
        Self { literals: Literals::Known(vec![text.into()]), ..Self::default() }
    }

    /// A text without values that is not known.
    pub(super) fn unknown() -> Self {
        Self { literals: Literals::Any, ..Self::default() }
    }

    pub(super) fn of(source: ValueSource, passage: Passage) -> Self {
        Self { sources: vec![(source, passage)], overflow: false, literals: Literals::Any }
    }

    /// Whether a value can be in the text itself.
    pub(super) fn holds_value(&self) -> bool {
        self.overflow || self.sources.iter().any(|(_, passage)| !passage.has(Passage::IN_FILE))
    }

    /// Whether the text can begin with a value.
    pub(super) fn begins_with_value(&self) -> bool {
        self.overflow
            || self
                .sources
                .iter()
                .any(|(_, passage)| passage.has(Passage::BEGINS) && !passage.has(Passage::IN_FILE))
    }

    /// Adds what another text can be. Returns whether that is new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let changed = self.join_sources(other);
        self.literals.join(&other.literals) || changed
    }

    /// Adds the values of another text, but not its literals.
    pub(super) fn join_sources(&mut self, other: &Self) -> bool {
        self.join_passed(other, |passage| passage)
    }

    /// Adds what a program makes of the values of another text.
    pub(super) fn join_derived(&mut self, other: &Self) {
        self.join_passed(other, derived);
    }

    /// Adds the values of another text, each with a changed passage.
    fn join_passed(&mut self, other: &Self, change: impl Fn(Passage) -> Passage) -> bool {
        let mut changed = other.overflow && !self.overflow;
        self.overflow |= other.overflow;
        for (source, passage) in &other.sources {
            changed |= self.add_source(*source, change(*passage));
        }
        changed
    }

    fn add_source(&mut self, source: ValueSource, passage: Passage) -> bool {
        // A value in a file that the text names is another fact than the value in the text.
        let key = (source, passage.has(Passage::IN_FILE));
        let found = self
            .sources
            .binary_search_by_key(&key, |(source, passage)| (*source, passage.has(Passage::IN_FILE)));
        match found {
            Ok(at) => {
                let joined = self.sources[at].1.with(passage);
                let changed = joined != self.sources[at].1;
                self.sources[at].1 = joined;
                changed
            }
            Err(_) if self.sources.len() >= MAX_SOURCES => !std::mem::replace(&mut self.overflow, true),
            Err(at) => {
                self.sources.insert(at, (source, passage));
                true
            }
        }
    }

    /// The same values, each with a changed passage, and no known literals.
    pub(super) fn passed(&self, change: impl Fn(Passage) -> Passage) -> Self {
        let mut changed = Self::unknown();
        changed.join_passed(self, change);
        changed
    }

    /// What a program makes of the text: anything, with its values in it.
    pub(super) fn derived(&self) -> Self {
        self.passed(derived)
    }

    /// The same text with something before it.
    pub(super) fn behind_text(&self) -> Self {
        self.passed(behind_text)
    }

    /// The lines of the text.
    pub(super) fn lines(&self) -> Self {
        self.passed(|passage| passage.with(Passage::PIECE).with(Passage::BEGINS))
    }

    /// The fields that the shell splits the text into.
    pub(super) fn split(&self) -> Self {
        let mut pieces =
            self.passed(|passage| passage.with(Passage::PIECE).with(Passage::FIELD).with(Passage::BEGINS));
        pieces.literals.clone_from(&self.literals);
        pieces
    }

    /// The content of the file that the text is a path of, as far as the text says it.
    pub(super) fn file_content(&self) -> Self {
        let held = self.sources.iter().filter(|(_, passage)| passage.has(Passage::IN_FILE));
        let sources = held.map(|(source, passage)| {
            (*source, passage.without(Passage::IN_FILE).with(Passage::BEGINS).with(Passage::DERIVED))
        });
        Self { sources: sources.collect(), overflow: false, literals: Literals::Any }
    }

    /// The text followed by another one.
    pub(super) fn followed_by(&mut self, next: &Self, begins: bool) {
        self.literals.append(&next.literals);
        if begins {
            self.join_sources(next);
        } else {
            self.join_passed(next, behind_text);
        }
    }

    /// The literals that the text can be, and whether it can be something else.
    pub(super) fn texts(&self) -> (&[EcoString], bool) {
        match &self.literals {
            Literals::Unset => (&[], false),
            Literals::Known(known) => (known, false),
            Literals::Any => (&[], true),
        }
    }
}

fn derived(passage: Passage) -> Passage {
    passage.with(Passage::DERIVED).with(Passage::BEGINS).without(Passage::IN_FILE)
}

fn behind_text(passage: Passage) -> Passage {
    passage.without(Passage::BEGINS)
}
