//! Numbers: ints of any size, exact decimals that keep their scale, and binary floats.
//!
//! `+ - *` and comparisons are exact; a binary float comes only from division, a negative power and the
//! functions that say so. NaN and the infinities are never values. Digits and exponents are capped before
//! anything is computed, so that no input can make a number grow without bound.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{FromPrimitive, One, Pow, Signed, ToPrimitive, Zero};

/// The most digits a number may have, and the largest exponent.
pub const MAX_DIGITS: usize = 10_000;
const MAX_EXPONENT: i64 = 10_000;
/// A bit length that surely has no more than [`MAX_DIGITS`] digits, and one that surely has more.
const MAX_BITS: u64 = 33_220;

/// An exact number, or a binary float.
#[derive(Clone)]
pub struct Number(NumberRepr);

/// Small numbers are held in place; `Big` holds only what does not fit. `exponent` says that a decimal was written with
/// one, and is printed so again.
#[derive(Clone)]
enum NumberRepr {
    Int(i64),
    Dec { mantissa: i64, scale: i16, exponent: bool },
    Float(f64),
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
    /// The result is not a finite number.
    NotFinite,
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
            if mantissa == 0 && negative && (fraction_len > 0 || exponent.is_some()) {
                return Ok(Self(NumberRepr::Float(-0.0)));
            }
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

    /// A binary float; NaN and the infinities are refused.
    pub fn float(float: f64) -> Result<Self, NumberError> {
        if float.is_finite() { Ok(Self(NumberRepr::Float(float))) } else { Err(NumberError::NotFinite) }
    }

    /// The binary float, when it is one: its text reads back as a decimal, which is not quite the same number.
    pub fn as_binary_float(&self) -> Option<f64> {
        match self.0 {
            NumberRepr::Float(float) => Some(float),
            _ => None,
        }
    }

    /// Whether this is an int; otherwise its type is float.
    pub fn is_int(&self) -> bool {
        match &self.0 {
            NumberRepr::Int(_) => true,
            NumberRepr::Big(big) => matches!(**big, Big::Int(_)),
            NumberRepr::Dec { .. } | NumberRepr::Float(_) => false,
        }
    }

    /// Whether this is a binary float.
    pub fn is_binary(&self) -> bool {
        matches!(self.0, NumberRepr::Float(_))
    }

