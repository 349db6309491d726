//! Outputs of nodes by their id, in the shapes of older systems: each becomes an envelope.

use threadline_lang::source::{SourceFile, TreeNode};
use threadline_lang::value::JsonStyle;
use threadline_lang::{Envelope, Limits, Value};

use super::Migrated;
use crate::exit::CommandFailure;
use crate::report::Report;

pub(super) fn migrated(file: &SourceFile, tree: &TreeNode) -> Result<Migrated, CommandFailure> {
    let refused = |message: String| CommandFailure::NotStarted(vec![Report::plain(message)]);
    if tree.value.as_object().is_none() {
        return Err(refused(format!(
            "{} is neither a workflow nor outputs by the id of their node",
            file.name()
        )));
    }
    let (mut text, mut places, mut from) = (String::new(), 0, 0);
    for (_, entry) in tree.entries() {
        let Some(new) = envelope(&entry.node.value) else { continue };
        let (range, new) = (entry.node.span.range(), new.to_json(JsonStyle::Compact));
        // A block of YAML begins on the line below its key; its replacement stands behind the key.
        let before = file.text()[..range.start].trim_end();
        let below = file.text()[before.len()..range.start].contains('\n');
        let start = if below { before.len() } else { range.start };
        text.push_str(&file.text()[from..start]);
        text.push_str(if below { " " } else { "" });
        text.push_str(&new);
        from = range.end;
        places += 1;
    }
    text.push_str(&file.text()[from..]);
    let new = SourceFile::with_format(file.name(), &text, file.format());
    if !is_done(tree, &new) {
        return Err(refused(format!(
            "{} cannot be changed where it is old: a comment may be in the way",
            file.name()
        )));
    }
    Ok(Migrated { text, places, left: Vec::new() })
}

/// Whether a value is what a node left, in the shape of today or an older one.
pub(super) fn is_output(value: &Value) -> bool {
    envelope(value).is_some()
        || value.as_object().is_some_and(|object| {
            object.len() == 2 && value.get("value").is_some() && value.get("meta").is_some()
        })
}

/// Whether a changed file has the same outputs, each as an envelope.
fn is_done(old: &TreeNode, new: &SourceFile) -> bool {
    let Ok(tree) = new.read_tree(&Limits::DEFAULT) else { return false };
    let wanted =
        old.entries().map(|(_, entry)| envelope(&entry.node.value).unwrap_or(entry.node.value.clone()));
    old.entries().count() == tree.entries().count()
        && old.entries().zip(wanted).all(|((name, _), wanted)| tree.value.get(name) == Some(&wanted))
}

/// An output of an older shape as an envelope. A plain value stays one, and so does a value that is too deep to be
/// wrapped.
fn envelope(output: &Value) -> Option<Value> {
    let read = Envelope::from_outside(output).ok()?;
    let known = read.meta.as_object().is_some_and(|meta| !meta.is_empty());
    let new = Value::object([("value".into(), read.value), ("meta".into(), read.meta)]).ok()?;
    (read.legacy.is_some() && known).then_some(new)
}
