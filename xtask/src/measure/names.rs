//! Names of types that exist more than once, and documentation that says nothing.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::RustFile;
use super::functions::is_test_only;
use super::lines::is_doc;

/// The names of structs, enums, unions, traits and aliases outside of tests, each with how often it is
/// defined.
#[derive(Default)]
pub(crate) struct TypeNames(BTreeMap<String, usize>);

impl TypeNames {
    /// Counts the types of a file below `crates/*/src`.
    pub(crate) fn add(&mut self, file: &RustFile) {
        if !file.is_test {
            self.visit_file(&file.syntax);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Those that are defined more than once, with how often.
    pub(crate) fn repeated(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().filter(|(_, count)| **count > 1).map(|(name, count)| (name.as_str(), *count))
    }

    /// Counts a name, but not what stands in for a type where a feature is left out.
    fn found(&mut self, attributes: &[syn::Attribute], name: &syn::Ident) {
        if !attributes.iter().any(is_stand_in) {
            *self.0.entry(name.to_string()).or_default() += 1;
        }
    }
}

/// Whether an attribute is `cfg(not(...))`.
fn is_stand_in(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Meta>().is_ok_and(|condition| condition.path().is_ident("not"))
}

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.found(&item.attrs, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.found(&item.attrs, &item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.found(&item.attrs, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.found(&item.attrs, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.found(&item.attrs, &item.ident);
    }
}

/// The lines of doc comments that consist of at most two words, as `/// Which.` does.
pub(crate) fn short_docs(file: &RustFile) -> Vec<usize> {
    if file.is_test {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim_start).collect();
    let is_doc_at = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|line| is_doc(line));
    let alone = (0..lines.len())
        .filter(|at| is_doc_at(Some(*at)) && !is_doc_at(at.checked_sub(1)) && !is_doc_at(Some(at + 1)));
    alone
        .filter(|at| lines[*at].trim_start_matches(['/', '!']).split_whitespace().count() <= 2)
        .map(|at| at + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(text: &str) -> RustFile {
        RustFile::parse(Path::new("crates/a/src/a.rs"), text.to_owned()).unwrap()
    }

    #[test]
    fn types_of_all_kinds_are_counted_and_tests_are_not() {
        let mut names = TypeNames::default();
        names.add(&file("struct A; mod m { enum A {} type B = A; }\n#[cfg(test)]\nmod tests { struct B; }"));
        names
            .add(&file("trait A { type B; }\nfn f() { struct C; }\n#[cfg(not(feature = \"c\"))]\nstruct C;"));
        assert_eq!(names.repeated().collect::<Vec<_>>(), [("A", 3)]);
        assert_eq!(names.count(), 3);
    }

    #[test]
    fn a_doc_comment_of_two_words_is_short() {
        let text = "//! About.\n\n/// Which.\nstruct A;\n/// The whole\n/// thing.\nstruct B {\n    /// Its name.\n    \
                    c: u8,\n    /// What it is called.\n    d: u8,\n}\n// No doc.\n";
        assert_eq!(short_docs(&file(text)), [1, 3, 8]);
    }
}
