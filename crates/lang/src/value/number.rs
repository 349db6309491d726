//! Numbers: ints of any size, and exact decimals that keep their scale. There are no binary floats.
//!
//! `+ - *` and comparisons are exact. A quotient or a root is exact where it ends within [`PRECISION`]
//! significant digits, and rounded half-even to them where it does not. NaN and the infinities are never
//! values. Digits and exponents are capped before anything is computed, so that no input can make a number
//! grow without bound.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

/// The most digits a number may have, and the largest exponent.
pub const MAX_DIGITS: usize = 10_000;
const MAX_EXPONENT: i64 = 10_000;
/// A bit length that surely has no more than [`MAX_DIGITS`] digits, and one that surely has more.
const MAX_BITS: u64 = 33_220;
/// The significant digits of a quotient or a root that does not end.
const PRECISION: usize = 34;
/// A result with more zeros before its first digit is written with an exponent.
const MAX_ZEROS: i64 = 20;
/// The least mantissa of [`PRECISION`] digits.
const FULL: u128 = 10u128.pow(33);

/// An int or an exact decimal.
#[derive(Clone)]
pub struct Number(NumberRepr);

/// Small numbers are held in place; `Big` holds only what does not fit. `exponent` says that a decimal was written with
/// one, and is printed so again.
#[derive(Clone)]
enum NumberRepr {
    Int(i64),
    Dec { mantissa: i64, scale: i16, exponent: bool },
    Big(Arc<Big>),
}

enum Big {
    Int(BigInt),
    Dec { mantissa: BigInt, scale: i16, exponent: bool },
}

/// Why there is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberError {
    /// The text is not a number.
    Syntax,
    /// More than [`MAX_DIGITS`] digits, or an exponent beyond that.
    TooLarge,
    /// Division or remainder by zero.
    DivisionByZero,
    /// The exponent of a power is neither whole nor a whole number of halves.
    Exponent,
    /// A square root of a negative number.
    NegativeRoot,
}

impl From<u64> for Number {
    fn from(int: u64) -> Self {
        match i64::try_from(int) {
            Ok(small) => Self::int(small),
            Err(_) => Self(NumberRepr::Big(Arc::new(Big::Int(BigInt::from(int))))),
        }
    }
}

