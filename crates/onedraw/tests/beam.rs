//! Beam search compared with Hugging Face's answers and with exhaustive search, and texts drawn without
//! replacement.

use std::collections::BTreeMap;

use onedraw::beam::{
    BeamParams, BeamSearch, BeamStyle, Continuation, EarlyStopping, Fate, Hypothesis, StochasticBeams,
};
use onedraw::{Finish, Kernel, Row, RowError, SamplingParams};
use onedraw_testkit::chi_square;
use onedraw_testkit::conformance::{BeamCase, hugging_face_beam};

/// A weight has the 24 bits of an f32, so a logprob is within 2^-24 of its value, and that of a text within
/// that many times its length.
const CLOSE: f64 = 1e-6;

/// A model of the second order: the logits depend on the last two tokens.
struct Toy {
    table: Vec<f32>,
    vocabulary: usize,
}

impl Toy {
    fn random(seed: u64, vocabulary: usize, sharpness: f64) -> Self {
        let table = onedraw_testkit::rows::gaussian(seed, vocabulary * vocabulary * vocabulary, sharpness);
        Self { table, vocabulary }
    }

    fn row(&self, prompt: &[u32], output: &[u32]) -> &[f32] {
        let mut last = prompt.iter().chain(output).rev().map(|&token| token as usize);
        let (current, previous) = (last.next().unwrap_or(0), last.next().unwrap_or(0));
        let start = (previous * self.vocabulary + current) * self.vocabulary;
        &self.table[start..start + self.vocabulary]
    }

    /// The logprobs after a text, in f64.
    fn logprobs(&self, prompt: &[u32], output: &[u32]) -> Vec<f64> {
        let row = self.row(prompt, output);
        let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = row.iter().map(|&x| onedraw::math::exp(f64::from(x) - f64::from(highest))).sum();
        row.iter().map(|&x| f64::from(x) - f64::from(highest) - onedraw::math::ln(total)).collect()
    }

    /// Every text that ends with `eos` or has `longest` tokens, with its logprob.
    fn texts(&self, prompt: &[u32], eos: u32, longest: usize) -> Vec<(Vec<u32>, f64)> {
        let mut texts = Vec::new();
        let mut open = vec![(Vec::new(), 0.0)];
        while let Some((text, logprob)) = open.pop() {
            for (token, step) in (0u32..).zip(self.logprobs(prompt, &text)) {
                let longer = [&text[..], &[token]].concat();
                let is_done = token == eos || longer.len() == longest;
                if is_done { &mut texts } else { &mut open }.push((longer, logprob + step));
            }
        }
        texts
    }
}

fn ends(eos: u32) -> impl FnMut(usize, u32) -> Continuation {
    move |_, token| match token == eos {
        true => Continuation::Ends(Finish::Eos { token }),
        false => Continuation::Goes,
    }
}

fn search(toy: &Toy, prompt: &[u32], params: SamplingParams, beams: BeamParams) -> Vec<Hypothesis> {
    let eos = params.eos_token_id[0];
    let mut search = BeamSearch::new(params, beams).expect("a search");
    while !search.is_done() {
        let rows: Vec<Row<'_>> =
            (0..search.beams().len()).map(|beam| toy.row(prompt, search.tokens(beam)).into()).collect();
        search.step(&rows, &[], ends(eos)).expect("a step");
    }
    search.finish()
}

fn params(prompt: &[u32], eos: u32, max_tokens: u32, n: u32) -> SamplingParams {
    SamplingParams {
        prompt_token_ids: prompt.to_vec(),
        eos_token_id: vec![eos],
        max_tokens,
        n,
        ..SamplingParams::default()
    }
}

