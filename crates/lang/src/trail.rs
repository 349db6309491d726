//! The keys and indexes that lead from the root of a document to a part of it.
//!
//! A trail is built on the stack while a walk goes down, and becomes a text only where somebody asks for it. It never
//! looks at the document.

use crate::data_path::PathStep;
use crate::syntax::push_key;

/// The way to a part of a document, as a chain of borrowed steps.
///
/// ```
/// use threadline_lang::{Trail, TrailStep};
///
/// let steps = Trail::ROOT.down(TrailStep::Key("steps"));
/// let first = steps.down(TrailStep::Index(0));
/// assert_eq!(first.down(TrailStep::Key("a key")).text(), r#"steps[0]["a key"]"#);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Trail<'t> {
    parent: Option<&'t Trail<'t>>,
    step: TrailStep<'t>,
}

/// One step of a [`Trail`].
#[derive(Debug, Clone, Copy)]
pub enum TrailStep<'t> {
    /// Into the value of a key.
    Key(&'t str),
    /// Into an element of a list.
    Index(usize),
    /// Along a path.
    Path(&'t [PathStep]),
    /// Text that is written as it is, such as the name of the document or a filter behind the path.
    Verbatim(&'t str),
}

impl<'t> Trail<'t> {
    /// The trail to the document itself, an empty text.
    pub const ROOT: Self = Self { parent: None, step: TrailStep::Verbatim("") };

    /// The trail one step further down.
    #[must_use]
    pub fn down(&'t self, step: TrailStep<'t>) -> Self {
        Self { parent: Some(self), step }
    }

    /// The path as it is written in a reference, without a root.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        self.step.write(out);
    }
}

impl TrailStep<'_> {
    pub(crate) fn write(self, out: &mut String) {
        match self {
            TrailStep::Key(key) => push_key(out, key),
            TrailStep::Index(index) => {
                out.push('[');
                out.push_str(itoa::Buffer::new().format(index));
                out.push(']');
            }
            TrailStep::Path(steps) => steps.iter().for_each(|step| step.write(out)),
            TrailStep::Verbatim(text) => out.push_str(text),
        }
    }
}
