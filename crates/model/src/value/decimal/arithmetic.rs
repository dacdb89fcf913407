//! Arithmetic of decimals as the operators of CQL have it.
//!
//! Sums, differences and products keep at most [`PRECISION_MAX`] digits; a quotient has at least
//! [`SCALE_MIN`] decimals where it does not end before; halves are rounded away from zero. What
//! would need more than some hundred thousand digits on the way has no result.

use super::{DIGITS_MAX, Decimal, power_of_ten};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// The most digits of a sum or product.
const PRECISION_MAX: i64 = 10_000;
/// The fewest decimals of a quotient that has that many.
const SCALE_MIN: i64 = 32;
/// The most decimals of a quotient.
const SCALE_MAX: i64 = 1_000;

impl Decimal {
    /// The shortest decimal that is this float; `None` of NaN and infinities.
    pub fn from_f32(value: f32) -> Option<Decimal> {
        value.is_finite().then(|| super::parse(&format!("{value:?}")))?
    }

    /// The nearest float.
    pub fn to_f32(&self) -> f32 {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().unwrap_or(f32::NAN)
    }

    /// The nearest number with so many decimals, which are fewer than it has; halves are rounded
    /// away from zero.
    pub fn round_to_scale(&self, scale: i32) -> Decimal {
        let drop = i64::from(self.scale) - i64::from(scale);
        if drop <= 0 {
            return self.clone();
        }
        if self.digits() < drop {
            return Decimal { unscaled: BigInt::from(0), scale };
        }
        let divisor = power_of_ten_of(drop);
        Decimal { unscaled: divide_half_up(&self.unscaled, &divisor), scale }
    }

    /// The sum, of at most [`PRECISION_MAX`] digits.
    pub fn rounded_sum(&self, other: &Decimal) -> Option<Decimal> {
        let is_zero = |decimal: &Decimal| decimal.unscaled.sign() == Sign::NoSign;
        if !is_zero(self) && !is_zero(other) {
            let (great, small) = match self.exponent() < other.exponent() {
                true => (other, self),
                false => (self, other),
            };
            // What is smaller than half of the last digit that is kept changes nothing.
            let last_kept = (great.exponent() - PRECISION_MAX).min(-i64::from(great.scale));
            if small.exponent() + 2 < last_kept {
                return great.rounded();
            }
        }
        self.add(other)?.rounded()
    }

    /// The product, of at most [`PRECISION_MAX`] digits.
    pub fn rounded_product(&self, other: &Decimal) -> Option<Decimal> {
        let scale = self.scale.checked_add(other.scale)?;
        Decimal { unscaled: &self.unscaled * &other.unscaled, scale }.rounded()
    }

    /// The quotient, without zeros at its end. `other` is not zero.
    pub fn quotient(&self, other: &Decimal) -> Option<Decimal> {
        let position =
            (self.digits() - i64::from(self.scale)) - (other.digits() - i64::from(other.scale));
        let scale = (SCALE_MIN - position)
            .max(self.scale.into())
            .max(other.scale.into())
            .clamp(SCALE_MIN, SCALE_MAX);
        // unscaled / 10^scale of the quotient is (a / 10^s) / (b / 10^t).
        let shift = scale - i64::from(self.scale) + i64::from(other.scale);
        let power = power_of_ten(shift.unsigned_abs())?;
        let unscaled = match shift < 0 {
            true => divide_half_up(&self.unscaled, &(&other.unscaled * power)),
            false => divide_half_up(&(&self.unscaled * power), &other.unscaled),
        };
        Decimal { unscaled, scale: i32::try_from(scale).ok()? }.without_zeros()
    }

    /// What is left of a division with a whole quotient: it has the sign of the dividend. `other`
    /// is not zero.
    pub fn remainder(&self, other: &Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (dividend, divisor) = (self.at_scale(scale)?, other.at_scale(scale)?);
        Some(Decimal { unscaled: dividend % divisor, scale })
    }

    fn rounded(&self) -> Option<Decimal> {
        let excess = self.digits() - PRECISION_MAX;
        if excess <= 0 {
            return Some(self.clone());
        }
        let scale = i32::try_from(i64::from(self.scale) - excess).ok()?;
        let rounded = self.round_to_scale(scale);
        // 9.99 may have become 10.0.
        if rounded.digits() <= PRECISION_MAX { Some(rounded) } else { rounded.rounded() }
    }

    /// The same number with the fewest digits.
    fn without_zeros(self) -> Option<Decimal> {
        if self.unscaled.sign() == Sign::NoSign {
            return Some(Decimal::zero());
        }
        let digits = self.unscaled.magnitude().to_string();
        let zeros = digits.len() - digits.trim_end_matches('0').len();
        if zeros == 0 {
            return Some(self);
        }
        let unscaled = &self.unscaled / power_of_ten(zeros as u64)?;
        Some(Decimal { unscaled, scale: self.scale.checked_sub(zeros as i32)? })
    }
}