#[test]
fn hugging_face_finds_the_same() {
    let cases = hugging_face_beam();
    assert_eq!(cases.len(), 450);
    for (number, case) in cases.into_iter().enumerate() {
        let BeamCase {
            table,
            vocab,
            num_beams,
            length_penalty,
            early_stopping,
            max_new_tokens,
            prompt,
            eos,
            ..
        } = &case;
        let toy = Toy { table: table.clone(), vocabulary: *vocab };
        let early_stopping = match early_stopping.as_str() {
            Some("never") => EarlyStopping::Never,
            _ if early_stopping.as_bool() == Some(true) => EarlyStopping::Full,
            _ => EarlyStopping::Heuristic,
        };
        let beams = BeamParams {
            width: *num_beams,
            length_penalty: *length_penalty,
            early_stopping,
            ..BeamParams::default()
        };
        let found = search(&toy, prompt, params(prompt, *eos, *max_new_tokens, *num_beams as u32), beams);
        let tokens: Vec<_> = found.iter().map(|text| text.tokens.clone()).collect();
        assert_eq!(tokens, case.sequences, "case {number}");
        for (text, expected) in found.iter().zip(&case.scores) {
            assert!((text.score - expected).abs() < 1e-5, "case {number}: {} {expected}", text.score);
        }
    }
}

/// If the width covers the whole tree, no better text exists, whatever the style, and the scores follow the
/// formula of the style.
#[test]
fn a_search_that_covers_the_tree_finds_the_best() {
    for seed in 0..20 {
        let (vocabulary, longest, eos) = (4, 4, 3);
        let (toy, prompt) = (Toy::random(seed, vocabulary, 1.5), [1, 0]);
        let texts = toy.texts(&prompt, eos, longest);
        // Three tokens go on at each of three steps.
        assert_eq!(texts.len(), 1 + 3 + 9 + 27 * 4);
        for (style, length_penalty) in [
            (BeamStyle::Hf, 0.0),
            (BeamStyle::Hf, 1.0),
            (BeamStyle::Hf, -0.5),
            (BeamStyle::Gnmt, 0.6),
            (BeamStyle::Vllm, 1.0),
        ] {
            let early_stopping = match style {
                BeamStyle::Vllm => EarlyStopping::Heuristic,
                _ => EarlyStopping::Never,
            };
            let worth = |text: &[u32], logprob: f64| {
                let (length, is_ended) = (text.len() as f64, text.last() == Some(&eos));
                let length = match style {
                    BeamStyle::Hf => length,
                    BeamStyle::Gnmt => (5.0 + length) / 6.0,
                    BeamStyle::Vllm => length + 2.0 - f64::from(u8::from(is_ended)),
                };
                logprob * onedraw::math::exp(-length_penalty * onedraw::math::ln(length))
            };
            let mut expected: Vec<_> =
                texts.iter().map(|(text, logprob)| (worth(text, *logprob), text, *logprob)).collect();
            expected.sort_by(|a, b| b.0.total_cmp(&a.0));
            let beams =
                BeamParams { width: 128, style, length_penalty, early_stopping, ..BeamParams::default() };
            let found = search(&toy, &prompt, params(&prompt, eos, longest as u32, 5), beams);
            assert_eq!(found.len(), 5);
            for (text, (worth, tokens, logprob)) in found.iter().zip(expected) {
                assert_eq!(&text.tokens, tokens, "{style:?} {length_penalty} {seed}");
                assert!((text.score - worth).abs() < CLOSE && (text.logprob - logprob).abs() < CLOSE);
                let is_ended = tokens.last() == Some(&eos);
                let finish = if is_ended { Finish::Eos { token: eos } } else { Finish::Length };
                assert_eq!(text.finish, Some(finish));
            }
        }
    }
}

