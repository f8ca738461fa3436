//! DRY, n-grams, smoothing and banned strings.

use super::*;

#[test]
fn dry_penalises_what_goes_on_with_a_repetition() {
    let json = |history: &str, more: &str| {
        format!(
            r#"{{"dry_multiplier": 1, "dry_base": 1.1, "dry_penalty_last_n": 9, "output_token_ids": {history}{more}}}"#
        )
    };
    let row = [0.0f32; 4];
    // 0 1 was followed by 2, which loses 1: 1 / (3 + e^-1) for the others.
    let fact = [0.296923, 0.296923, 0.296923, 0.109232];
    let expected = distribution(
        &row,
        &params(
            r#"{"dry_multiplier": 1, "dry_base": 1.1, "dry_allowed_length": 2, "dry_penalty_last_n": 5,
            "output_token_ids": [0, 1, 2, 0, 1]}"#,
        ),
    )
    .unwrap();
    assert_eq!(check(&expected, &[0, 1, 3, 2], &fact, 1e-6), Ok(()));
    /// Tokens 0, 1, 3 at 1, token 2 lowered by `penalty`.
    #[track_caller]
    fn lowers(row: &[f32], json: &str, penalty: f64) {
        let total = 3.0 + (-penalty).exp();
        let others = 1.0 / total;
        let p = [others, others, others, (-penalty).exp() / total];
        assert_certain(row, json, if penalty == 0.0 { &[0, 1, 2, 3] } else { &[0, 1, 3, 2] }, &p);
    }
    lowers(&row, &json("[0, 1, 2, 0, 1]", ""), 1.0);
    // One repetition of three is longer than the one of two.
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", ""), 1.1);
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_allowed_length": 3"#), 1.0);
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_allowed_length": 4"#), 0.0);
    // The prompt counts, what stands before the last four tokens does not.
    lowers(&row, &json("[0, 1]", r#", "prompt_token_ids": [0, 1, 2]"#), 1.0);
    lowers(&row, &json("[0, 1, 2, 0, 1]", "").replace('9', "4"), 0.0);
    // A breaker between them, one that ends the history, and one in front of the repetition.
    lowers(&row, &json("[0, 1, 2, 3, 0, 1]", r#", "dry_sequence_breakers": [[3]]"#), 1.0);
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_sequence_breakers": [[3]]"#), 1.0);
    lowers(&row, &json("[0, 1, 2, 0, 1]", r#", "dry_sequence_breakers": [[1]]"#), 0.0);
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_sequence_breakers": [[3, 0]]"#), 0.0);
    // Of two that begin at one place the longer counts; the one that begins later decides.
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_sequence_breakers": [[3], [3, 0]]"#), 0.0);
    lowers(&row, &json("[3, 0, 1, 2, 3, 0, 1]", r#", "dry_sequence_breakers": [[2, 3, 0], [3]]"#), 1.0);
    // A breaker of one token is never penalised; of two it may be.
    lowers(&row, &json("[0, 1, 2, 0, 1]", r#", "dry_sequence_breakers": [[2]]"#), 0.0);
    lowers(&row, &json("[0, 1, 2, 0, 1]", r#", "dry_sequence_breakers": [[2, 2]]"#), 1.0);
    // Allowed 0: every token but the first of the history, at the least by the multiplier.
    let all = json("[3, 0, 1]", r#", "dry_allowed_length": 0"#);
    let p = 1.0 / (2.0 + 2.0 * (-1f64).exp());
    let low = p * (-1f64).exp();
    assert_certain(&row, &all, &[2, 3, 0, 1], &[p, p, low, low]);
    // The penalty saturates, and so does the logit.
    let huge =
        r#"{"dry_multiplier": 1e6, "dry_base": 1e6, "output_token_ids": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}"#;
    assert_certain(&[-1.0, f32::MIN, 0.0], huge, &[2, 0, 1], &[1.0, 0.0, 0.0]);
}

#[test]
fn no_ngram_comes_twice() {
    let row = [0.0f32; 10];
    let bans = |size: u32, history: &str, banned: &[u32]| {
        let json = format!(r#"{{"no_repeat_ngram_size": {size}, "output_token_ids": {history}}}"#);
        let kept: Vec<u32> = (0..10).filter(|token| !banned.contains(token)).collect();
        assert_certain(&row, &json, &kept, &vec![1.0 / kept.len() as f64; kept.len()]);
    };
    bans(2, "[1, 1, 2, 1]", &[1, 2]);
    bans(2, "[0, 1, 0, 1]", &[0]);
    bans(3, "[1, 2, 5, 7, 8, 5, 1, 2]", &[5]);
    bans(3, "[5, 1, 2]", &[]);
    bans(3, "[1, 1, 1]", &[1]);
    bans(1, "[4, 7, 4]", &[4, 7]);
    bans(1, "[]", &[]);
    bans(u32::MAX, "[4, 7, 4]", &[]);
    // The prompt counts.
    let json = r#"{"no_repeat_ngram_size": 2, "prompt_token_ids": [1, 0], "output_token_ids": [1]}"#;
    assert_certain(&[0.0; 2], json, &[1], &[1.0]);
    let json = r#"{"no_repeat_ngram_size": 1, "output_token_ids": [0, 1]}"#;
    assert_eq!(distribution(&[0.0; 2], &params(json)), Err(Failure::NothingLeft(Some(Stage::NoRepeatNgram))));
}

#[test]
fn smoothing_bends_the_logits_around_the_best() {
    let row = [2.0, 1.0, 0.0];
    // 2, 1.5, 0: the distance from the best is squared and halved; with a cubic part the last goes to −1 or
    // −2.
    let json = |curve: f64| format!(r#"{{"smoothing_factor": 0.5, "smoothing_curve": {curve}}}"#);
    assert_certain(&row, &json(1.0), &[0, 1, 2], &[0.574096993, 0.348207428, 0.077695579]);
    assert_certain(&row, &json(2.0), &[0, 1, 2], &[0.603748896, 0.366192216, 0.030058888]);
    assert_certain(&row, &json(3.0), &[0, 1, 2], &[0.615442827, 0.373284944, 0.011272229]);
    // Over what is left: 1 is the best of it.
    let json = r#"{"smoothing_factor": 0.5, "allowed_token_ids": [1, 2]}"#;
    let best = 1.0 / (1.0 + (-0.5f64).exp());
    assert_certain(&row, json, &[1, 2], &[best, 1.0 - best]);
    // What rounding makes equal is in the order of ids, and a large distance saturates.
    assert_certain(&[1e-3, 1.0, 1.0001], r#"{"smoothing_factor": 1e-9}"#, &[0, 1, 2], &[1.0 / 3.0; 3]);
    assert_certain(&[0.0, -1e38, -3e38], r#"{"smoothing_factor": 9}"#, &[0, 1, 2], &[1.0, 0.0, 0.0]);
}
