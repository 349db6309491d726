//! Which elements were seen before, in linear time whatever they are.
//!
//! The hash follows equality: `85` and `85.0` are one, and so are two objects that differ in the order of their
//! keys. It is a fixed one: equal input takes the same way every time.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::{Call, FuncError};
use crate::value::{Number, Repr, Value};

/// A hasher that is the same in every run, and hard enough to find collisions for.
pub(super) type Fixed = BuildHasherDefault<DefaultHasher>;

/// The values seen so far.
#[derive(Default)]
pub(super) struct Seen {
    values: HashSet<Hashed, Fixed>,
}

impl Seen {
    /// Whether the value was not seen before.
    pub(super) fn insert(&mut self, call: &mut Call<'_>, value: Value) -> Result<bool, FuncError> {
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
fn hash(call: &mut Call<'_>, value: &Value) -> Result<u64, FuncError> {
    call.spend(1)?;
    let mut state = DefaultHasher::new();
    state.write_u8(tag(value));
    match &value.0 {
        Repr::Null => {}
        Repr::Bool(bool) => state.write_u8(u8::from(*bool)),
        Repr::Number(number) => hash_number(number, &mut state)?,
        Repr::Text(text) => {
            call.spend_bytes(text.len())?;
            state.write(text.as_bytes());
        }
        Repr::List(_) => {
            for item in value.as_list().unwrap_or_default() {
                state.write_u64(hash(call, item)?);
            }
        }
        Repr::Object(object) => {
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
        Repr::Null => 0,
        Repr::Bool(_) => 1,
        Repr::Number(_) => 2,
        Repr::Text(_) => 3,
        Repr::List(_) => 4,
        Repr::Object(_) => 5,
    }
}

/// Hashes what equal numbers have in common whatever form they are in.
fn hash_number(number: &Number, state: &mut impl Hasher) -> Result<(), FuncError> {
    let mut text = String::new();
    number.write_canonical(&mut text)?;
    state.write(text.as_bytes());
    Ok(())
}
