//! Samplers with a state: mirostat learns, XTC throws a coin, banned strings take text back. The state is
//! part of the history, so a replay draws the same tokens, and a saved sampler continues as if it had not
//! been saved.

use onedraw::stop::Rewind;
use onedraw::{Batch, RowError, Sampler, SamplingParams, Saved, Step};
use onedraw_testkit::rows;

fn params(json: &str) -> SamplingParams {
    let params = SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    SamplingParams { seed: params.seed.or(Some(17)), ..params }
}

fn sampler(json: &str) -> Sampler {
    Sampler::new(params(json)).expect("valid parameters")
}

const CHAINS: [&str; 6] = [
    r#"{"mirostat": 2, "mirostat_tau": 3}"#,
    r#"{"mirostat": 1, "mirostat_tau": 4, "mirostat_eta": 0.3, "temperature": 1.2}"#,
    r#"{"mirostat": 2, "mirostat_mu": 1.5, "repetition_penalty": 1.2}"#,
    r#"{"xtc_probability": 0.5, "xtc_threshold": 0.05, "temperature": 0.9}"#,
    r#"{"xtc_probability": 0.4, "xtc_threshold": 0.02, "top_k": 40, "order": "xtc,top_k,xtc"}"#,
    r#"{"mirostat": 2, "xtc_probability": 0.5, "xtc_threshold": 0.05, "order": ["xtc", "mirostat"]}"#,
];

fn story() -> Vec<Vec<f32>> {
    (0..60).map(|i| rows::peaked(i, 300)).collect()
}

#[test]
fn a_replay_draws_the_same() {
    for json in CHAINS {
        let (mut one, mut other) = (sampler(json), sampler(json));
        for row in story() {
            let drawn = one.sample(&row).expect("a good row");
            assert_eq!(other.sample(&row).expect("a good row"), drawn);
            assert_eq!(one.mirostat_mu(), drawn.mirostat_mu);
        }
        // Back to the middle, and forward again.
        let (output, mu) = (one.output().to_vec(), one.mirostat_mu());
        one.rewind(30);
        for row in &story()[30..] {
            one.sample(row).expect("a good row");
        }
        assert_eq!((one.output(), one.mirostat_mu()), (&output[..], mu), "{json}");
    }
}

#[test]
fn a_saved_sampler_goes_on() {
    for json in CHAINS {
        let mut sampler = sampler(json);
        let rows = story();
        rows[..20].iter().for_each(|row| drop(sampler.sample(row).expect("a good row")));
        sampler.take_back(&Rewind { length: 15, token: sampler.output()[15], phrase: 0 });
        rows[15..20].iter().for_each(|row| drop(sampler.sample(row).expect("a good row")));
        let json = serde_json::to_string(&sampler.save()).expect("built-in stages have names");
        let saved: Saved = serde_json::from_str(&json).expect("what was written");
        let mut again = Sampler::load(&saved).expect("what was saved");
        assert_eq!(again.save(), sampler.save());
        for row in &rows[20..] {
            assert_eq!(again.sample(row).expect("a good row"), sampler.sample(row).expect("a good row"));
        }
        // Taking back also works for tokens from before the saving.
        for sampler in [&mut again, &mut sampler] {
            sampler.rewind(10);
        }
        assert_eq!(again.save(), sampler.save());
        let mut batch = Batch::new();
        let id = batch.load(&saved).expect("what was saved");
        assert_eq!(batch.save(id), Some(saved.clone()));
    }
}

/// A sequence that is resumed with its tokens behaves like the one that drew them, even if it goes back
/// beyond them.
#[test]
fn a_resumed_sequence_undoes_to_the_same_tokens() {
    let row = rows::flat(40, 0.01);
    let mut one = sampler("{}");
    let first: Vec<u32> = (0..6).map(|_| one.sample(&row).expect("a good row").token).collect();
    let mut other = Sampler::new(SamplingParams { output_token_ids: first.clone(), ..params("{}") })
        .expect("valid parameters");
    for sampler in [&mut one, &mut other] {
        sampler.take_back(&Rewind { length: 4, token: first[4], phrase: 0 });
        sampler.rewind(2);
    }
    for token in &first[2..] {
        assert_eq!(one.sample(&row).expect("a good row").token, *token);
        assert_eq!(other.sample(&row).expect("a good row").token, *token);
    }
    // A position beyond the end cannot be taken back.
    one.take_back(&Rewind { length: 7, token: 0, phrase: 0 });
    assert_eq!(one.sample(&row).expect("a good row"), other.sample(&row).expect("a good row"));
    // An id that no token has is removed by the rewind, saved or not, given or accepted.
    other.accept(999);
    let mut loaded = Sampler::load(&other.save()).expect("what was saved");
    for sampler in [&mut other, &mut loaded] {
        assert_eq!(sampler.sample(&row).expect_err("outside").kind(), "outside_vocabulary");
        sampler.rewind(3);
        assert_eq!(sampler.sample(&row).expect("a good row").token, first[3]);
    }
}