/// A power that is no greater than the digits of a number at hand.
fn power_of_ten_of(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or(DIGITS_MAX as u32))
}

/// The nearest integer to the quotient; halves are rounded away from zero.
fn divide_half_up(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    let rest = dividend - &quotient * divisor;
    let twice = rest.magnitude() * 2u8;
    if twice.cmp(divisor.magnitude()) == Ordering::Less {
        return quotient;
    }
    let negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    if negative { quotient - 1 } else { quotient + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    fn check(found: Option<Decimal>, expected: &str) {
        assert_eq!(found.map(|found| found.to_string()).as_deref(), Some(expected));
    }

    #[test]
    fn quotients() {
        check(of("1").quotient(&of("4")), "0.25");
        check(of("1").quotient(&of("3")), &format!("0.{}", "3".repeat(32)));
        check(of("1").quotient(&of("6")), &format!("0.1{}7", "6".repeat(30)));
        check(of("1").quotient(&of("30")), &format!("0.0{}", "3".repeat(32)));
        check(of("10").quotient(&of("3")), &format!("3.{}", "3".repeat(32)));
        let long = of(&format!("1.{}", "0".repeat(1001)));
        check(long.quotient(&of("3")), &format!("0.{}", "3".repeat(1000)));
        check(of("8.5").quotient(&of("200000000000000000000000000000000000")), "4.25E-35");
        check(of("100").quotient(&of("1")), "1E+2");
        check(of("-2").quotient(&of("3")), &format!("-0.{}7", "6".repeat(31)));
        check(of("0.00").quotient(&of("7")), "0");
        assert_eq!(of("1e2000000000").quotient(&of("3")), None);
    }

    #[test]
    fn remainders() {
        check(of("7").remainder(&of("3")), "1");
        check(of("7.5").remainder(&of("2")), "1.5");
        check(of("-7").remainder(&of("3")), "-1");
        check(of("7").remainder(&of("-3")), "1");
        check(of("1e35").remainder(&of("3")), "1");
        check(of("1.7").remainder(&of("0.5")), "0.2");
    }

    #[test]
    fn sums_of_at_most_ten_thousand_digits() {
        let sum = |a: &str, b: &str| of(a).rounded_sum(&of(b)).unwrap();
        assert_eq!(sum("1.5", "2.25"), of("3.75"));
        let exact = of(&format!("1{}1", "0".repeat(9998)));
        assert_eq!(sum("1e9999", "1").compare(&exact), Ordering::Equal);
        assert_eq!(sum("1e10000", "1").compare(&of("1e10000")), Ordering::Equal);
        let up = of(&format!("1{}10", "0".repeat(9998)));
        assert_eq!(sum("1e10000", "5").compare(&up), Ordering::Equal);
        let down = Decimal { unscaled: -up.unscaled, scale: up.scale };
        assert_eq!(sum("-1e10000", "-5").compare(&down), Ordering::Equal);
        assert_eq!(sum("1e2000000000", "1"), of("1e2000000000"));
        assert_eq!(sum("1", "1e2000000000"), of("1e2000000000"));
        assert_eq!(of("1e2000000000").rounded_product(&of("1e2000000000")), None);
    }

    proptest! {
        #[test]
        fn sums_products_and_remainders_are_those_of_integers(
            a: i32, b: i32, shift in 0i32..5, scale in -20i32..20,
        ) {
            let number = |unscaled: i64, scale: i32| {
                Decimal { unscaled: BigInt::from(unscaled), scale }
            };
            let (wide, narrow) = (number(a.into(), scale), number(b.into(), scale + shift));
            let a = i64::from(a) * 10i64.pow(shift as u32);
            let b = i64::from(b);
            let sum = wide.rounded_sum(&narrow).unwrap();
            prop_assert_eq!(sum.compare(&number(a + b, scale + shift)), Ordering::Equal);
            if b != 0 {
                let rest = wide.remainder(&narrow).unwrap();
                prop_assert_eq!(rest.compare(&number(a % b, scale + shift)), Ordering::Equal);
                let back = wide.quotient(&narrow).unwrap().rounded_product(&narrow).unwrap();
                let lost = Decimal { unscaled: -back.unscaled, scale: back.scale };
                let lost = lost.rounded_sum(&wide).unwrap().to_f64().abs();
                prop_assert!(lost <= wide.to_f64().abs() * 1e-20);
            }
        }
    }
}
