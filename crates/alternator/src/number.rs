//! DynamoDB's numbers: exact, of 38 significant digits, from 10^-130 to below 10^126.
//!
//! Invariants
//!  - *one-form*: equal numbers have equal parts: no trailing zero in `unscaled`, scale 0 of zero.
//!    So equal keys have equal bytes, and are one item.
//!  - *in-range*: whatever made a number, it has [`DIGITS_MAX`] digits and such a magnitude.

use crate::error::Error;
use model::value::decimal::Decimal;
use num_bigint::BigInt;
use std::cmp::Ordering;
use std::fmt;

/// Significant digits.
const DIGITS_MAX: usize = 38;
/// The exponents of the first digit.
const EXPONENT_MAX: i64 = 125;
const EXPONENT_MIN: i64 = -130;

const OVERFLOW: &str = "Number overflow. Attempting to store a number with magnitude larger than \
                        supported range";
const UNDERFLOW: &str = "Number underflow. Attempting to store a number with magnitude smaller \
                         than supported range";
const TOO_PRECISE: &str = "Attempting to store more than 38 significant digits in a Number: a \
                           number has at most 38";

/// `unscaled * 10^-scale`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    unscaled: i128,
    scale: i32,
}

impl Number {
    /// Zero.
    pub const ZERO: Number = Number { unscaled: 0, scale: 0 };

    /// Of a text: `-12.50`, `1e10`, `.5`, `+3`.
    pub fn parse(text: &str) -> Result<Number, Error> {
        let not_numeric = || {
            let shown: String = text.chars().take(64).collect();
            let what = "The parameter cannot be converted to a numeric value";
            Error::validation(format!("{what}: {shown}"))
        };
        let (is_negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, integer(exponent).ok_or_else(not_numeric)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return Err(not_numeric());
        }
        let digits = || whole.bytes().chain(fraction.bytes());
        let Some(first) = digits().position(|digit| digit != b'0') else { return Ok(Number::ZERO) };
        let count = whole.len() + fraction.len();
        let last = digits().rev().position(|digit| digit != b'0').unwrap_or(0);
        // The power of ten of the first and of the last digit that counts.
        let place = |at: usize| whole.len() as i64 - 1 - at as i64;
        let (high, low) = (place(first), place(count - 1 - last));
        check_magnitude(high.saturating_add(exponent))?;
        if DIGITS_MAX as i64 <= high - low {
            return Err(Error::validation(TOO_PRECISE));
        }
        let significant = digits().skip(first).take((high - low + 1) as usize);
        let unscaled = significant.fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        let unscaled = if is_negative { -unscaled } else { unscaled };
        let scale = -(low + exponent) as i32;
        Ok(Number { unscaled, scale })
    }

    /// Of a whole number.
    pub fn of(value: i64) -> Number {
        let mut number = Number { unscaled: value.into(), scale: 0 };
        number.strip();
        number
    }

    /// *one-form*
    fn strip(&mut self) {
        if self.unscaled == 0 {
            *self = Number::ZERO;
        }
        while self.unscaled != 0 && self.unscaled % 10 == 0 {
            self.unscaled /= 10;
            self.scale -= 1;
        }
    }

    /// The sum; an error if it is out of range or has too many digits. (*in-range*)
    pub fn plus(self, other: Number) -> Result<Number, Error> {
        if self.unscaled == 0 {
            return Ok(other);
        }
        let (wide, fine) = if self.scale <= other.scale { (self, other) } else { (other, self) };
        let gap = fine.scale.abs_diff(wide.scale);
        let aligned = 10i128.checked_pow(gap).and_then(|power| wide.unscaled.checked_mul(power));
        let sum = aligned.and_then(|aligned| aligned.checked_add(fine.unscaled));
        match sum {
            Some(unscaled) => Number::checked(&unscaled.to_string(), fine.scale),
            // Digits may still go: those at the end that are 0, or those that cancel each other.
            None => {
                let power = BigInt::from(10).pow(gap);
                let sum = BigInt::from(wide.unscaled) * power + BigInt::from(fine.unscaled);
                Number::checked(&sum.to_string(), fine.scale)
            }
        }
    }

    /// The difference; an error as of [`Number::plus`].
    pub fn minus(self, other: Number) -> Result<Number, Error> {
        self.plus(Number { unscaled: -other.unscaled, scale: other.scale })
    }

