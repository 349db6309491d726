//! What the lines of a file are: code, documentation, comments, tests.

use syn::spanned::Spanned;

use super::RustFile;
use super::functions::is_test_only;

/// Numbers of lines. A blank line is none of these.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Lines {
    pub(super) code: usize,
    pub(super) doc: usize,
    pub(super) comment: usize,
    /// Every line of tests that is not blank.
    pub(super) test: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Code,
    Doc,
    Comment,
}

impl Lines {
    pub(super) fn add(&mut self, file: &RustFile) {
        let tests = test_items(&file.syntax);
        for (at, kind) in kinds(file).into_iter().enumerate() {
            let is_test =
                file.is_test || tests.iter().any(|(first, last)| (*first..=*last).contains(&(at + 1)));
            match kind {
                Kind::Blank => {}
                _ if is_test => self.test += 1,
                Kind::Code => self.code += 1,
                Kind::Doc => self.doc += 1,
                Kind::Comment => self.comment += 1,
            }
        }
    }
}

/// Of each line, what stands in it. A line with code and a comment is code.
fn kinds(file: &RustFile) -> Vec<Kind> {
    let source = file.source();
    let without_comments = source.without_comments();
    let lines = file.text.lines().zip(without_comments.lines());
    lines
        .map(|(line, code)| {
            let line = line.trim_start();
            if !code.trim().is_empty() {
                Kind::Code
            } else if line.is_empty() {
                Kind::Blank
            } else if is_doc(line) {
                Kind::Doc
            } else {
                Kind::Comment
            }
        })
        .collect()
}

/// Whether a line that is a comment documents something.
pub(super) fn is_doc(line: &str) -> bool {
    line.starts_with("//!") || (line.starts_with("///") && !line.starts_with("////"))
}

/// The first and last lines of what is compiled for tests only, attributes included.
fn test_items(file: &syn::File) -> Vec<(usize, usize)> {
    let items = file.items.iter().filter(|item| match item {
        syn::Item::Mod(module) => is_test_only(&module.attrs),
        syn::Item::Fn(function) => is_test_only(&function.attrs),
        syn::Item::Use(import) => is_test_only(&import.attrs),
        _ => false,
    });
    items.map(|item| (item.span().start().line, item.span().end().line)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lines(path: &str, text: &str) -> Lines {
        let mut lines = Lines::default();
        lines.add(&RustFile::parse(Path::new(path), text.to_owned()).unwrap());
        lines
    }

    #[test]
    fn each_line_is_one_thing() {
        let text = "//! About.\n\n/// A.\nstruct A; // why\n// because\nconst B: &str = \"\n// text\n\";\n\
                    #[cfg(test)]\nmod tests {\n\n    // c\n}\n";
        assert_eq!(lines("src/a.rs", text), Lines { code: 4, doc: 2, comment: 1, test: 4 });
        assert_eq!(lines("tests/it/a.rs", "//! A.\n\nfn a() {}\n"), Lines { test: 2, ..Lines::default() });
    }
}
