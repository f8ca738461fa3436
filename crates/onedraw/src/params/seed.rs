//! A seed as text. Programs whose numbers are f64 cannot write every seed as a number.

use crate::params::error::ParamError;

/// Reads a seed from its decimal digits.
///
/// ```
/// assert_eq!(onedraw::seed::parse("18446744073709551615"), Ok(u64::MAX));
/// ```
pub fn parse(digits: &str) -> Result<u64, ParamError> {
    // A number of the standard library may have a sign.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).ok_or_else(|| {
        ParamError::new("seed", format!("must be a whole number from 0 to 2^64 - 1, not `{digits}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_digits() {
        assert_eq!(parse("0"), Ok(0));
        assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["18446744073709551616", "", "+1", "-1", "1.5", "0x1", " 7"] {
            let error = parse(wrong).expect_err(wrong);
            assert_eq!(
                error.to_string(),
                format!("seed: must be a whole number from 0 to 2^64 - 1, not `{wrong}`")
            );
        }
    }
}