    /// Of digits and a scale.
    fn checked(digits: &str, scale: i32) -> Result<Number, Error> {
        let stripped = digits.trim_end_matches('0');
        let magnitude = stripped.trim_start_matches('-');
        if magnitude.is_empty() {
            return Ok(Number::ZERO);
        }
        let scale = scale - (digits.len() - stripped.len()) as i32;
        check_magnitude(magnitude.len() as i64 - 1 - i64::from(scale))?;
        match stripped.parse() {
            Ok(unscaled) if magnitude.len() <= DIGITS_MAX => Ok(Number { unscaled, scale }),
            _ => Err(Error::validation(TOO_PRECISE)),
        }
    }

    /// As a value of CQL's `decimal`: of scale 0 if that has no more digits than a number may have,
    /// as clients of CQL and ScyllaDB write whole numbers.
    pub fn encode(mut self) -> Vec<u8> {
        if self.scale < 0 && self.digits() + self.scale.unsigned_abs() as usize <= DIGITS_MAX {
            self.unscaled *= 10i128.pow(self.scale.unsigned_abs());
            self.scale = 0;
        }
        Decimal { unscaled: BigInt::from(self.unscaled), scale: self.scale }.encode()
    }

    /// Of a value of CQL's `decimal`. One that DynamoDB could not have, which CQL has written, is
    /// `None`.
    pub fn decode(bytes: &[u8]) -> Option<Number> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        let scale = i32::from_be_bytes(*scale);
        if unscaled.len() <= 16 {
            let sign =
                if unscaled.first().is_some_and(|byte| *byte & 0x80 != 0) { 0xff } else { 0 };
            let mut wide = [sign; 16];
            wide[16 - unscaled.len()..].copy_from_slice(unscaled);
            let mut number = Number { unscaled: i128::from_be_bytes(wide), scale };
            if i64::from(scale).unsigned_abs() < 1 << 16 {
                number.strip();
                return number.is_in_range().then_some(number);
            }
        }
        let decimal = Decimal::decode(bytes)?;
        Number::parse(&format!("{}e{}", decimal.unscaled, -i64::from(decimal.scale))).ok()
    }

    fn is_in_range(self) -> bool {
        let digits = self.digits();
        let exponent = digits as i64 - 1 - i64::from(self.scale);
        self.unscaled == 0
            || digits <= DIGITS_MAX && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent)
    }

    fn digits(self) -> usize {
        self.unscaled.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
    }

    /// Bytes that the service counts for it: about one for two digits, and one.
    pub fn size(self) -> usize {
        self.digits().div_ceil(2) + 1 + usize::from(self.unscaled < 0)
    }

    /// As a count or an index, if it is one.
    pub fn to_i64(self) -> Option<i64> {
        let power = 10i128.checked_pow(u32::try_from(-i64::from(self.scale)).ok()?)?;
        self.unscaled.checked_mul(power)?.try_into().ok()
    }
}

fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Whatever is too long is out of range, too.
    let far = if text.starts_with('-') { -(1 << 40) } else { 1 << 40 };
    Some(text.parse::<i64>().map_or(far, |value| value.clamp(-(1 << 40), 1 << 40)))
}

fn check_magnitude(exponent: i64) -> Result<(), Error> {
    match exponent {
        ..EXPONENT_MIN => Err(Error::validation(UNDERFLOW)),
        EXPONENT_MIN..=EXPONENT_MAX => Ok(()),
        _ => Err(Error::validation(OVERFLOW)),
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let by_sign = self.unscaled.signum().cmp(&other.unscaled.signum());
        if by_sign.is_ne() || self.unscaled == 0 {
            return by_sign;
        }
        let exponent = |number: &Number| number.digits() as i64 - i64::from(number.scale);
        let by_magnitude = exponent(self).cmp(&exponent(other)).then_with(|| {
            // As many digits before the point: those with fewer after it get zeros.
            let scale = self.scale.max(other.scale);
            let at_scale = |number: &Number| {
                let gap = scale.abs_diff(number.scale);
                number.unscaled.unsigned_abs() * 10u128.pow(gap.min(38))
            };
            at_scale(self).cmp(&at_scale(other))
        });
        if self.unscaled < 0 { by_magnitude.reverse() } else { by_magnitude }
    }
}

