//! Decimal numbers: an integer of any size divided by a power of ten.
//!
//! On the wire a 32-bit scale and a varint. The text is that of Java's `BigDecimal`: it keeps the
//! scale, so `1.0` and `1.00` are different values, though equal in order.

mod arithmetic;

use super::{Invalid, invalid, varint};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::fmt;

/// The most digits that an operation writes out; `1e999999999 + 1` would need a gigabyte.
const DIGITS_MAX: u64 = 100_000;

/// `unscaled * 10^-scale`. Equality is that of the parts, see [`Decimal::compare`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    pub unscaled: BigInt,
    pub scale: i32,
}

impl Decimal {
    /// Zero of scale 0.
    pub fn zero() -> Decimal {
        Decimal { unscaled: BigInt::from(0), scale: 0 }
    }

    /// The number of these bytes; `None` if they are shorter than the scale.
    pub fn decode(bytes: &[u8]) -> Option<Decimal> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        let (scale, unscaled) = (i32::from_be_bytes(*scale), varint::decode(unscaled));
        Some(Decimal { unscaled, scale })
    }

    /// Scale and varint.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.extend(varint::encode(&self.unscaled));
        out
    }

    /// Parses `-12.50`, `1e10`, `.5`; the scale is what the text shows.
    pub fn parse(text: &str) -> Result<Decimal, Invalid> {
        match parse(text) {
            Some(decimal) => Ok(decimal),
            None => invalid(format!("unable to make BigDecimal from '{text}'")),
        }
    }

    /// The exact value of an integer.
    pub fn from_integer(value: impl Into<BigInt>) -> Decimal {
        Decimal { unscaled: value.into(), scale: 0 }
    }

    /// The shortest decimal that is this float; `None` of NaN and infinities.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        value.is_finite().then(|| parse(&format!("{value:?}")))?
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().unwrap_or(f64::NAN)
    }

    /// The integer part; `None` if it has too many digits to write out.
    pub fn to_integer(&self) -> Option<BigInt> {
        match u32::try_from(self.scale) {
            Ok(_) if i64::from(self.scale) > self.digits() => Some(BigInt::from(0)),
            Ok(scale) => Some(&self.unscaled / power_of_ten(u64::from(scale))?),
            Err(_) => Some(&self.unscaled * power_of_ten(self.scale.unsigned_abs().into())?),
        }
    }

    /// The sum, at the greater scale; `None` if it has too many digits.
    pub fn add(&self, other: &Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let unscaled = self.at_scale(scale)? + other.at_scale(scale)?;
        Some(Decimal { unscaled, scale })
    }

    /// The quotient by a count, at the same scale, halves to even. Panics on zero.
    pub fn divide_by_count(&self, count: u64) -> Decimal {
        let count = BigInt::from(count);
        let quotient = &self.unscaled / &count;
        let twice: BigInt = (&self.unscaled - &quotient * &count) * 2;
        let magnitude = BigInt::from(twice.magnitude().clone());
        let odd = quotient.bit(0);
        let away = match magnitude.cmp(&count) {
            Ordering::Less => false,
            Ordering::Equal => odd,
            Ordering::Greater => true,
        };
        let step = if self.unscaled.sign() == Sign::Minus { -1 } else { 1 };
        let unscaled = if away { quotient + step } else { quotient };
        Decimal { unscaled, scale: self.scale }
    }

    /// By value: `1.0` equals `1.00`.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        let (a, b) = (self.unscaled.sign(), other.unscaled.sign());
        if a != b || a == Sign::NoSign {
            return a.cmp(&b);
        }
        if self.scale == other.scale {
            return self.unscaled.cmp(&other.unscaled);
        }
        let by_magnitude = match self.exponent().cmp(&other.exponent()) {
            Ordering::Equal => self.compare_magnitudes(other),
            order => order,
        };
        if a == Sign::Minus { by_magnitude.reverse() } else { by_magnitude }
    }

    /// Of two numbers with the same exponent: their scales differ as their digit counts do, so
    /// the multiplication is bounded by their sizes.
    fn compare_magnitudes(&self, other: &Decimal) -> Ordering {
        let (mine, theirs) = (self.unscaled.magnitude(), other.unscaled.magnitude());
        let difference = i64::from(self.scale) - i64::from(other.scale);
        let factor = num_bigint::BigUint::from(10u8);
        let shift = u32::try_from(difference.unsigned_abs()).unwrap_or(u32::MAX);
        if 0 < difference {
            mine.cmp(&(theirs * factor.pow(shift)))
        } else {
            (mine * factor.pow(shift)).cmp(theirs)
        }
    }

    /// The exponent in scientific notation with one digit before the point.
    fn exponent(&self) -> i64 {
        self.digits() - 1 - i64::from(self.scale)
    }

    /// How many decimal digits the unscaled number has; zero has one.
    fn digits(&self) -> i64 {
        self.unscaled.magnitude().to_string().len() as i64
    }

    fn at_scale(&self, scale: i32) -> Option<BigInt> {
        if self.unscaled.sign() == Sign::NoSign {
            return Some(BigInt::from(0));
        }
        let power = i64::from(scale) - i64::from(self.scale);
        Some(&self.unscaled * power_of_ten(u64::try_from(power).ok()?)?)
    }
}