impl Number {
    /// Reads `-?digits[.digits][e[+-]digits]`; leading zeros are refused, as in JSON.
    pub fn parse(text: &str) -> Result<Self, NumberError> {
        let bytes = text.as_bytes();
        let (negative, digits) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, bytes),
        };
        if digits.first() == Some(&b'0') && digits.get(1).is_some_and(u8::is_ascii_digit) {
            return Err(NumberError::Syntax);
        }
        if digits.len() <= 18 {
            let mut int = 0i64;
            let mut all = !digits.is_empty();
            for byte in digits {
                if !byte.is_ascii_digit() {
                    all = false;
                    break;
                }
                int = int * 10 + i64::from(byte - b'0');
            }
            if all {
                return Ok(Self::int(if negative { -int } else { int }));
            }
        }
        Self::parse_parts(negative, &text[usize::from(negative)..])
    }

    fn parse_parts(negative: bool, text: &str) -> Result<Self, NumberError> {
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let (whole, fraction) = match number.find('.') {
            Some(at) => (&number[..at], Some(&number[at + 1..])),
            None => (number, None),
        };
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || fraction.is_some_and(|part| !all_digits(part)) {
            return Err(NumberError::Syntax);
        }
        let fraction_len = fraction.map_or(0, str::len);
        if whole.len() + fraction_len > MAX_DIGITS {
            return Err(NumberError::TooLarge);
        }
        let mut scale = i64::try_from(fraction_len).map_err(|_| NumberError::TooLarge)?;
        if let Some(exponent) = exponent {
            scale -= parse_exponent(exponent)?;
        }
        let fraction = fraction.unwrap_or("");
        let mantissa = small_mantissa(whole, fraction);
        if let Some(mantissa) = mantissa {
            let mantissa = if negative { -mantissa } else { mantissa };
            if fraction_len == 0 && exponent.is_none() {
                return Ok(Self::int(mantissa));
            }
            return Ok(Self(NumberRepr::Dec {
                mantissa,
                scale: check_scale(scale)?,
                exponent: exponent.is_some(),
            }));
        }
        let mut digits = String::with_capacity(whole.len() + fraction.len());
        digits.push_str(whole);
        digits.push_str(fraction);
        let magnitude: BigInt = digits.parse().map_err(|_| NumberError::Syntax)?;
        let mantissa = if negative { -magnitude } else { magnitude };
        if fraction_len == 0 && exponent.is_none() {
            return Self::big_int(mantissa);
        }
        Self::big_decimal(mantissa, scale, exponent.is_some())
    }

    /// A whole number of 64 bits.
    #[inline]
    pub fn int(int: i64) -> Self {
        Self(NumberRepr::Int(int))
    }

    /// An int of any size, within the limit of digits.
    pub fn big_int(int: BigInt) -> Result<Self, NumberError> {
        if let Some(small) = int.to_i64() {
            return Ok(Self::int(small));
        }
        check_digits(&int)?;
        Ok(Self(NumberRepr::Big(Arc::new(Big::Int(int)))))
    }

    /// The exact decimal `mantissa / 10^scale`.
    pub fn decimal(mantissa: i64, scale: i64) -> Result<Self, NumberError> {
        Ok(Self(NumberRepr::Dec { mantissa, scale: check_scale(scale)?, exponent: false }))
    }

    fn big_decimal(mantissa: BigInt, scale: i64, exponent: bool) -> Result<Self, NumberError> {
        let scale = check_scale(scale)?;
        if let Some(mantissa) = mantissa.to_i64() {
            return Ok(Self(NumberRepr::Dec { mantissa, scale, exponent }));
        }
        check_digits(&mantissa)?;
        Ok(Self(NumberRepr::Big(Arc::new(Big::Dec { mantissa, scale, exponent }))))
    }

    /// Whether this is an int; otherwise it is a decimal.
    pub fn is_int(&self) -> bool {
        match &self.0 {
            NumberRepr::Int(_) => true,
            NumberRepr::Big(big) => matches!(**big, Big::Int(_)),
            NumberRepr::Dec { .. } => false,
        }
    }

    /// The same number as a decimal: an int gets one place after the point.
    pub fn to_decimal(&self) -> Result<Self, NumberError> {
        match &self.0 {
            NumberRepr::Dec { .. } => Ok(self.clone()),
            NumberRepr::Big(big) if matches!(**big, Big::Dec { .. }) => Ok(self.clone()),
            _ => Self::big_decimal(self.exact().0 * 10, 1, false),
        }
    }

    /// The int, when it is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            NumberRepr::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The nearest binary float, for what is no value of the language, such as a time to wait; infinite where the number
    /// is out of range.
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            NumberRepr::Int(int) => *int as f64,
            NumberRepr::Dec { mantissa, scale, .. } => decimal_to_f64(&mantissa.to_string(), *scale),
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) => int.to_f64().unwrap_or(f64::INFINITY),
                Big::Dec { mantissa, scale, .. } => decimal_to_f64(&mantissa.to_string(), *scale),
            },
        }
    }

    /// Exactly as `mantissa / 10^scale`.
    fn exact(&self) -> (BigInt, i64) {
        match &self.0 {
            NumberRepr::Int(int) => (BigInt::from(*int), 0),
            NumberRepr::Dec { mantissa, scale, .. } => (BigInt::from(*mantissa), i64::from(*scale)),
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) => (int.clone(), 0),
                Big::Dec { mantissa, scale, .. } => (mantissa.clone(), i64::from(*scale)),
            },
        }
    }

    /// The exact sum.
    pub fn add(&self, other: &Self) -> Result<Self, NumberError> {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => match a.checked_add(*b) {
                Some(sum) => Ok(Self::int(sum)),
                None => Self::big_int(BigInt::from(*a) + b),
            },
            _ => self.aligned(other, |a, b| a + b, |a, b| a + b),
        }
    }

    /// The exact difference.
    pub fn sub(&self, other: &Self) -> Result<Self, NumberError> {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => match a.checked_sub(*b) {
                Some(difference) => Ok(Self::int(difference)),
                None => Self::big_int(BigInt::from(*a) - b),
            },
            _ => self.aligned(other, |a, b| a - b, |a, b| a - b),
        }
    }

    /// The exact product.
    pub fn mul(&self, other: &Self) -> Result<Self, NumberError> {
        if let (NumberRepr::Int(a), NumberRepr::Int(b)) = (&self.0, &other.0) {
            return match a.checked_mul(*b) {
                Some(product) => Ok(Self::int(product)),
                None => Self::big_int(BigInt::from(*a) * b),
            };
        }
        let ((a, a_scale), (b, b_scale)) = (self.exact(), other.exact());
        self.exact_result(other, a * b, a_scale + b_scale)
    }

    /// The quotient, always a decimal.
    pub fn div(&self, other: &Self) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        if let (Some((a, a_scale)), Some((b, b_scale))) = (self.small(), other.small()) {
            let (mantissa, places) = small_quotient(a.unsigned_abs(), b.unsigned_abs());
            let scale = i64::from(a_scale) - i64::from(b_scale) + places;
            return Self::normal(a < 0 && b > 0 || a > 0 && b < 0, mantissa, scale);
        }
        let ((a, a_scale), (b, b_scale)) = (self.exact(), other.exact());
        let negative = a.is_negative() != b.is_negative();
        let (a, b) = (a.into_parts().1, b.into_parts().1);
        let shift = missing_digits(&a, &b, PRECISION as u64 + 1);
        let (quotient, rest) = (a * ten_to(shift)).div_rem(&b);
        Self::rounded(negative, &quotient, !rest.is_zero(), a_scale - b_scale, shift)
    }

    /// `digits / 10^(scale + places)`, rounded half-even; `more` says that further digits were cut off.
    fn rounded(
        negative: bool,
        digits: &BigUint,
        more: bool,
        scale: i64,
        places: u64,
    ) -> Result<Self, NumberError> {
        let scale = scale + i64::try_from(places).map_err(|_| NumberError::TooLarge)?;
        let len = if digits.bits() <= 100 { 0 } else { digits.to_string().len() };
        let cut = len.saturating_sub(PRECISION);
        if cut == 0 {
            return Self::normal(negative, digits.to_u128().ok_or(NumberError::TooLarge)?, scale);
        }
        let unit = ten_to(cut as u64);
        let (kept, rest) = digits.div_rem(&unit);
        let kept = kept.to_u128().ok_or(NumberError::TooLarge)?;
        let half = (rest * 2u32).cmp(&unit).then(if more { Ordering::Greater } else { Ordering::Equal });
        let scale = scale - i64::try_from(cut).map_err(|_| NumberError::TooLarge)?;
        Self::normal(negative, round_half_even(kept, half), scale)
    }

    /// A result of at most [`PRECISION`] digits without the zeros at its end, and with at least one place after the
    /// point where it can be written in full.
    fn normal(negative: bool, mut mantissa: u128, mut scale: i64) -> Result<Self, NumberError> {
        if mantissa == 0 {
            return Self::decimal(0, 1);
        }
        while (scale > 1 || mantissa >= FULL) && mantissa.is_multiple_of(10) {
            mantissa /= 10;
            scale -= 1;
        }
        while scale < 1 && mantissa < FULL * 10 {
            mantissa *= 10;
            scale += 1;
        }
        if scale < 1 {
            while mantissa.is_multiple_of(10) {
                mantissa /= 10;
                scale -= 1;
            }
        }
        // Nobody counts dozens of zeros.
        let exponent = scale - i64::from(mantissa.ilog10()) > MAX_ZEROS;
        let mantissa = BigInt::from(mantissa);
        Self::big_decimal(if negative { -mantissa } else { mantissa }, scale, exponent)
    }

    /// The quotient rounded down: an int for two ints, else a decimal.
    pub fn floor_div(&self, other: &Self) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        let (a, b, _) = align(self.exact(), other.exact());
        let quotient = a.div_floor(&b);
        if self.is_int() && other.is_int() {
            Self::big_int(quotient)
        } else {
            Self::big_decimal(quotient * 10, 1, false)
        }
    }

    /// The remainder that goes with [`Number::floor_div`]: it has the sign of the divisor.
    pub fn rem(&self, other: &Self) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        let (a, b, scale) = align(self.exact(), other.exact());
        self.exact_result(other, a.mod_floor(&b), scale)
    }

    /// The power: exact for a whole exponent that is not negative. A negative exponent gives the quotient of 1 and the
    /// power, one that is a number of halves a square root.
    pub fn pow(&self, exponent: &Self) -> Result<Self, NumberError> {
        if !exponent.is_int() {
            return self.pow_of_decimal(exponent);
        }
        if exponent.is_negative() {
            return Self::int(1).div(&self.pow(&exponent.neg()?)?);
        }
        let Some(power) = exponent.as_i64().and_then(|power| u64::try_from(power).ok()) else {
            return self.pow_of_trivial_base(exponent);
        };
        let (mantissa, scale) = self.exact();
        if !mantissa.is_zero() && !mantissa.magnitude().is_one() {
            let bits = (mantissa.bits() - 1).saturating_mul(power);
            if bits > MAX_BITS {
                return Err(NumberError::TooLarge);
            }
        } else if self.is_int() {
            return self.pow_of_trivial_base(exponent);
        }
        let scale = i64::try_from(power).ok().and_then(|power| scale.checked_mul(power));
        let scale = scale.ok_or(NumberError::TooLarge)?;
        check_scale(scale)?;
        let result = Pow::pow(mantissa, power);
        if self.is_int() { Self::big_int(result) } else { Self::big_decimal(result, scale, false) }
    }

    /// The power of an exponent with places after the point: a decimal.
    fn pow_of_decimal(&self, exponent: &Self) -> Result<Self, NumberError> {
        if exponent.is_whole() {
            return self.pow(&exponent.truncate()?)?.to_decimal();
        }
        let halves = exponent.mul(&Self::int(2))?;
        if !halves.is_whole() {
            return Err(NumberError::Exponent);
        }
        if self.is_negative() {
            return Err(NumberError::NegativeRoot);
        }
        let (mantissa, scale) = self.pow(&halves.abs()?.truncate()?)?.exact();
        let unit = ten_to(scale.unsigned_abs());
        let (above, below) = match (mantissa.into_parts().1, scale > 0) {
            (mantissa, true) => (mantissa, unit),
            (mantissa, false) => (mantissa * unit, BigUint::one()),
        };
        let (above, below) = if halves.is_negative() { (below, above) } else { (above, below) };
        if below.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        let shift = missing_digits(&above, &below, 2 * PRECISION as u64 + 2).div_ceil(2);
        let (square, rest) = (above * ten_to(2 * shift)).div_rem(&below);
        let root = square.sqrt();
        let more = !rest.is_zero() || &root * &root != square;
        Self::rounded(false, &root, more, 0, shift)
    }

    /// 0, 1 and -1 to any power, however large.
    fn pow_of_trivial_base(&self, exponent: &Self) -> Result<Self, NumberError> {
        let even = exponent.exact().0.is_even();
        match self.as_i64() {
            Some(_) if exponent.is_zero() => Ok(Self::int(1)),
            Some(base @ (0 | 1)) => Ok(Self::int(base)),
            Some(-1) => Ok(Self::int(if even { 1 } else { -1 })),
            _ => Err(NumberError::TooLarge),
        }
    }

    /// The number with its sign turned.
    pub fn neg(&self) -> Result<Self, NumberError> {
        match &self.0 {
            NumberRepr::Int(int) => match int.checked_neg() {
                Some(negated) => Ok(Self::int(negated)),
                None => Self::big_int(-BigInt::from(*int)),
            },
            NumberRepr::Dec { mantissa, scale, exponent } => match mantissa.checked_neg() {
                Some(mantissa) => Ok(Self(NumberRepr::Dec { mantissa, scale: *scale, exponent: *exponent })),
                None => Self::big_decimal(-BigInt::from(*mantissa), i64::from(*scale), *exponent),
            },
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) => Self::big_int(-int),
                Big::Dec { mantissa, scale, exponent } => {
                    Self::big_decimal(-mantissa, i64::from(*scale), *exponent)
                }
            },
        }
    }

    /// The number without its sign.
    pub fn abs(&self) -> Result<Self, NumberError> {
        if self.is_negative() { self.neg() } else { Ok(self.clone()) }
    }

    /// Rounded to `digits` places after the point, half away from zero; an int for no places.
    pub fn round(&self, digits: u32) -> Result<Self, NumberError> {
        if self.is_int() {
            return Ok(self.clone());
        }
        let (mantissa, scale) = self.exact();
        let digits = i64::from(digits);
        let rounded = if scale <= digits {
            mantissa * BigInt::from(ten_to((digits - scale).unsigned_abs().min(MAX_DIGITS as u64)))
        } else {
            let unit = BigInt::from(ten_to((scale - digits).unsigned_abs()));
            let half = &unit / 2u32;
            if mantissa.is_negative() { -((-mantissa + half) / unit) } else { (mantissa + half) / unit }
        };
        if digits == 0 { Self::big_int(rounded) } else { Self::big_decimal(rounded, digits, false) }
    }

    /// Without the zeros at the end of its places: an int where nothing is left of them.
    pub fn shortest(&self) -> Result<Self, NumberError> {
        let (mut mantissa, mut scale) = self.exact();
        while scale > 0 && (&mantissa % 10u32).is_zero() {
            mantissa /= 10u32;
            scale -= 1;
        }
        if scale > 0 { Self::big_decimal(mantissa, scale, false) } else { self.truncate() }
    }

    /// Toward zero, as an int.
    pub fn truncate(&self) -> Result<Self, NumberError> {
        if self.is_int() {
            return Ok(self.clone());
        }
        let (mantissa, scale) = self.exact();
        if scale <= 0 {
            Self::big_int(mantissa * BigInt::from(ten_to(scale.unsigned_abs())))
        } else {
            Self::big_int(mantissa / BigInt::from(ten_to(scale.unsigned_abs())))
        }
    }

    /// Whether the number has no part after the point.
    pub fn is_whole(&self) -> bool {
        self.truncate().is_ok_and(|whole| whole == *self)
    }

    /// Whether this is zero.
    pub fn is_zero(&self) -> bool {
        match &self.0 {
            NumberRepr::Int(int) => *int == 0,
            NumberRepr::Dec { mantissa, .. } => *mantissa == 0,
            NumberRepr::Big(_) => false,
        }
    }

    /// Whether this is less than zero.
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            NumberRepr::Int(int) => *int < 0,
            NumberRepr::Dec { mantissa, .. } => *mantissa < 0,
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) | Big::Dec { mantissa: int, .. } => int.is_negative(),
            },
        }
    }

    /// Mantissa and scale, where both are small.
    fn small(&self) -> Option<(i64, i16)> {
        match self.0 {
            NumberRepr::Int(int) => Some((int, 0)),
            NumberRepr::Dec { mantissa, scale, .. } => Some((mantissa, scale)),
            NumberRepr::Big(_) => None,
        }
    }

    /// An operation on the two mantissas at one scale; most fit in 128 bits.
    fn aligned(
        &self,
        other: &Self,
        op: impl Fn(i128, i128) -> i128,
        large: impl Fn(BigInt, BigInt) -> BigInt,
    ) -> Result<Self, NumberError> {
        if let (Some(a), Some(b)) = (self.small(), other.small())
            && let Some((a, b, scale)) = align_small(a, b)
            && let Ok(mantissa) = i64::try_from(op(a, b))
            && !(self.is_int() && other.is_int())
        {
            return Self::decimal(mantissa, scale.into());
        }
        let (a, b, scale) = align(self.exact(), other.exact());
        self.exact_result(other, large(a, b), scale)
    }

    /// An exact result is an int only when both operands were.
    fn exact_result(&self, other: &Self, mantissa: BigInt, scale: i64) -> Result<Self, NumberError> {
        if self.is_int() && other.is_int() {
            Self::big_int(mantissa)
        } else {
            Self::big_decimal(mantissa, scale, false)
        }
    }

    /// Appends the text form: ints in full, decimals with their scale.
    pub fn write(&self, out: &mut String) {
        match &self.0 {
            NumberRepr::Int(int) => out.push_str(itoa::Buffer::new().format(*int)),
            NumberRepr::Dec { mantissa, scale, exponent } => {
                let mut buffer = itoa::Buffer::new();
                write_decimal(*mantissa < 0, buffer.format(mantissa.unsigned_abs()), *scale, *exponent, out);
            }
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) => out.push_str(&int.to_string()),
                Big::Dec { mantissa, scale, exponent } => {
                    let digits = mantissa.magnitude().to_string();
                    write_decimal(mantissa.is_negative(), &digits, *scale, *exponent, out);
                }
            },
        }
    }
}