#[test]
fn what_was_not_saved_is_not_loaded() {
    let mut sampler = sampler(r#"{"mirostat": 2}"#);
    sampler.sample(&[0.0f32, 1.0, 0.5, 0.2]).expect("a good row");
    let mut saved = serde_json::to_value(sampler.save()).expect("written");
    let load = |saved: &serde_json::Value| {
        let saved: Saved = serde_json::from_value(saved.clone()).map_err(|error| error.to_string())?;
        Sampler::load(&saved).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(load(&saved), Ok(()));
    saved["params"]["output_token_ids"] = serde_json::json!([]);
    assert_eq!(load(&saved), Err("path: does not belong to the output".to_owned()));
    saved["params"]["output_token_ids"] = serde_json::json!([3]);
    saved["sequence"] = serde_json::json!(1);
    assert_eq!(load(&saved), Err("sequence: must be below n (1), not 1".to_owned()));
    saved["params"]["temperature"] = serde_json::json!(-1);
    saved["sequence"] = serde_json::json!(0);
    assert_eq!(load(&saved), Err("temperature: must be in [0, 1000000], not -1".to_owned()));
    saved["colour"] = serde_json::json!("red");
    assert!(load(&saved).is_err_and(|error| error.starts_with("unknown field `colour`")));
}

/// The mu after a draw, by the published rule and the probability of the drawn token.
#[test]
fn mirostat_learns_from_what_was_drawn() {
    for json in &CHAINS[..3] {
        let params = params(json);
        let mut sampler = Sampler::new(params.clone()).expect("valid parameters");
        let mut mu = params.mirostat_mu.unwrap_or(2.0 * params.mirostat_tau);
        for row in story() {
            let distribution = sampler.distribution(&row).expect("a good row");
            let drawn = sampler.sample(&row).expect("a good row");
            let place = distribution.tokens.iter().position(|&token| token == drawn.token).expect("kept");
            let surprise = -core_math::log2(distribution.probabilities[place]);
            mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
            assert!((sampler.mirostat_mu().expect("on") - mu).abs() < 1e-9, "{json}");
        }
        // Mirostat does not learn from a token that the caller chose; it does from one that was peeked at and
        // accepted.
        let before = sampler.mirostat_mu();
        sampler.accept(5);
        assert_eq!(sampler.mirostat_mu(), before);
        let peeked = sampler.peek(&story()[0], 0).expect("a good row");
        assert_eq!(sampler.mirostat_mu(), before);
        sampler.accept_sampled(&peeked);
        assert_eq!(sampler.mirostat_mu(), peeked.mirostat_mu);
        assert_ne!(sampler.mirostat_mu(), before);
    }
    assert_eq!(self::sampler("{}").mirostat_mu(), None);
}

/// Over a long text on flat rows the mean surprise approaches tau.
#[test]
fn mirostat_holds_the_surprise_at_its_target() {
    for (version, tau) in [(2, 3.0), (2, 5.0), (1, 4.0)] {
        let json = format!(r#"{{"mirostat": {version}, "mirostat_tau": {tau}, "max_tokens": 4000}}"#);
        let mut sampler = sampler(&json);
        let mut surprise = 0.0;
        for i in 0..3000 {
            let row = rows::gaussian(i % 50, 2000, 2.0);
            let distribution = (i >= 1000).then(|| sampler.distribution(&row).expect("a good row"));
            let token = sampler.sample(&row).expect("a good row").token;
            if let Some(distribution) = distribution {
                let place = distribution.tokens.iter().position(|&other| other == token).expect("kept");
                surprise -= core_math::log2(distribution.probabilities[place]) / 2000.0;
            }
        }
        assert!((surprise - tau).abs() < 0.1, "version {version}: {surprise} bits for {tau}");
    }
}

/// `distribution` shows the distribution at this position, for which the coin has already fallen.
#[test]
fn the_distribution_shows_the_coin() {
    let row = [-0.510_825_6_f32, -1.203_972_8, -std::f32::consts::LN_10];
    let mut sampler = sampler(r#"{"xtc_probability": 0.5, "xtc_threshold": 0.25}"#);
    let mut outcomes = [0, 0];
    for _ in 0..200 {
        let coin =
            onedraw::noise::Noise { seed: 17, position: sampler.position(), sequence: 0, round: 0 }.xtc(0);
        let distribution = sampler.distribution(&row).expect("a good row");
        let expected: &[u32] = if coin < 0.5 { &[1, 2] } else { &[0, 1, 2] };
        assert_eq!(distribution.tokens, expected);
        let token = sampler.sample(&row).expect("a good row").token;
        assert!(expected.contains(&token));
        outcomes[usize::from(coin < 0.5)] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 70), "{outcomes:?}");
}

#[test]
fn a_protected_token_stays() {
    let row = [-0.510_825_6_f32, -1.203_972_8, -std::f32::consts::LN_10];
    let tokens = |json: &str| sampler(json).distribution(&row).expect("a good row").tokens;
    assert_eq!(tokens(r#"{"xtc_probability": 1, "xtc_threshold": 0.05}"#), [2]);
    assert_eq!(
        tokens(r#"{"xtc_probability": 1, "xtc_threshold": 0.05, "xtc_protected_token_ids": [0]}"#),
        [0, 2]
    );
    let sampled = sampler(r#"{"xtc_probability": 1, "xtc_threshold": 0.05, "temperature": 0}"#).sample(&row);
    assert_eq!(sampled.expect("a good row").token, 2, "greedy takes the first of what is left");
}

/// Each sequence has its own state, whatever other sequences are in the batch.
#[test]
fn the_order_of_a_batch_does_not_matter() {
    let rows = story();
    let alone: Vec<Vec<u32>> = CHAINS
        .iter()
        .map(|json| {
            let mut sampler = sampler(json);
            rows.iter().map(|row| sampler.sample(row).expect("a good row").token).collect()
        })
        .collect();
    for (threads, turn) in [(1, 0), (2, 1), (3, 4)] {
        let mut batch = Batch::new().threads(threads);
        let ids: Vec<_> = CHAINS.iter().map(|json| batch.add(params(json)).expect("valid")).collect();
        let mut order: Vec<usize> = (0..CHAINS.len()).collect();
        order.rotate_left(turn);
        for (i, row) in rows.iter().enumerate() {
            let steps: Vec<_> = order.iter().map(|&chain| Step::new(ids[chain], row)).collect();
            for (&chain, result) in order.iter().zip(batch.sample(&steps)) {
                assert_eq!(result.expect("a good row").token, alone[chain][i], "{}", CHAINS[chain]);
            }
            order.reverse();
        }
    }
}

/// A token that was taken back is not drawn again at that position, and the draws after it have fresh noise.
#[test]
fn text_that_is_taken_back_is_drawn_anew() {
    let json = r#"{"banned_strings": ["x"], "seed": 9}"#;
    let row = rows::flat(40, 0.01);
    let mut sampler = sampler(json);
    let first: Vec<u32> = (0..10).map(|_| sampler.sample(&row).expect("a good row").token).collect();
    sampler.take_back(&Rewind { length: 4, token: first[4], phrase: 0 });
    assert_eq!(sampler.output(), &first[..4]);
    assert!(!sampler.distribution(&row).expect("a good row").tokens.contains(&first[4]));
    let second: Vec<u32> = (0..6).map(|_| sampler.sample(&row).expect("a good row").token).collect();
    assert_ne!(second[0], first[4]);
    assert!(sampler.distribution(&row).expect("a good row").tokens.contains(&first[4]), "elsewhere it may");
    assert_ne!(second[1..], first[5..], "the noise is fresh");
    // An undo is different: the same tokens are drawn again, and the ban stays at its position.
    sampler.rewind(4);
    let third: Vec<u32> = (0..6).map(|_| sampler.sample(&row).expect("a good row").token).collect();
    assert_eq!(third, second);
    sampler.rewind(0);
    let fourth: Vec<u32> = (0..10).map(|_| sampler.sample(&row).expect("a good row").token).collect();
    assert_eq!(fourth, first, "before the rewind, its round had not begun");
    // The same in a batch.
    let mut batch = Batch::new();
    let id = batch.add(params(json)).expect("valid parameters");
    (0..10).for_each(|_| drop(batch.sample(&[Step::new(id, &row)])));
    assert!(batch.take_back(id, &Rewind { length: 4, token: first[4], phrase: 0 }));
    (0..6).for_each(|_| drop(batch.sample(&[Step::new(id, &row)])));
    assert_eq!(batch.output(id).map(|output| &output[4..]), Some(&second[..]));
    assert!(batch.remove(id) && !batch.take_back(id, &Rewind { length: 0, token: 0, phrase: 0 }));
}

/// Taking back works with or without `banned_strings`, and whatever the order names.
#[test]
fn bans_can_use_up_a_position() {
    let row = [1.0f32, 2.0];
    for json in
        [r#"{"banned_strings": ["x"]}"#, r#"{"temperature": 0}"#, r#"{"order": ["top_k"], "top_k": 1}"#]
    {
        for shards in [1, 2] {
            let mut sampler = sampler(json).shards(onedraw::Shards::even(shards));
            for _ in 0..2 {
                let token = sampler.sample(&row).expect("a token is left").token;
                sampler.take_back(&Rewind { length: 0, token, phrase: 0 });
            }
            let nothing = RowError::NothingLeft { stage: Some(onedraw::Stage::BadWords) };
            assert_eq!(sampler.sample(&row), Err(nothing.clone()));
            assert_eq!(sampler.explain(&row, 1), Err(nothing));
            sampler.accept(1);
            assert_eq!(sampler.sample(&row).expect("elsewhere nothing is banned").position, 1);
        }
    }
    // An explanation shows what was banned.
    let mut sampler = sampler("{}");
    sampler.take_back(&Rewind { length: 0, token: 1, phrase: 0 });
    let explanation = sampler.explain(&row, 1).expect("one is left");
    assert_eq!(explanation.stages[1].stage, "bad_words");
    assert_eq!(explanation.stages[1].removed[0].token, 1);
}

/// A sampler that is used for one text after another begins each as it began the first.
#[test]
fn a_reset_forgets_what_was_written() {
    for json in CHAINS {
        let params =
            SamplingParams { prompt_token_ids: vec![2, 9], output_token_ids: vec![4], ..params(json) };
        let mut sampler = Sampler::new(params.clone()).expect("valid parameters");
        let made = sampler.save();
        let rows = story();
        let first: Vec<_> = rows[..20].iter().map(|row| sampler.sample(row).expect("a good row")).collect();
        sampler.take_back(&Rewind { length: 0, token: 4, phrase: 0 });
        sampler.set_prompt(&[1, 1, 1]);
        sampler.reset();
        assert_eq!(sampler.save(), made, "{json}");
        let again: Vec<_> = rows[..20].iter().map(|row| sampler.sample(row).expect("a good row")).collect();
        assert_eq!(again, first, "{json}");

        // One that was saved in the middle begins there.
        sampler.take_back(&Rewind { length: 10, token: first[9].token, phrase: 0 });
        let saved = sampler.save();
        let mut loaded = Sampler::load(&saved).expect("what was saved");
        rows[20..30].iter().for_each(|row| drop(loaded.sample(row).expect("a good row")));
        loaded.reset();
        assert_eq!(loaded.save(), saved, "{json}");

        let mut batch = Batch::new();
        let id = batch.add(params).expect("valid parameters");
        batch.sample(&[Step::new(id, &rows[0])]);
        assert!(batch.set_prompt(id, &[1]) && batch.reset(id));
        assert_eq!(batch.save(id), Some(made), "{json}");
        assert!(batch.remove(id) && !batch.reset(id) && !batch.set_prompt(id, &[1]));
    }
}

/// A prompt that is known late counts as one that was known at first.
#[test]
fn a_prompt_may_be_set_later() {
    let json = r#"{"repetition_penalty": 1.5, "penalty_window": 8, "dry_multiplier": 0.8, "no_repeat_ngram_size": 3}"#;
    let prompt = [7, 9, 7, 9, 7, 250];
    for begun in [vec![], vec![9, 7]] {
        let params = SamplingParams { output_token_ids: begun, ..params(json) };
        let mut late =
            Sampler::new(SamplingParams { prompt_token_ids: vec![1; 30], ..params.clone() }).unwrap();
        let mut early = Sampler::new(SamplingParams { prompt_token_ids: prompt.to_vec(), ..params }).unwrap();
        late.set_prompt(&prompt);
        for row in story() {
            assert_eq!(late.sample(&row), early.sample(&row));
        }
        assert_eq!(late.save(), early.save());
        // Its ids are checked against each row.
        let error = RowError::OutsideVocabulary { field: "prompt_token_ids", token: 250, vocabulary: 200 };
        assert_eq!(late.sample(&rows::peaked(0, 200)), Err(error));
        late.set_prompt(&[]);
        late.rewind(0);
        assert!(late.sample(&rows::peaked(0, 200)).is_ok());
    }
}
