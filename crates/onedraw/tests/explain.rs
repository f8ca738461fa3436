//! An explanation is the chain itself, observed between its stages.

use onedraw::explain::StageEffect;
use onedraw::{Sampler, SamplingParams, Shards};
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows;
use proptest::prelude::*;

fn sampler(json: &str) -> Sampler {
    Sampler::new(SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}")))
        .expect("valid parameters")
}

fn ids(effect: &StageEffect) -> Vec<u32> {
    effect.removed.iter().map(|candidate| candidate.token).collect()
}

#[test]
fn each_stage_says_what_it_left() {
    // Probabilities 0.4, 0.3, 0.2, 0.1.
    let row = [0.4f64, 0.3, 0.2, 0.1].map(|p| core_math::log(p) as f32);
    let json = r#"{"seed": 1, "logit_bias": {"3": -0.5}, "bad_words_ids": [[1]], "top_k": 2, "xtc_probability": 1,
        "order": "bad_words,logit_bias,top_k,xtc"}"#;
    let explanation = sampler(json).explain(&row, 10).expect("a good row");
    let stages: Vec<_> = explanation.stages.iter().map(|effect| effect.stage.as_str()).collect();
    assert_eq!(stages, ["row", "bad_words", "logit_bias", "top_k", "xtc"]);
    let tokens: Vec<_> = explanation.stages.iter().map(|effect| (effect.tokens, effect.gone)).collect();
    assert_eq!(tokens, [(4, 0), (3, 1), (3, 0), (2, 1), (1, 1)]);
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-6, "{got} is not {want}");
    let [raw, words, bias, top_k, xtc] = &explanation.stages[..] else { panic!("five stages") };
    near(raw.mass, 1.0);
    near(raw.entropy, -[0.4f64, 0.3, 0.2, 0.1].iter().map(|&p| p * core_math::log2(p)).sum::<f64>());
    assert_eq!((ids(words), ids(bias), ids(top_k), ids(xtc)), (vec![1], vec![], vec![3], vec![0]));
    near(words.mass, 0.7);
    near(words.removed[0].probability, 0.3);
    near(bias.mass, 1.0);
    let biased = 0.1 * core_math::exp(-0.5f64);
    near(top_k.removed[0].probability, biased / (0.6 + biased));
    near(top_k.mass, 0.6 / (0.6 + biased));
    near(xtc.mass, 1.0 / 3.0);
    assert_eq!(xtc.decision.as_deref(), Some("the coin says yes"));
    assert_eq!((xtc.best.token, explanation.token, explanation.probability), (2, 2, 1.0));
    let written = serde_json::to_value(&explanation).expect("written");
    assert_eq!(written["stages"][4]["decision"], "the coin says yes");
    assert!(written["stages"][1].get("decision").is_none());
}

#[test]
fn the_list_of_what_went_can_be_short() {
    let row = rows::gaussian(1, 1000, 2.0);
    for listed in [0, 3, 2000] {
        let explanation = sampler(r#"{"top_k": 10}"#).explain(&row, listed).expect("a good row");
        assert_eq!((explanation.stages[1].gone, explanation.stages[1].removed.len()), (990, listed.min(990)));
        let falling = explanation.stages[1].removed.windows(2).all(|w| w[0].probability >= w[1].probability);
        assert!(falling, "most likely first");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every explanation ends with the distribution, and its token is the one that is drawn, for any split of
    /// the vocabulary.
    #[test]
    fn the_last_stage_leaves_the_distribution((row, params) in any_case(400)) {
        let mut sampler = Sampler::new(params.clone()).expect("valid parameters");
        let explained = sampler.explain(&row, usize::MAX);
        let drawn = sampler.peek(&row, 0);
        match (&explained, &drawn) {
            (Ok(explanation), Ok(drawn)) => {
                let distribution = sampler.distribution(&row).expect("drawn from");
                prop_assert_eq!(explanation.token, drawn.token);
                let last = explanation.stages.last().expect("at least the row");
                let is_greedy = distribution.tokens.len() == 1;
                prop_assert!(is_greedy || last.tokens as usize == distribution.tokens.len());
                prop_assert_eq!(last.best.token, distribution.tokens[0]);
                let gone: u32 = explanation.stages.iter().map(|effect| effect.gone).sum();
                prop_assert_eq!(gone + last.tokens, explanation.stages[0].tokens);
                prop_assert!(explanation.stages.iter().all(|effect| effect.removed.len() == effect.gone as usize));
                let mut split = Sampler::new(params).expect("valid parameters").shards(Shards::even(3));
                let mut again = split.explain(&row, usize::MAX).expect("the same");
                again.stages.iter_mut().zip(&explanation.stages).for_each(|(a, b)| a.nanoseconds = b.nanoseconds);
                prop_assert_eq!(&again, explanation);
            }
            (Err(error), Err(other)) => prop_assert_eq!(error, other),
            _ => prop_assert!(false, "{:?} and {:?}", explained, drawn),
        }
    }
}