impl fmt::Display for Decimal {
    /// Plain digits where the exponent is small and negative or zero, else scientific notation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        let sign = if self.unscaled.sign() == Sign::Minus { "-" } else { "" };
        let exponent = digits.len() as i64 - 1 - i64::from(self.scale);
        let plain = usize::try_from(self.scale).ok().filter(|_| -6 <= exponent);
        match plain {
            Some(0) => write!(f, "{sign}{digits}"),
            Some(scale) if scale < digits.len() => {
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                write!(f, "{sign}{whole}.{fraction}")
            }
            Some(scale) => write!(f, "{sign}0.{}{digits}", "0".repeat(scale - digits.len())),
            None => {
                let (first, others) = digits.split_at(1);
                let point = if others.is_empty() { "" } else { "." };
                write!(f, "{sign}{first}{point}{others}E{exponent:+}")
            }
        }
    }
}

/// Compares the bytes of two decimals; what is too short to be one comes last.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (a.split_first_chunk::<4>(), b.split_first_chunk::<4>()) {
        (Some((a_scale, a)), Some((b_scale, b))) if a_scale == b_scale => varint::compare(a, b),
        _ => match (Decimal::decode(a), Decimal::decode(b)) {
            (Some(a), Some(b)) => a.compare(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        },
    }
}

fn parse(text: &str) -> Option<Decimal> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, integer(exponent)?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if mantissa.starts_with('-') {
        digits.insert(0, '-');
    }
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some(Decimal { unscaled: digits.parse().ok()?, scale: i32::try_from(scale).ok()? })
}

/// A signed number as an exponent is written.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| text.parse().ok())?
}

fn power_of_ten(exponent: u64) -> Option<BigInt> {
    let exponent = u32::try_from(exponent).ok().filter(|_| exponent <= DIGITS_MAX)?;
    Some(BigInt::from(10).pow(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn text_keeps_the_scale() {
        let check = |text: &str, printed: &str| assert_eq!(of(text).to_string(), printed);
        check("1.50", "1.50");
        check("-0.001", "-0.001");
        check("0", "0");
        check("0.00", "0.00");
        check(".5", "0.5");
        check("5.", "5");
        check("+5", "5");
        check("1e3", "1E+3");
        check("12e3", "1.2E+4");
        check("0.0000001", "1E-7");
        check("0.000001", "0.000001");
        check("-1.25e-10", "-1.25E-10");
        for text in ["", ".", "1e", "e5", "1.2.3", "1e99999999999", "1 ", "-", "0x1", "NaN"] {
            assert!(Decimal::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn golden_bytes() {
        assert_eq!(of("1.50").encode(), [0, 0, 0, 2, 0, 0x96]);
        assert_eq!(of("-1e3").encode(), [0xff, 0xff, 0xff, 0xfd, 0xff]);
        assert_eq!(Decimal::decode(&[0, 0, 0, 2]), Some(of("0.00")));
        assert_eq!(Decimal::decode(&[0, 0, 0]), None);
    }

    #[test]
    fn arithmetic() {
        let add = |a, b| of(a).add(&of(b)).map(|sum| sum.to_string());
        assert_eq!(add("1.5", "2.25").as_deref(), Some("3.75"));
        assert_eq!(add("1e3", "1").as_deref(), Some("1001"));
        assert_eq!(add("1e999999999", "1"), None);
        let divide = |a, count| of(a).divide_by_count(count).to_string();
        assert_eq!(divide("1.0", 4), "0.2");
        assert_eq!(divide("1.5", 10), "0.2");
        assert_eq!(divide("2.5", 10), "0.2");
        assert_eq!(divide("-7", 2), "-4");
        assert_eq!(divide("-5", 2), "-2");
        assert_eq!(of("-12.9").to_integer(), Some(BigInt::from(-12)));
        assert_eq!(of("1e-999999999").to_integer(), Some(BigInt::from(0)));
        assert_eq!(of("12e2").to_integer(), Some(BigInt::from(1200)));
        assert_eq!(of("1.25").to_f64(), 1.25);
        assert_eq!(Decimal::from_f64(0.1), Some(of("0.1")));
        assert_eq!(Decimal::from_f64(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn round_trips(unscaled: i128, scale in -40i32..40) {
            let decimal = Decimal { unscaled: BigInt::from(unscaled), scale };
            let back = Decimal::decode(&decimal.encode());
            prop_assert_eq!(back.as_ref(), Some(&decimal));
            prop_assert_eq!(of(&decimal.to_string()), decimal);
        }

        #[test]
        fn compares_as_numbers(a: i32, b: i32, shift in 0u32..12, scale in -40i32..40) {
            let wide = Decimal {
                unscaled: BigInt::from(b) * BigInt::from(10).pow(shift),
                scale: scale + shift as i32,
            };
            let narrow = Decimal { unscaled: BigInt::from(a), scale };
            prop_assert_eq!(narrow.compare(&wide), a.cmp(&b));
            prop_assert_eq!(compare(&narrow.encode(), &wide.encode()), a.cmp(&b));
        }
    }
}
