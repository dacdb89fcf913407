//! What tables and options may say of speculative retries.

use crate::error::Error;

/// `NONE`, `ALWAYS`, `99.0PERCENTILE`, `50.00ms`, in capitals or not.
pub(crate) fn speculative_retry(text: &str) -> Result<String, Error> {
    let upper = text.trim().to_ascii_uppercase();
    let number = |suffix: &str| upper.strip_suffix(suffix).map(|number| number.trim().to_owned());
    let invalid = || format!("Invalid value {text} for option 'speculative_retry'");
    if upper == "NONE" || upper == "ALWAYS" {
        return Ok(upper);
    }
    if let Some(number) = number("PERCENTILE").or_else(|| number("P")) {
        return match number.parse::<f64>() {
            Ok(percentile) if (0.0..=100.0).contains(&percentile) => {
                Ok(format!("{percentile:?}PERCENTILE"))
            }
            Ok(_) => refuse(format!(
                "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between \
                 (0.0 and 100.0)"
            )),
            Err(_) => refuse(invalid()),
        };
    }
    match number("MS").and_then(|number| number.parse::<f64>().ok()) {
        Some(millis) if 0.0 <= millis && millis.is_finite() => Ok(format!("{millis:.2}ms")),
        _ => refuse(invalid()),
    }
}

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Config(text))
}
