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

/// Hashes sign, significant digits and magnitude, which equal numbers have in common whatever form they are in.
fn hash_number(number: &Number, state: &mut impl Hasher) -> Result<(), FuncError> {
    let mut text = String::new();
    exact(number)?.write(&mut text);
    let negative = text.starts_with('-');
    let (mantissa, exponent) = text.trim_start_matches('-').split_once('e').unwrap_or((&text, "0"));
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = [whole, fraction].concat();
    let leading = digits.len() - digits.trim_start_matches('0').len();
    digits.drain(..leading);
    digits.truncate(digits.trim_end_matches('0').len());
    if digits.is_empty() {
        return Ok(());
    }
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let point = point - i64::try_from(leading).unwrap_or(0) + exponent.parse().unwrap_or(0);
    state.write_u8(u8::from(negative));
    state.write(digits.as_bytes());
    state.write_i64(point);
    Ok(())
}

/// The number with all its digits: a binary float has a last one too.
fn exact(number: &Number) -> Result<Number, FuncError> {
    if !number.is_binary() {
        return Ok(number.clone());
    }
    let exponent = (number.to_f64().to_bits() >> 52) & 0x7ff;
    let binary_places = 1075u64.saturating_sub(exponent.max(1));
    Ok(number.round(u32::try_from(binary_places).unwrap_or(0))?)
}
