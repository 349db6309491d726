//! How long functions are, from `fn` to the closing brace. Tests do not count.

use syn::visit::{self, Visit};

use super::RustFile;

/// The lengths of functions, in lines.
#[derive(Default)]
pub(super) struct Lengths(Vec<usize>);

impl Lengths {
    pub(super) fn add(&mut self, file: &RustFile) {
        if !file.is_test {
            self.visit_file(&file.syntax);
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The length that so many of a hundred functions do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> usize {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or(0)
    }

    /// How many are longer.
    pub(super) fn above(&self, lines: usize) -> usize {
        self.0.iter().filter(|length| **length > lines).count()
    }

    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = body.brace_token.span.close().end().line;
        self.0.push(last - first + 1);
    }
}

/// Whether an item is compiled for tests only.
pub(super) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let test = attribute.path().is_ident("test");
        let configured = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"));
        test || configured
    })
}

impl<'ast> Visit<'ast> for Lengths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test_only(&function.attrs) {
            self.measure(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test_only(&function.attrs) {
            self.measure(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.measure(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lengths(text: &str) -> Lengths {
        let mut lengths = Lengths::default();
        lengths.add(&RustFile::parse(Path::new("src/a.rs"), text.to_owned()).unwrap());
        lengths
    }

    #[test]
    fn functions_are_counted_from_fn_to_brace() {
        let text = "/// Doc.\n#[inline]\npub fn a() {\n    b()\n}\nimpl T { fn b() {} }\n\
                    trait U { fn c(); fn d() {} }\n";
        assert_eq!(lengths(text).0, [3, 1, 1]);
    }

    #[test]
    fn tests_do_not_count() {
        assert_eq!(lengths("#[cfg(test)]\nmod tests { fn a() {} }\n#[test]\nfn b() {}\n").count(), 0);
        let file = RustFile::parse(Path::new("crates/a/tests/it/b.rs"), "fn a() {}".to_owned()).unwrap();
        let mut lengths = Lengths::default();
        lengths.add(&file);
        assert_eq!(lengths.count(), 0);
    }

    #[test]
    fn percentiles_are_lengths_that_occur() {
        let lengths = Lengths((1..=100).collect());
        assert_eq!([50, 90, 99, 100].map(|percent| lengths.percentile(percent)), [50, 90, 99, 100]);
        assert_eq!((lengths.above(50), lengths.above(100)), (50, 0));
        assert_eq!(Lengths::default().percentile(50), 0);
    }
}