/// What the rules of Hugging Face and of vLLM find on a model of the first order.
#[test]
fn vllm_counts_every_end() {
    let probabilities = [[0.05, 0.55, 0.35, 0.05], [0.3, 0.1, 0.2, 0.4], [0.45, 0.25, 0.05, 0.25], [0.25; 4]];
    let table =
        (0..4).flat_map(|_| probabilities.iter().flatten().map(|&p: &f64| onedraw::math::ln(p) as f32));
    let toy = Toy { table: table.collect(), vocabulary: 4 };
    let found = |style, length_penalty| {
        let beams = BeamParams { width: 2, style, length_penalty, ..BeamParams::default() };
        let texts = search(&toy, &[0], params(&[0], 3, 6, 2), beams);
        texts.into_iter().map(|text| (text.tokens, text.score)).collect::<Vec<_>>()
    };
    let is = |style, length_penalty, expected: [(&[u32], f64); 2]| {
        for ((tokens, score), (wanted, worth)) in found(style, length_penalty).into_iter().zip(expected) {
            assert_eq!(tokens, wanted);
            assert!((score - worth).abs() < CLOSE + 5e-7, "{score} {worth}");
        }
    };
    is(BeamStyle::Hf, 0.0, [(&[1, 3], -1.514128), (&[1, 0, 1, 3], -3.315938)]);
    is(BeamStyle::Vllm, 0.0, [(&[1, 3], -1.514128), (&[2, 3], -2.436116)]);
    is(BeamStyle::Hf, 1.0, [(&[1, 3], -0.757064), (&[1, 0, 1, 3], -0.828984)]);
}

/// Groups avoid each other's tokens: with a high penalty no two begin alike, and the first group searches as
/// if it were alone.
#[test]
fn groups_go_different_ways() {
    let toy = Toy::random(5, 8, 2.0);
    let prompt = [1, 2];
    let alone = BeamParams { width: 2, ..BeamParams::default() };
    let diverse = BeamParams { width: 6, groups: 3, diversity_penalty: 50.0, ..BeamParams::default() };
    let alone = search(&toy, &prompt, params(&prompt, 7, 5, 2), alone);
    let found = search(&toy, &prompt, params(&prompt, 7, 5, 6), diverse);
    assert_eq!(found.len(), 6);
    for text in &alone {
        assert!(found.iter().any(|other| other.tokens == text.tokens && other.score == text.score));
    }
    // The penalty is in the score, not in the logprob.
    for text in &found {
        let mut logprob = 0.0;
        for (place, &token) in text.tokens.iter().enumerate() {
            logprob += toy.logprobs(&prompt, &text.tokens[..place])[token as usize];
        }
        assert!((text.logprob - logprob).abs() < CLOSE);
    }
    let mut search = BeamSearch::new(
        params(&prompt, 7, 5, 6),
        BeamParams { width: 6, groups: 3, diversity_penalty: 50.0, ..BeamParams::default() },
    )
    .unwrap();
    let row: Row<'_> = toy.row(&prompt, &[]).into();
    let step = search.step(&[row; 3], &[], ends(7)).unwrap();
    let first: Vec<u32> = step.branches.iter().map(|branch| branch.token).collect();
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!((first.len(), different.len()), (6, 6));
    // Without a penalty the groups do the same search three times.
    let plain = BeamParams { width: 6, groups: 3, diversity_penalty: 0.0, ..BeamParams::default() };
    let same = self::search(&toy, &prompt, params(&prompt, 7, 5, 6), plain);
    assert_eq!(same.iter().filter(|text| text.tokens == alone[0].tokens).count(), 3);
}

/// Edits act before candidates are taken; temperature and truncations do not act at all.
#[test]
fn edits_act_and_draws_do_not() {
    let toy = Toy::random(9, 8, 2.0);
    let beams = || BeamParams { width: 3, ..BeamParams::default() };
    let plain = search(&toy, &[1], params(&[1], 7, 6, 3), beams());
    let shaped = SamplingParams {
        temperature: 0.1,
        top_k: 1,
        top_p: 0.3,
        min_p: 0.9,
        mirostat: 2,
        seed: Some(4),
        ..params(&[1], 7, 6, 3)
    };
    assert_eq!(search(&toy, &[1], shaped, beams()), plain);
    // Two tokens are left, fewer than the beams.
    let allowed =
        SamplingParams { allowed_token_ids: Some(vec![2, 7]), min_tokens: 2, ..params(&[1], 7, 6, 3) };
    let found = search(&toy, &[1], allowed, beams());
    let mut tokens: Vec<_> = found.iter().map(|text| text.tokens.clone()).collect();
    tokens.sort();
    assert!(tokens.iter().all(|text| text[..2] == [2, 2] && text.iter().all(|token| [2, 7].contains(token))));
    assert_eq!(tokens.len(), 3);
    let no_repeats = SamplingParams { no_repeat_ngram_size: 1, ..params(&[1], 7, 6, 3) };
    for text in search(&toy, &[1], no_repeats, beams()) {
        let mut seen = text.tokens.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), text.tokens.len());
    }
}

