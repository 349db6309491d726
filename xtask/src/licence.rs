//! Licence expressions as packages write them: names, `AND`, `OR`, `WITH` and parentheses. It knows no
//! packages.

use std::collections::BTreeSet;

/// Whether an expression can be met with the accepted licences. What it cannot read is refused.
pub(crate) fn accepts(expression: &str, accepted: &BTreeSet<&str>) -> bool {
    // Old packages write `/` for `OR`.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), position: 0, accepted };
    let accepted = parser.either();
    accepted == Some(true) && parser.position == parser.words.len()
}

struct Parser<'a> {
    words: Vec<&'a str>,
    position: usize,
    accepted: &'a BTreeSet<&'a str>,
}

/// Each method answers whether its part is accepted, `None` where it cannot be read.
impl<'a> Parser<'a> {
    fn either(&mut self) -> Option<bool> {
        let mut accepted = self.both()?;
        while self.take("OR") {
            accepted |= self.both()?;
        }
        Some(accepted)
    }

    fn both(&mut self) -> Option<bool> {
        let mut accepted = self.single()?;
        while self.take("AND") {
            accepted &= self.single()?;
        }
        Some(accepted)
    }

    fn single(&mut self) -> Option<bool> {
        if self.take("(") {
            let accepted = self.either()?;
            return self.take(")").then_some(accepted);
        }
        let name = self.next()?;
        // An exception only ever permits more.
        if self.take("WITH") {
            self.next()?;
        }
        Some(self.accepted.contains(name))
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.position)?;
        self.position += 1;
        Some(word)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.position) == Some(&word);
        self.position += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(expression: &str) -> bool {
        super::accepts(expression, &BTreeSet::from(["Apache-2.0", "ISC", "MIT", "Unicode-3.0", "Unlicense"]))
    }

    #[test]
    fn one_accepted_alternative_is_enough() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR Unlicense",
            "(MIT OR GPL-2.0-only) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
        ] {
            assert!(accepts(expression), "{expression}");
        }
    }

    #[test]
    fn all_parts_of_an_and_are_needed() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND NCSA",
            "MIT OR Apache-2.0 AND",
            "(MIT",
            "MIT ISC",
            "",
        ] {
            assert!(!accepts(expression), "{expression}");
        }
    }
}