fn parse_exponent(text: &str) -> Result<i64, NumberError> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::Syntax);
    }
    let significant = digits.trim_start_matches('0');
    if significant.len() > 6 {
        return Err(NumberError::TooLarge);
    }
    let exponent: i64 =
        if significant.is_empty() { 0 } else { significant.parse().map_err(|_| NumberError::Syntax)? };
    Ok(if negative { -exponent } else { exponent })
}

fn small_mantissa(whole: &str, fraction: &str) -> Option<i64> {
    if whole.len() + fraction.len() > 18 {
        return None;
    }
    Some(whole.bytes().chain(fraction.bytes()).fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0')))
}

fn check_digits(int: &BigInt) -> Result<(), NumberError> {
    if int.bits() > MAX_BITS || (int.bits() > MAX_BITS - 8 && *int.magnitude() >= ten_to(MAX_DIGITS as u64)) {
        return Err(NumberError::TooLarge);
    }
    Ok(())
}

fn check_scale(scale: i64) -> Result<i16, NumberError> {
    if scale.abs() > MAX_EXPONENT {
        return Err(NumberError::TooLarge);
    }
    i16::try_from(scale).map_err(|_| NumberError::TooLarge)
}

fn ten_to(power: u64) -> BigUint {
    Pow::pow(BigUint::from(10u32), power)
}

/// By which power of ten `a` must be multiplied so that its quotient by `b` has at least this many digits.
fn missing_digits(a: &BigUint, b: &BigUint, digits: u64) -> u64 {
    // A quotient of this many bits more than the divisor has at least three digits for ten of them.
    let bits = i64::try_from(a.bits()).unwrap_or(0) - i64::try_from(b.bits()).unwrap_or(0) - 1;
    let there = if bits < 0 { bits / 3 - 1 } else { bits * 3 / 10 };
    u64::try_from(i64::try_from(digits).unwrap_or(0) - there).unwrap_or(0)
}

/// The quotient of two small numbers, digit by digit: exact where it ends within the precision.
fn small_quotient(a: u64, b: u64) -> (u128, i64) {
    let (mut quotient, mut rest, b) = (u128::from(a / b), u128::from(a % b), u128::from(b));
    let mut scale = 0;
    while rest != 0 && quotient < FULL {
        rest *= 10;
        quotient = quotient * 10 + rest / b;
        rest %= b;
        scale += 1;
    }
    let quotient = if rest == 0 { quotient } else { round_half_even(quotient, (rest * 2).cmp(&b)) };
    (quotient, scale)
}

/// One more where what was cut off is above a half of the last place, or just a half and the last digit is odd.
fn round_half_even(kept: u128, half: Ordering) -> u128 {
    match half {
        Ordering::Less => kept,
        Ordering::Equal => kept + kept % 2,
        Ordering::Greater => kept + 1,
    }
}

/// Both mantissas at the larger of the two scales, where they fit.
fn align_small((a, a_scale): (i64, i16), (b, b_scale): (i64, i16)) -> Option<(i128, i128, i16)> {
    let scaled = |mantissa: i64, digits: i32| i128::from(mantissa) * 10i128.pow(digits.unsigned_abs());
    match i32::from(a_scale) - i32::from(b_scale) {
        more @ 0..=18 => Some((a.into(), scaled(b, more), a_scale)),
        less @ -18..=-1 => Some((scaled(a, less), b.into(), b_scale)),
        _ => None,
    }
}

/// Both mantissas at the larger of the two scales.
fn align((a, a_scale): (BigInt, i64), (b, b_scale): (BigInt, i64)) -> (BigInt, BigInt, i64) {
    match a_scale.cmp(&b_scale) {
        Ordering::Equal => (a, b, a_scale),
        Ordering::Less => (a * BigInt::from(ten_to(a_scale.abs_diff(b_scale))), b, b_scale),
        Ordering::Greater => (a, b * BigInt::from(ten_to(a_scale.abs_diff(b_scale))), a_scale),
    }
}

fn decimal_to_f64(mantissa: &str, scale: i16) -> f64 {
    // The standard library reads decimal text to the nearest float, which is exactly this conversion.
    format!("{mantissa}e{}", -i32::from(scale)).parse().unwrap_or(f64::INFINITY)
}

/// Plain notation, or `d.ddde±x` where it was written so, or where plain would be hundreds of zeros.
fn write_decimal(negative: bool, digits: &str, scale: i16, exponent: bool, out: &mut String) {
    if negative {
        out.push('-');
    }
    let scale = i64::from(scale);
    let len = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let adjusted = len - 1 - scale;
    if scale > 0 && adjusted >= -400 && !exponent {
        let point = len - scale;
        if point > 0 {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            out.push_str(whole);
            out.push('.');
            out.push_str(fraction);
        } else {
            out.push_str("0.");
            (point..0).for_each(|_| out.push('0'));
            out.push_str(digits);
        }
        return;
    }
    let (first, rest) = digits.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    out.push('e');
    out.push_str(itoa::Buffer::new().format(adjusted));
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => a.cmp(b),
            _ => match (self.small(), other.small()) {
                (Some(a), Some(b)) => match align_small(a, b) {
                    Some((a, b, _)) => a.cmp(&b),
                    None => cmp_exact(self, other),
                },
                _ => cmp_exact(self, other),
            },
        }
    }
}

