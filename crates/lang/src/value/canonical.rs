//! One text for all values that are equal, whatever form they are in: what finds equal values among more than fit in
//! memory. It is for comparing only; nothing reads it back.

use super::{Number, Value, ValueRepr, quote};

impl Value {
    /// Appends a text that two values have in common exactly when they are equal: `85` and `85.0` are one, and so are
    /// two objects that differ in the order of their keys.
    pub fn write_canonical(&self, out: &mut String) {
        match &self.0 {
            ValueRepr::Null => out.push_str("null"),
            ValueRepr::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
            ValueRepr::Number(number) => number.write_canonical(out),
            ValueRepr::Text(text) => quote(text, out),
            ValueRepr::List(list) => {
                out.push('[');
                for item in &list.items {
                    item.write_canonical(out);
                    out.push(',');
                }
                out.push(']');
            }
            ValueRepr::Object(object) => {
                let mut entries: Vec<_> = object.iter().map(|(key, value)| (key.as_str(), value)).collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                out.push('{');
                for (key, value) in entries {
                    quote(key, out);
                    value.write_canonical(out);
                    out.push(',');
                }
                out.push('}');
            }
        }
    }
}

impl Number {
    /// Appends sign, significant digits and magnitude, which equal numbers have in common whatever form they are in.
    pub(crate) fn write_canonical(&self, out: &mut String) {
        let mut text = String::new();
        self.write(&mut text);
        let negative = text.starts_with('-');
        let (mantissa, exponent) = text.trim_start_matches('-').split_once('e').unwrap_or((&text, "0"));
        let mantissa = mantissa.trim_start_matches('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits = [whole, fraction].concat();
        let leading = digits.len() - digits.trim_start_matches('0').len();
        digits.drain(..leading);
        digits.truncate(digits.trim_end_matches('0').len());
        if digits.is_empty() {
            out.push('0');
            return;
        }
        let point = i64::try_from(whole.len()).unwrap_or(i64::MAX);
        let point = point - i64::try_from(leading).unwrap_or(0) + exponent.parse().unwrap_or(0);
        out.push_str(if negative { "-" } else { "" });
        out.push_str(&digits);
        out.push('e');
        Self::int(point).write(out);
    }
}
