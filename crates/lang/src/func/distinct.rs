//! Which elements were seen before, in linear time whatever they are.
//!
//! The hash follows equality: `85` and `85.0` are one, and so are two objects that differ in the order of their
//! keys. It is a fixed one: equal input takes the same way every time.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::{FuncError, FunctionCall};
use crate::value::{Number, Value, ValueRepr};

/// A hasher that is the same in every run, and hard enough to find collisions for.
pub(super) type Fixed = BuildHasherDefault<DefaultHasher>;

/// The values seen so far.
#[derive(Default)]
pub(super) struct SeenValues {
    values: HashSet<Hashed, Fixed>,
}

impl SeenValues {
    /// Whether the value was not seen before.
    pub(super) fn insert(&mut self, call: &mut FunctionCall<'_>, value: Value) -> Result<bool, FuncError> {
        let hash = hash(call, &value)?;
        Ok(self.values.insert(Hashed { hash, value }))
    }
}

#[derive(PartialEq, Eq)]
struct Hashed {
    hash: u64,
    value: Value,
}

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Each part costs an operation: a value may hold one part many times over.
fn hash(call: &mut FunctionCall<'_>, value: &Value) -> Result<u64, FuncError> {
    call.spend(1)?;
    let mut state = DefaultHasher::new();
    state.write_u8(tag(value));
    match &value.0 {
        ValueRepr::Null => {}
        ValueRepr::Bool(bool) => state.write_u8(u8::from(*bool)),
        ValueRepr::Number(number) => hash_number(number, &mut state),
        ValueRepr::Text(text) => {
            call.spend_bytes(text.len())?;
            state.write(text.as_bytes());
        }
        ValueRepr::List(_) => {
            for item in value.as_list().unwrap_or_default() {
                state.write_u64(hash(call, item)?);
            }
        }
        ValueRepr::Object(object) => {
            // A sum does not depend on the order of the entries.
            let mut sum = 0u64;
            for (key, value) in object.iter() {
                let mut entry = DefaultHasher::new();
                key.as_str().hash(&mut entry);
                entry.write_u64(hash(call, value)?);
                sum = sum.wrapping_add(entry.finish());
            }
            state.write_u64(sum);
        }
    }
    Ok(state.finish())
}

fn tag(value: &Value) -> u8 {
    match &value.0 {
        ValueRepr::Null => 0,
        ValueRepr::Bool(_) => 1,
        ValueRepr::Number(_) => 2,
        ValueRepr::Text(_) => 3,
        ValueRepr::List(_) => 4,
        ValueRepr::Object(_) => 5,
    }
}

/// Hashes what equal numbers have in common whatever form they are in.
fn hash_number(number: &Number, state: &mut impl Hasher) {
    let mut text = String::new();
    number.write_canonical(&mut text);
    state.write(text.as_bytes());
}