/// All digits, without an exponent.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let digits = self.unscaled.unsigned_abs().to_string();
        match usize::try_from(self.scale) {
            Err(_) => {
                let zeros = self.scale.unsigned_abs() as usize;
                write!(f, "{sign}{digits}{:0<zeros$}", "")
            }
            Ok(0) => write!(f, "{sign}{digits}"),
            Ok(scale) if scale < digits.len() => {
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                write!(f, "{sign}{whole}.{fraction}")
            }
            Ok(scale) => write!(f, "{sign}0.{digits:0>scale$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn texts_have_one_form() {
        let check = |text: &str, expected: &str| {
            assert_eq!(number(text).to_string(), expected, "{text}");
        };
        check("1000", "1000");
        check("1e3", "1000");
        check("+001000.00", "1000");
        check("-17.4E37", "-174000000000000000000000000000000000000");
        check(".123", "0.123");
        check("5.", "5");
        check("-0.0", "0");
        check("0e126", "0");
        check("1E-130", &format!("0.{}1", "0".repeat(129)));
        check("9.9e125", &format!("99{}", "0".repeat(124)));
        check("0.1e126", &format!("1{}", "0".repeat(125)));
    }

    #[test]
    fn what_is_no_number_or_out_of_range_is_refused() {
        let check = |text: &str, expected: &str| {
            let message = Number::parse(text).unwrap_err().message;
            assert!(message.contains(expected), "{text}: {message}");
        };
        for text in
            ["", "NaN", "Infinity", "-", "dog", " 1", "1 ", "1e", "1.2.3", ".", "--1", "1_0"]
        {
            check(text, "numeric");
        }
        check("1e126", "overflow");
        check("1.0e100000000000000000000", "overflow");
        check("0.9e-130", "underflow");
        check("3.14159265358979323846264338327950288419", "significant");
    }

    #[test]
    fn sums_are_exact_or_refused() {
        let add = |a: &str, b: &str| number(a).plus(number(b)).map(|sum| sum.to_string());
        assert_eq!(add("1", "10000000000000000000000").unwrap(), "10000000000000000000001");
        assert_eq!(add("0.1", "0.2").unwrap(), "0.3");
        assert_eq!(add("5", "-5").unwrap(), "0");
        assert!(add("9e125", "9e125").unwrap_err().message.contains("overflow"));
        assert!(add("1e50", "1").unwrap_err().message.contains("umber"));
        // 39 digits, the last of which is 0.
        let nines = "9".repeat(37) + "5";
        assert_eq!(add(&nines, &nines).unwrap(), "1".to_owned() + &"9".repeat(37) + "0");
        let less = number("1e22").minus(number("1")).unwrap();
        assert_eq!(less.to_string(), "9".repeat(22));
    }

    fn numbers() -> impl Strategy<Value = Number> {
        let digits = (any::<bool>(), "[0-9]{1,38}", -130i64..126);
        digits.prop_filter_map("out of range", |(is_negative, digits, exponent)| {
            let sign = if is_negative { "-" } else { "" };
            Number::parse(&format!("{sign}{digits}e{exponent}")).ok()
        })
    }

    proptest! {
        #[test]
        fn bytes_and_texts_go_both_ways(value in numbers()) {
            prop_assert_eq!(Number::decode(&value.encode()), Some(value));
            prop_assert_eq!(number(&value.to_string()), value);
        }

        #[test]
        fn order_is_that_of_decimals(a in numbers(), b in numbers()) {
            let decimal = |number: Number| Decimal::decode(&number.encode()).unwrap();
            prop_assert_eq!(a.cmp(&b), decimal(a).compare(&decimal(b)));
            prop_assert_eq!(a == b, a.cmp(&b).is_eq());
        }

        #[test]
        fn sums_are_those_of_decimals(a in numbers(), b in numbers()) {
            let decimal = |number: Number| Decimal::decode(&number.encode()).unwrap();
            let expected = decimal(a).add(&decimal(b)).unwrap();
            let text = format!("{}e{}", expected.unscaled, -i64::from(expected.scale));
            prop_assert_eq!(a.plus(b), Number::parse(&text));
            prop_assert_eq!(a.plus(b), b.plus(a));
        }

        #[test]
        fn foreign_decimals_do_not_panic(bytes: Vec<u8>) {
            if let Some(number) = Number::decode(&bytes) {
                prop_assert!(number.is_in_range());
            }
        }

        #[test]
        fn foreign_texts_do_not_panic(text in "[-+0-9.eE]{0,50}") {
            let _ = Number::parse(&text);
        }
    }
}