/// Forbidden tokens are skipped, however likely they are, and a beam is dropped only when no token is left.
#[test]
fn what_is_forbidden_is_passed_over() {
    let logits: Vec<f32> = (0..200).map(|token| -0.01 * token as f32).collect();
    let run = |allowed: fn(u32) -> bool| {
        let mut search =
            BeamSearch::new(params(&[], 199, 2, 2), BeamParams { width: 2, ..BeamParams::default() })
                .unwrap();
        while !search.is_done() {
            let rows = vec![Row::from(&logits); search.beams().len()];
            search.step(&rows, &[], |_, token| match allowed(token) {
                true => Continuation::Goes,
                false => Continuation::Forbidden,
            })?;
        }
        Ok::<_, RowError>(search.finish().into_iter().map(|text| text.tokens).collect::<Vec<_>>())
    };
    assert_eq!(run(|token| token > 150), Ok(vec![vec![151, 151], vec![151, 152]]));
    assert_eq!(run(|token| token == 180), Ok(vec![vec![180, 180]]));
    assert_eq!(run(|_| false), Err(RowError::NothingLeft { stage: None }));
    // A mask that allows nothing to one of two beams drops that beam.
    let mut search =
        BeamSearch::new(params(&[], 199, 5, 2), BeamParams { width: 2, ..BeamParams::default() }).unwrap();
    let goes = |_, _| Continuation::Goes;
    search.step(&[Row::from(&logits)], &[], goes).unwrap();
    let (none, only) = (vec![0u32; 7], [vec![0u32; 3], vec![1 << 4], vec![0; 3]].concat());
    let rows = [Row::from(&logits); 2];
    let step = search.step(&rows, &[Some(&none), Some(&only)], goes).unwrap();
    assert_eq!(
        step.branches.iter().map(|branch| (branch.beam, branch.token)).collect::<Vec<_>>(),
        [(1, 100)]
    );
    assert_eq!(step.candidates.iter().filter(|candidate| candidate.fate == Fate::Kept).count(), 1);
    assert!(search.step(&[Row::from(&logits)], &[Some(&none)], goes).is_err());
    assert!(search.is_done());
}

#[test]
fn threads_and_kernels_change_nothing() {
    let toy = Toy::random(11, 12, 2.0);
    let run = |kernel, threads| {
        let beams = BeamParams { width: 6, groups: 2, diversity_penalty: 0.7, ..BeamParams::default() };
        let mut search = BeamSearch::new(params(&[3], 11, 8, 6), beams).unwrap().on(kernel, threads);
        let mut drawn = StochasticBeams::new(SamplingParams { seed: Some(5), ..params(&[3], 11, 8, 1) }, 6)
            .unwrap()
            .on(kernel, threads);
        while !search.is_done() {
            let rows: Vec<Row<'_>> =
                (0..search.beams().len()).map(|beam| toy.row(&[3], search.tokens(beam)).into()).collect();
            search.step(&rows, &[], ends(11)).unwrap();
        }
        while !drawn.is_done() {
            let rows: Vec<Row<'_>> =
                (0..drawn.len()).map(|beam| toy.row(&[3], drawn.tokens(beam)).into()).collect();
            drawn.step(&rows, &[], ends(11)).unwrap();
        }
        (search.finish(), drawn.finish())
    };
    let expected = run(Kernel::Scalar, 1);
    assert_eq!((expected.0.len(), expected.1.len()), (6, 6));
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()) {
        for threads in [1, 3] {
            assert_eq!(run(kernel, threads), expected, "{kernel}, {threads} threads");
        }
    }
}

