//! How often something passed, and how sure that is.

use threadline_lang::Number;

/// So many standard deviations around the middle hold 95 % of a normal distribution.
const Z: f64 = 1.959_963_985;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassRate {
    pub(super) passed: u64,
    pub(super) tried: u64,
}

impl PassRate {
    pub(super) fn new(passed: u64, tried: u64) -> Self {
        Self { passed, tried }
    }

    /// The share that passed, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "nobody tries anything 2^52 times")]
    pub(super) fn share(self) -> f64 {
        if self.tried == 0 { 0.0 } else { self.passed as f64 / self.tried as f64 }
    }

    /// The share in percent, with one decimal where it is needed.
    pub(super) fn percent(self) -> String {
        percent(self.share())
    }

    /// The interval in which the pass rate is with 95 % confidence, by Wilson's formula.
    #[expect(clippy::cast_precision_loss, reason = "nobody tries anything 2^52 times")]
    pub(super) fn interval(self) -> (f64, f64) {
        let tried = self.tried as f64;
        if self.tried == 0 {
            return (0.0, 1.0);
        }
        let rate = self.share();
        let center = rate + Z * Z / (2.0 * tried);
        let spread = Z * (rate * (1.0 - rate) / tried + Z * Z / (4.0 * tried * tried)).sqrt();
        let scale = 1.0 + Z * Z / tried;
        (((center - spread) / scale).clamp(0.0, 1.0), ((center + spread) / scale).clamp(0.0, 1.0))
    }

    /// The interval for people: `15 % to 85 %`.
    pub(super) fn interval_text(self) -> String {
        let (low, high) = self.interval();
        format!("{} to {}", percent(low), percent(high))
    }
}

/// A share as a number with at most four decimals.
pub(super) fn rounded(share: f64) -> Number {
    let number = Number::parse(&format!("{share:.4}")).and_then(|number| number.shortest());
    number.unwrap_or(Number::int(0))
}

fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_one_decimal_at_most() {
        let percents = [(0, 4), (1, 3), (2, 4), (4, 4), (0, 0)];
        let percents = percents.map(|(passed, tried)| PassRate::new(passed, tried).percent());
        assert_eq!(percents, ["0 %", "33.3 %", "50 %", "100 %", "0 %"]);
        assert_eq!(rounded(1.0 / 3.0).to_string(), "0.3333");
        assert_eq!(rounded(1.0).to_string(), "1");
    }

    /// Values of Wilson's interval that are printed in textbooks.
    #[test]
    fn intervals_are_those_of_wilson() {
        let text = |passed, tried| PassRate::new(passed, tried).interval_text();
        assert_eq!(text(2, 4), "15 % to 85 %");
        assert_eq!(text(0, 10), "0 % to 27.8 %");
        assert_eq!(text(10, 10), "72.2 % to 100 %");
        assert_eq!(text(0, 0), "0 % to 100 %");
    }
}
