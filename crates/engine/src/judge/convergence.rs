//! Whether a number comes nearer to its target: compared with the target, and with the measurement before.

use ecow::{EcoString, eco_format};
use threadline_flow::model::Direction;
use threadline_lang::value::NumberError;
use threadline_lang::{Number, Value};

use super::Verdict;

/// A number on its way to a target.
#[derive(Debug, Clone)]
pub struct Converging {
    /// The number that was measured now.
    pub current: Number,
    /// The measurement before; none the first time.
    pub previous: Option<Number>,
    /// Where it should come to.
    pub target: Number,
    /// How far from there is near enough.
    pub tolerance: Number,
    /// Whether smaller or larger numbers are better.
    pub direction: Direction,
}

impl Converging {
    /// How far a number is from the target; what has passed it is below 0 where there is only one way.
    fn distance(&self, number: &Number) -> Result<Number, NumberError> {
        match self.direction {
            Direction::Toward => number.sub(&self.target)?.abs(),
            Direction::Minimize => number.sub(&self.target),
            Direction::Maximize => self.target.sub(number),
        }
    }
}

/// `target`, `progress` or `stall`. The error says why none of them.
pub fn verdict(name: &str, of: &Converging) -> Result<Verdict, EcoString> {
    let too_large = |_: NumberError| EcoString::from("the numbers are too large to be compared");
    let distance = of.distance(&of.current).map_err(too_large)?;
    let shown = |number: &Number| Value::from(number.clone()).to_string();
    let (current, target) = (shown(&of.current), shown(&of.target));
    let before = of.previous.as_ref();
    let before_distance = before.map(|before| of.distance(before)).transpose().map_err(too_large)?;
    let (verdict, reason) = if distance <= of.tolerance {
        let within =
            if of.tolerance.is_zero() { String::new() } else { format!(", within {}", shown(&of.tolerance)) };
        ("target", eco_format!("`{name}` is {current}: the target {target} is reached{within}"))
    } else {
        match (before, before_distance) {
            (Some(before), Some(far)) if distance < far => (
                "progress",
                eco_format!("`{name}` is {current}, before {}; the target is {target}", shown(before)),
            ),
            (Some(before), _) => (
                "stall",
                eco_format!(
                    "`{name}` is {current}, before {}: no nearer to the target {target}",
                    shown(before)
                ),
            ),
            (None, _) => (
                "progress",
                eco_format!("`{name}` is {current}, the first measurement; the target is {target}"),
            ),
        }
    };
    let delta = before.map(|before| of.current.sub(before)).transpose().map_err(too_large)?;
    let value = |number: Option<Number>| number.map_or(Value::NULL, Value::from);
    Ok(Verdict::new(verdict, reason).with_details([
        ("current".into(), Value::from(of.current.clone())),
        ("previous".into(), value(of.previous.clone())),
        ("target".into(), Value::from(of.target.clone())),
        ("delta".into(), value(delta)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).expect("a number")
    }

    fn judged(
        current: &str,
        previous: Option<&str>,
        target: &str,
        tolerance: &str,
        direction: Direction,
    ) -> EcoString {
        let of = Converging {
            current: number(current),
            previous: previous.map(number),
            target: number(target),
            tolerance: number(tolerance),
            direction,
        };
        verdict("n", &of).map_or_else(|why| why, |verdict| verdict.verdict)
    }

    #[test]
    fn the_verdicts() {
        use Direction::{Maximize, Minimize, Toward};
        for (current, previous, target, tolerance, direction, expected) in [
            ("5", None, "0", "0", Minimize, "progress"),
            ("0", None, "0", "0", Minimize, "target"),
            ("3", Some("5"), "0", "0", Minimize, "progress"),
            ("5", Some("5"), "0", "0", Minimize, "stall"),
            ("6", Some("5"), "0", "0", Minimize, "stall"),
            ("2", Some("5"), "0", "2", Minimize, "target"),
            ("-1", Some("5"), "0", "0", Minimize, "target"),
            ("80", Some("70"), "90", "0", Maximize, "progress"),
            ("60", Some("70"), "90", "0", Maximize, "stall"),
            ("95", Some("70"), "90", "0", Maximize, "target"),
            ("8", Some("13"), "10", "0", Toward, "progress"),
            ("13", Some("8"), "10", "0", Toward, "stall"),
            ("9.9", Some("8"), "10", "0.1", Toward, "target"),
            // Binary floats would be off by a little.
            ("0.3", Some("0.4"), "0.1", "0.2", Toward, "target"),
            ("9007199254740993", Some("9007199254740994"), "0", "0", Minimize, "progress"),
        ] {
            let found = judged(current, previous, target, tolerance, direction);
            assert_eq!(
                found, expected,
                "{current} after {previous:?}, {target} ± {tolerance}, {direction:?}"
            );
        }
    }

    /// Over every small case: the two ways mirror each other, the first measurement never stalls, what has
    /// reached the target does not depend on what was before, and more tolerance never takes the target away.
    #[test]
    fn the_laws() {
        let text = |int: i64| int.to_string();
        for (current, target) in (-4..=4).flat_map(|current| (-4..=4).map(move |target| (current, target))) {
            for tolerance in 0..=2 {
                let at = |previous: Option<i64>, sign: i64, tolerance: i64, direction| {
                    let previous = previous.map(|previous| text(sign * previous));
                    let (current, target) = (text(sign * current), text(sign * target));
                    judged(&current, previous.as_deref(), &target, &text(tolerance), direction)
                };
                let first = at(None, 1, tolerance, Direction::Minimize);
                assert_ne!(first, "stall");
                for previous in (-4..=4).map(Some) {
                    let down = at(previous, 1, tolerance, Direction::Minimize);
                    let up = at(previous, -1, tolerance, Direction::Maximize);
                    assert_eq!(down, up);
                    assert_eq!(down == "target", first == "target");
                    let wider = at(previous, 1, tolerance + 1, Direction::Minimize);
                    assert!(down != "target" || wider == "target");
                    let toward = at(previous, 1, tolerance, Direction::Toward);
                    assert_eq!(toward, at(previous, -1, tolerance, Direction::Toward));
                    assert!(toward != "target" || down == "target");
                }
                let stays = at(Some(current), 1, tolerance, Direction::Toward);
                assert_ne!(stays, "progress");
            }
        }
    }
}