fn draw(toy: &Toy, prompt: &[u32], params: SamplingParams, width: usize) -> Vec<onedraw::beam::Drawn> {
    let eos = params.eos_token_id[0];
    let mut beams = StochasticBeams::new(params, width).expect("beams");
    while !beams.is_done() {
        let rows: Vec<Row<'_>> =
            (0..beams.len()).map(|beam| toy.row(prompt, beams.tokens(beam)).into()).collect();
        beams.step(&rows, &[], ends(eos)).expect("a step");
    }
    beams.finish()
}

/// Ordered pairs of texts without replacement: the probability of (a, b) is p(a) · p(b) / (1 − p(a)). A
/// million draws would be slow; 60,000 detect a share that is wrong by one in fifty. The seeds are fixed, and
/// the false-alarm rate is 1e-6.
#[test]
fn stochastic_beams_draw_without_replacement() {
    let toy = Toy::random(3, 3, 1.0);
    let (prompt, eos, longest) = ([1, 0], 2, 3);
    let texts = toy.texts(&prompt, eos, longest);
    let place: BTreeMap<&[u32], usize> =
        texts.iter().enumerate().map(|(place, (text, _))| (&text[..], place)).collect();
    let share = |place: usize| onedraw::math::exp(texts[place].1);
    let count = texts.len();
    let mut observed = vec![0u64; count * count];
    let mut weighed = vec![0.0; count];
    let draws = 60_000;
    for seed in 0..draws {
        let params = SamplingParams { seed: Some(seed), ..params(&prompt, eos, longest as u32, 1) };
        let drawn = draw(&toy, &prompt, params, 2);
        let (a, b) = (place[&drawn[0].tokens[..]], place[&drawn[1].tokens[..]]);
        assert_ne!(a, b);
        assert!((drawn[0].logprob - texts[a].1).abs() < CLOSE);
        assert!(drawn[0].perturbed > drawn[1].perturbed);
        observed[a * count + b] += 1;
        for (text, place) in drawn.iter().zip([a, b]) {
            weighed[place] += share(place) / text.inclusion;
        }
    }
    let expected: Vec<f64> = (0..count * count)
        .map(|pair| (pair / count, pair % count))
        .map(|(a, b)| if a == b { 0.0 } else { share(a) * share(b) / (1.0 - share(a)) })
        .collect();
    let (seen, wanted): (Vec<u64>, Vec<f64>) =
        observed.iter().zip(&expected).filter(|(_, wanted)| **wanted > 0.0).unzip();
    let p_value = chi_square::p_value(&seen, &wanted);
    assert!(p_value > 1e-6, "{p_value}");
    // A distribution with replacement, or one whose second draw ignores the first, is detected.
    let wrong: Vec<f64> = (0..count * count)
        .map(|pair| (pair / count, pair % count))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| share(a) * share(b))
        .collect();
    let total: f64 = wrong.iter().sum();
    let wrong: Vec<f64> = wrong.iter().map(|share| share / total).collect();
    assert!(chi_square::p_value(&seen, &wrong) < 1e-6);
    // The weights p / inclusion are unbiased: the mean weight of each text is its probability.
    for (place, sum) in weighed.iter().enumerate() {
        let mean = sum / draws as f64;
        assert!((mean - share(place)).abs() < 0.02 * share(place) + 0.003, "{mean} {}", share(place));
    }
}

