//! Calls of other workflows: the path of the file and the values for its inputs. The file itself is read by
//! [`crate::files`].

use ecow::EcoString;
use threadline_lang::Template;

use super::read::{ObjectFields, WorkflowLoader};
use crate::checks::Check;
use crate::model::{Action, Call, Field, Given};

impl WorkflowLoader {
    pub(super) fn read_call(&mut self, fields: &ObjectFields<'_>) -> Option<Action> {
        let with = self.read_given(fields);
        Some(Action::Workflow(Call { path: self.read_called_path(fields)?, with }))
    }

    /// Reads the path of a file that is called.
    pub(super) fn read_called_path(&mut self, fields: &ObjectFields<'_>) -> Option<Field<EcoString>> {
        let place = fields.get("workflow")?;
        let written = self.read_scalar_text(&place, "workflow")?;
        let plain = Template::parse_all(written, &self.syntax).0.as_plain().map(std::borrow::Cow::into_owned);
        let Some(path) = plain else {
            let message = "`workflow` takes a literal path, because called files are checked before the run";
            let hint = "to choose between files, write one step per file, each with `when:`";
            self.report(Check::WrongType.at(place.node.span, message).hint(hint));
            return None;
        };
        if path.is_empty() {
            self.report(Check::WrongType.at(place.node.span, "`workflow` takes the path of a file"));
            return None;
        }
        Some(place.field(path.into()))
    }

    fn read_given(&mut self, fields: &ObjectFields<'_>) -> Vec<Given> {
        let Some(place) = self.read_map(fields, "with") else { return Vec::new() };
        let mut given = Vec::new();
        for (name, entry, at) in place.entries() {
            if let Some(value) = self.read_document(&at) {
                given.push(Given { name: name.into(), span: entry.key_span, value });
            }
        }
        given
    }
}
