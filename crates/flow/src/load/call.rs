//! Calls of other workflows: the file, and what it is given. The file itself is read elsewhere.

use threadline_lang::Template;

use super::read::{Fields, Loader};
use crate::checks::Check;
use crate::model::{Action, Call, Given};

impl Loader {
    pub(super) fn call(&mut self, fields: &Fields<'_>) -> Option<Action> {
        let with = self.given(fields);
        let place = fields.get("workflow")?;
        let written = self.scalar_text(&place, "workflow")?;
        let plain = Template::parse_all(written, &self.syntax).0.as_plain().map(std::borrow::Cow::into_owned);
        let Some(path) = plain else {
            let message =
                "`workflow` takes a path that is written out: what is called is checked before the run";
            let hint = "choose between files with steps that have `when:`";
            self.problem(Check::WrongType.at(place.node.span, message).hint(hint));
            return None;
        };
        if path.is_empty() {
            self.problem(Check::WrongType.at(place.node.span, "`workflow` takes the path of a file"));
            return None;
        }
        Some(Action::Workflow(Call { path: place.field(path.into()), with }))
    }

    fn given(&mut self, fields: &Fields<'_>) -> Vec<Given> {
        let Some(place) = self.map(fields, "with") else { return Vec::new() };
        let mut given = Vec::new();
        for (name, entry, at) in place.entries() {
            if let Some(value) = self.document(&at) {
                given.push(Given { name: name.into(), span: entry.key_span, value });
            }
        }
        given
    }
}
