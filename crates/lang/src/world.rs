//! What the language cannot know by itself: environment, files, commands, the time, randomness.

use ecow::EcoString;

use crate::value::Value;

/// Gives computed values. The binary has the real one; a replay, a preview or a test gives another.
///
/// The names that the language asks for are `env` (the name of a variable), `file` (a path), `cmd` (a command,
/// then its arguments; or one list: a text with references, then what they give, in order), `now` (RFC 3339 text), `uuid`, and the declared kinds with their arguments. Within one
/// evaluation each is asked for once.
pub trait World {
    /// The computed value of a name and arguments.
    fn compute(&mut self, name: &str, args: &[Value]) -> Result<Value, ComputeError>;

    /// The value of a definition that was evaluated before, in another session.
    fn known(&mut self, definition: &str) -> Option<Value> {
        let _ = definition;
        None
    }

    /// A definition was evaluated now. A world that keeps it gives it back through [`World::known`].
    fn defined(&mut self, definition: &str, value: &Value) {
        let _ = (definition, value);
    }
}

/// Why there is no computed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComputeError {
    /// There is no such thing, for which a default may stand in; a similar name that exists.
    Missing {
        /// The nearest name.
        nearest: Option<EcoString>,
    },
    /// The value could not be computed.
    Failed {
        /// What happened, as a fragment of a message.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

/// A world without anything in it: every computed value is an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWorld;

impl World for NoWorld {
    fn compute(&mut self, _name: &str, _args: &[Value]) -> Result<Value, ComputeError> {
        Err(ComputeError::Failed { message: "computed values are not available here".to_owned(), hint: None })
    }
}