/// A mask that allows nothing to one of two beams drops that beam, as in a search. If it is the last beam,
/// that is an error.
#[test]
fn a_drawn_beam_can_run_dry() {
    let logits = [0.0_f32; 8];
    let goes = |_, _| Continuation::Goes;
    let mut drawn =
        StochasticBeams::new(SamplingParams { seed: Some(2), ..params(&[], 7, 5, 1) }, 2).expect("beams");
    drawn.step(&[Row::from(&logits)], &[], goes).expect("a step");
    assert_eq!(drawn.len(), 2);
    let step = drawn.step(&[Row::from(&logits); 2], &[Some(&[0]), Some(&[1 << 3])], goes).expect("a step");
    let branches: Vec<_> = step.branches.iter().map(|branch| (branch.beam, branch.token)).collect();
    assert_eq!((branches, drawn.len()), (vec![(1, 3)], 1));
    let error = drawn.step(&[Row::from(&logits)], &[Some(&[0])], goes);
    assert!(matches!(error, Err(RowError::NothingLeft { .. })), "{error:?}");
    assert!(drawn.is_done());
}

/// With as many beams as texts, every text is found once, with an inclusion of 1. Temperature and truncation
/// shape the distribution.
#[test]
fn stochastic_beams_are_drawn_from_the_chain() {
    let toy = Toy::random(4, 3, 1.0);
    let (prompt, eos) = ([0], 2);
    let texts = toy.texts(&prompt, eos, 2);
    assert_eq!(texts.len(), 7);
    let drawn = draw(&toy, &prompt, SamplingParams { seed: Some(1), ..params(&prompt, eos, 2, 1) }, 20);
    assert_eq!(drawn.len(), 7);
    assert!(drawn.iter().all(|text| text.inclusion == 1.0));
    let total: f64 = drawn.iter().map(|text| onedraw::math::exp(text.logprob)).sum();
    assert!((total - 1.0).abs() < CLOSE);
    let cut = SamplingParams { seed: Some(1), top_k: 2, temperature: 0.5, ..params(&prompt, eos, 2, 1) };
    let drawn = draw(&toy, &prompt, cut, 20);
    assert!(drawn.len() <= 4);
    let total: f64 = drawn.iter().map(|text| onedraw::math::exp(text.logprob)).sum();
    assert!((total - 1.0).abs() < CLOSE);
}

#[test]
fn bad_parameters_are_named() {
    let error = |beams: BeamParams, n: u32| {
        BeamSearch::new(params(&[], 1, 4, n), beams).map(|_| ()).unwrap_err().to_string()
    };
    let base = BeamParams::default;
    assert_eq!(error(BeamParams { width: 0, ..base() }, 1), "beams: must be in [1, 4096], not 0");
    assert_eq!(error(BeamParams { groups: 3, ..base() }, 1), "beam_groups: must divide the beams (4), not 3");
    assert_eq!(error(BeamParams { groups: 0, ..base() }, 1), "beam_groups: must divide the beams (4), not 0");
    assert_eq!(error(base(), 5), "n: must be at most the beams (4), not 5");
    let alone = error(BeamParams { diversity_penalty: 1.0, ..base() }, 1);
    assert_eq!(alone, "diversity_penalty: is set, but there is only one group of beams");
    assert!(error(BeamParams { length_penalty: f64::NAN, ..base() }, 1).starts_with("length_penalty: "));
    assert!(
        error(BeamParams { groups: 2, diversity_penalty: -1.0, ..base() }, 1)
            .starts_with("diversity_penalty: ")
    );
    let vllm = BeamParams { style: BeamStyle::Vllm, early_stopping: EarlyStopping::Never, ..base() };
    assert!(error(vllm, 1).starts_with("early_stopping: "));
    assert!(
        error(BeamParams { style: BeamStyle::Vllm, groups: 2, ..base() }, 1).starts_with("beam_groups: ")
    );
    assert_eq!(
        base().check_vocabulary(3).unwrap_err().to_string(),
        "beams: must be at most the vocabulary (3), not 4"
    );
    let coin = SamplingParams { xtc_probability: 0.5, ..params(&[], 1, 4, 1) };
    assert!(StochasticBeams::new(coin, 2).unwrap_err().to_string().starts_with("xtc_probability: "));
    let bad = SamplingParams { top_p: 2.0, ..params(&[], 1, 4, 1) };
    assert!(StochasticBeams::new(bad, 2).is_err());
}
