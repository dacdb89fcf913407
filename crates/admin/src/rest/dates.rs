//! Times as the API writes them.

/// Milliseconds since 1970 as a date; the start of 1970 where there is none.
pub(super) fn time(millis: Option<i64>) -> String {
    let bytes = millis.unwrap_or(0).div_euclid(1000).saturating_mul(1000).to_be_bytes();
    let text = model::value::print_scalar(&model::Type::Timestamp, &bytes);
    // As printed: 2024-02-29 12:00:00.000000+0000.
    let seconds = text.get(..19).unwrap_or(&text).replace(' ', "T");
    format!("{seconds}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time(None), "1970-01-01T00:00:00Z");
        assert_eq!(time(Some(1_722_268_135_999)), "2024-07-29T15:48:55Z");
    }
}