    /// The int, when it is one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            NumberRepr::Int(int) => Some(int),
            _ => None,
        }
    }

    /// The nearest binary float; infinite where the number is out of range.
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            NumberRepr::Int(int) => *int as f64,
            NumberRepr::Float(float) => *float,
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
            NumberRepr::Float(float) => float_exact(*float),
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) => (int.clone(), 0),
                Big::Dec { mantissa, scale, .. } => (mantissa.clone(), i64::from(*scale)),
            },
        }
    }

    /// The exact sum; a binary float on either side makes it a binary float.
    pub fn add(&self, other: &Self) -> Result<Self, NumberError> {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => match a.checked_add(*b) {
                Some(sum) => Ok(Self::int(sum)),
                None => Self::big_int(BigInt::from(*a) + b),
            },
            (NumberRepr::Float(_), _) | (_, NumberRepr::Float(_)) => {
                Self::float(self.to_f64() + other.to_f64())
            }
            _ => self.aligned(other, |a, b| a + b),
        }
    }

    /// The exact difference; a binary float on either side makes it a binary float.
    pub fn sub(&self, other: &Self) -> Result<Self, NumberError> {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => match a.checked_sub(*b) {
                Some(difference) => Ok(Self::int(difference)),
                None => Self::big_int(BigInt::from(*a) - b),
            },
            (NumberRepr::Float(_), _) | (_, NumberRepr::Float(_)) => {
                Self::float(self.to_f64() - other.to_f64())
            }
            _ => self.aligned(other, |a, b| a - b),
        }
    }

    /// The exact product; a binary float on either side makes it a binary float.
    pub fn mul(&self, other: &Self) -> Result<Self, NumberError> {
        match (&self.0, &other.0) {
            (NumberRepr::Int(a), NumberRepr::Int(b)) => match a.checked_mul(*b) {
                Some(product) => Ok(Self::int(product)),
                None => Self::big_int(BigInt::from(*a) * b),
            },
            (NumberRepr::Float(_), _) | (_, NumberRepr::Float(_)) => {
                Self::float(self.to_f64() * other.to_f64())
            }
            _ => {
                let ((a, a_scale), (b, b_scale)) = (self.exact(), other.exact());
                self.exact_result(other, a * b, a_scale + b_scale)
            }
        }
    }

    /// The quotient, always a binary float.
    pub fn div(&self, other: &Self) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        let quotient = self.to_f64() / other.to_f64();
        if quotient.is_nan() || !self.to_f64().is_finite() || !other.to_f64().is_finite() {
            return self.div_beyond_floats(other);
        }
        Self::float(quotient)
    }

    /// Division of numbers that have no float themselves: shift both into range first.
    fn div_beyond_floats(&self, other: &Self) -> Result<Self, NumberError> {
        let ((a, a_scale), (b, b_scale)) = (self.exact(), other.exact());
        let shift = b.bits().saturating_sub(a.bits()) / 3 + 40;
        let quotient = a * ten_to(shift) / b;
        let scale = a_scale - b_scale + i64::try_from(shift).map_err(|_| NumberError::TooLarge)?;
        let scale = i32::try_from(scale).map_err(|_| NumberError::TooLarge)?;
        Self::float(format!("{quotient}e{}", -scale).parse().map_err(|_| NumberError::NotFinite)?)
    }

    /// The quotient rounded down: an int for two ints, else a float.
    pub fn floor_div(&self, other: &Self) -> Result<Self, NumberError> {
        if other.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        if self.is_binary() || other.is_binary() {
            return Self::float((self.to_f64() / other.to_f64()).floor());
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
        if self.is_binary() || other.is_binary() {
            let (a, b) = (self.to_f64(), other.to_f64());
            let rest = a % b;
            return Self::float(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest });
        }
        let (a, b, scale) = align(self.exact(), other.exact());
        self.exact_result(other, a.mod_floor(&b), scale)
    }

    /// The power: exact for a whole exponent that is not negative, else a binary float.
    pub fn pow(&self, exponent: &Self) -> Result<Self, NumberError> {
        let whole = exponent.as_i64().filter(|_| !self.is_binary());
        let Some(power) = whole.and_then(|power| u64::try_from(power).ok()) else {
            if self.is_zero() && exponent.is_negative() {
                return Err(NumberError::DivisionByZero);
            }
            if exponent.is_int() && !exponent.is_negative() && !self.is_binary() {
                return self.pow_of_trivial_base(exponent);
            }
            return Self::float(self.to_f64().powf(exponent.to_f64()));
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
            NumberRepr::Float(float) => Self::float(-float),
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
            mantissa * ten_to((digits - scale).unsigned_abs().min(MAX_DIGITS as u64))
        } else {
            let unit = ten_to((scale - digits).unsigned_abs());
            let half = &unit / 2u32;
            if mantissa.is_negative() { -((-mantissa + half) / unit) } else { (mantissa + half) / unit }
        };
        if digits == 0 { Self::big_int(rounded) } else { Self::big_decimal(rounded, digits, false) }
    }

    /// Toward zero, as an int.
    pub fn truncate(&self) -> Result<Self, NumberError> {
        if self.is_int() {
            return Ok(self.clone());
        }
        let (mantissa, scale) = self.exact();
        if scale <= 0 {
            Self::big_int(mantissa * ten_to(scale.unsigned_abs()))
        } else {
            Self::big_int(mantissa / ten_to(scale.unsigned_abs()))
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
            NumberRepr::Float(float) => *float == 0.0,
            NumberRepr::Big(_) => false,
        }
    }

    /// Whether this is less than zero.
    pub fn is_negative(&self) -> bool {
        match &self.0 {
            NumberRepr::Int(int) => *int < 0,
            NumberRepr::Dec { mantissa, .. } => *mantissa < 0,
            NumberRepr::Float(float) => *float < 0.0,
            NumberRepr::Big(big) => match &**big {
                Big::Int(int) | Big::Dec { mantissa: int, .. } => int.is_negative(),
            },
        }
    }

    fn aligned(&self, other: &Self, op: impl Fn(BigInt, BigInt) -> BigInt) -> Result<Self, NumberError> {
        let (a, b, scale) = align(self.exact(), other.exact());
        self.exact_result(other, op(a, b), scale)
    }

    /// An exact result is an int only when both operands were.
    fn exact_result(&self, other: &Self, mantissa: BigInt, scale: i64) -> Result<Self, NumberError> {
        if self.is_int() && other.is_int() {
            Self::big_int(mantissa)
        } else {
            Self::big_decimal(mantissa, scale, false)
        }
    }

    /// Appends the text form: ints in full, decimals with their scale, floats as the shortest text that
    /// reads back the same.
    pub fn write(&self, out: &mut String) {
        match &self.0 {
            NumberRepr::Int(int) => out.push_str(itoa::Buffer::new().format(*int)),
            NumberRepr::Dec { mantissa, scale, exponent } => {
                let mut buffer = itoa::Buffer::new();
                write_decimal(*mantissa < 0, buffer.format(mantissa.unsigned_abs()), *scale, *exponent, out);
            }
            NumberRepr::Float(float) => write_float(*float, out),
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
    if int.bits() > MAX_BITS
        || (int.bits() > MAX_BITS - 8 && *int.magnitude() >= ten_to(MAX_DIGITS as u64).into_parts().1)
    {
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

fn ten_to(power: u64) -> BigInt {
    Pow::pow(BigInt::from(10u32), power)
}

/// Both mantissas at the larger of the two scales.
fn align((a, a_scale): (BigInt, i64), (b, b_scale): (BigInt, i64)) -> (BigInt, BigInt, i64) {
    match a_scale.cmp(&b_scale) {
        Ordering::Equal => (a, b, a_scale),
        Ordering::Less => (a * ten_to(a_scale.abs_diff(b_scale)), b, b_scale),
        Ordering::Greater => (a, b * ten_to(a_scale.abs_diff(b_scale)), a_scale),
    }
}

/// A float is `m × 2^e`, so it has an exact decimal: `m × 5^-e / 10^-e` where `e` is negative.
fn float_exact(float: f64) -> (BigInt, i64) {
    let bits = float.to_bits();
    let exponent_bits = i64::from_u64((bits >> 52) & 0x7ff).unwrap_or(0);
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) =
        if exponent_bits == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent_bits - 1075) };
    let sign = if float < 0.0 { Sign::Minus } else { Sign::Plus };
    let mantissa = BigInt::from_biguint(sign, mantissa.into());
    if exponent >= 0 {
        return (mantissa << exponent.unsigned_abs(), 0);
    }
    let twos = mantissa.magnitude().trailing_zeros().unwrap_or(0).min(exponent.unsigned_abs());
    let power = exponent.unsigned_abs() - twos;
    let mantissa = (mantissa >> twos) * Pow::pow(BigInt::from(5u32), power);
    (mantissa, i64::try_from(power).unwrap_or(i64::MAX))
}