fn cmp_exact(a: &Number, b: &Number) -> Ordering {
    let ((a, a_scale), (b, b_scale)) = (a.exact(), b.exact());
    if a.sign() != b.sign() || a.is_zero() || b.is_zero() {
        return a.cmp(&BigInt::zero()).cmp(&b.cmp(&BigInt::zero()));
    }
    // Where the magnitudes are far apart the exponents decide, and nothing large is computed: a mantissa of
    // `bits` bits is below 10^(bits × 0.302) and not below 10^((bits - 1) × 0.301).
    let at_least = |mantissa: &BigInt, scale: i64| bits(mantissa).saturating_sub(1) * 301 / 1000 - scale;
    let below = |mantissa: &BigInt, scale: i64| bits(mantissa) * 302 / 1000 + 1 - scale;
    let by_sign = |order: Ordering| if a.is_negative() { order.reverse() } else { order };
    if at_least(&a, a_scale) >= below(&b, b_scale) {
        return by_sign(Ordering::Greater);
    }
    if at_least(&b, b_scale) >= below(&a, a_scale) {
        return by_sign(Ordering::Less);
    }
    let (a, b, _) = align((a, a_scale), (b, b_scale));
    a.cmp(&b)
}

fn bits(mantissa: &BigInt) -> i64 {
    i64::try_from(mantissa.bits()).unwrap_or(i64::MAX >> 10)
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal numbers have the same nearest float, whatever form they are held in.
        let float = self.to_f64();
        (if float == 0.0 { 0.0 } else { float }).to_bits().hash(state);
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
