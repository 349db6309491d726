//! Reads `defaults`: keys that hold for every step which does not set them itself.
//!
//! A default becomes a key of the step before the step is read, with the place of the default. It is left out
//! where it does not apply to what the step does.

use std::sync::Arc;

use threadline_lang::source::TreeNode;

use super::read::{FoundKey, ObjectFields, WorkflowLoader};
use crate::fields::{ActionName, DEFAULTS};
use crate::model::Action;

/// The key whose default holds beside what a step says, variable by variable.
const MERGED: &str = "env";

/// The key whose default counts less than what lists and agents say, and so is no key of each step.
const LEAST: &str = "on";

impl WorkflowLoader {
    /// Reads the defaults of a workflow and keeps them for its steps. What is wrong with them is reported once.
    pub(super) fn read_defaults(&mut self, fields: &ObjectFields<'_>) {
        let Some(place) = fields.get("defaults") else { return };
        let node = Arc::new(place.node.clone());
        let origin = place.origin();
        let reported = self.problems.len();
        if let Some(read) = self.read_fields(place, &DEFAULTS) {
            self.default_labels = self.read_step_with(&read, origin, Some(Action::Nothing)).labels;
        }
        // Steps would only report the same again.
        if self.problems.len() == reported {
            self.defaults = Some(node);
        }
    }
}

impl<'n> ObjectFields<'n> {
    /// The keys of a step with those defaults that apply to its action.
    pub(super) fn with_defaults(mut self, defaults: Option<&'n TreeNode>, action: ActionName) -> Self {
        for (written, entry) in defaults.into_iter().flat_map(TreeNode::entries) {
            let Some(key) = self.object.key(written).filter(|key| key.name != LEAST) else { continue };
            let applies = key.on.is_empty() || key.on.contains(&action);
            let is_set =
                self.found(key.name).is_some() || key.name == "timeout" && self.has_request_timeout();
            match (applies, is_set) {
                (true, true) if key.name == MERGED => self.default_env = Some(entry),
                (true, false) => self.add(FoundKey { key, written, entry }),
                _ => {}
            }
        }
        self
    }

    /// Whether the request of a step has a `timeout` of its own.
    fn has_request_timeout(&self) -> bool {
        let request = ["http", "params"].iter().filter_map(|key| self.get(key));
        request.into_iter().any(|place| place.node.get("timeout").is_some())
    }
}