fn decimal_to_f64(mantissa: &str, scale: i16) -> f64 {
    // The standard library reads decimal text to the nearest float, which is exactly this conversion.
    format!("{mantissa}e{}", -i32::from(scale)).parse().unwrap_or(f64::INFINITY)
}

/// The shortest text that reads back the same; an exponent is written as everywhere else, without a plus.
fn write_float(float: f64, out: &mut String) {
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(float);
    match text.split_once("e+") {
        Some((digits, exponent)) => {
            out.push_str(digits);
            out.push('e');
            out.push_str(exponent);
        }
        None => out.push_str(text),
    }
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
            (
                NumberRepr::Dec { mantissa: a, scale: x, .. },
                NumberRepr::Dec { mantissa: b, scale: y, .. },
            ) => cmp_decimals((*a, *x), (*b, *y)).unwrap_or_else(|| cmp_exact(self, other)),
            (NumberRepr::Dec { mantissa, scale, .. }, NumberRepr::Int(int)) => {
                cmp_decimals((*mantissa, *scale), (*int, 0)).unwrap_or_else(|| cmp_exact(self, other))
            }
            (NumberRepr::Int(int), NumberRepr::Dec { mantissa, scale, .. }) => {
                cmp_decimals((*int, 0), (*mantissa, *scale)).unwrap_or_else(|| cmp_exact(self, other))
            }
            (NumberRepr::Float(a), NumberRepr::Float(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            _ => cmp_exact(self, other),
        }
    }
}

/// The order of two mantissas with their scales, where both fit when they are brought to one.
fn cmp_decimals((a, a_scale): (i64, i16), (b, b_scale): (i64, i16)) -> Option<Ordering> {
    let scaled = |mantissa: i64, digits: i32| i128::from(mantissa) * 10i128.pow(digits.unsigned_abs());
    match i32::from(a_scale) - i32::from(b_scale) {
        0 => Some(a.cmp(&b)),
        more @ 1..=18 => Some(i128::from(a).cmp(&scaled(b, more))),
        less @ -18..=-1 => Some(scaled(a, less).cmp(&i128::from(b))),
        _ => None,
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
