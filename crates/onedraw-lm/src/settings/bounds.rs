//! Checks of parameters: which are wrong for a model, and the lengths of lists, which a server limits.

use onedraw::{ParamError, Plan, RowError, SamplingParams};

/// The lists of parameters of which every item takes work for each token, with their lengths.
pub fn items(params: &SamplingParams) -> [(&'static str, usize); 5] {
    [
        ("stop", params.stop.len()),
        ("banned_strings", params.banned_strings.len()),
        ("bad_words_ids", params.bad_words_ids.len()),
        ("logit_bias", params.logit_bias.len()),
        ("dry_sequence_breakers", params.dry_sequence_breakers.len()),
    ]
}

/// Checks parameters for a model with so many tokens. A decode loop refuses the same, but only when it begins.
pub fn check(params: &SamplingParams, vocabulary: usize) -> Result<(), ParamError> {
    Plan::new(params)?.check_vocabulary(vocabulary).map_err(|error| match error {
        RowError::OutsideVocabulary { field, token, vocabulary } => {
            let last = vocabulary.saturating_sub(1);
            ParamError::new(field, format!("token {token} is outside the vocabulary; ids are 0 to {last}"))
        }
        other => ParamError::new("params", other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_a_model_does_not_have_are_told_with_their_field() {
        let params = SamplingParams::from_json(r#"{"stop_token_ids": [3], "logit_bias": {"9": 1}}"#)
            .expect("parameters");
        assert_eq!(check(&params, 10), Ok(()));
        let error = check(&params, 9).expect_err("9 is outside");
        assert_eq!(error.to_string(), "logit_bias: token 9 is outside the vocabulary; ids are 0 to 8");
        assert_eq!(error.field(), "logit_bias");
        assert_eq!(check(&params, 0).expect_err("no tokens").field(), "params");
    }

    #[test]
    fn lists_are_counted_by_name() {
        let params =
            SamplingParams::from_json(r#"{"stop": ["a", "b"], "logit_bias": {"9": 1}}"#).expect("parameters");
        let long: Vec<_> = items(&params).into_iter().filter(|(_, length)| *length > 0).collect();
        assert_eq!(long, [("stop", 2), ("logit_bias", 1)]);
    }
}
