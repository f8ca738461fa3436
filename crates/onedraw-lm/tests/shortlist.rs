//! Logits of frequent tokens alone: for who guesses ahead.

use onedraw_lm::speculate::{Companion, EarlyExit, Speculation};
use onedraw_lm::{Asks, Generator, LanguageModel, Llama, Run, Wanted, stories};

fn logits(model: &Llama, tokens: &[u32], exit: Option<usize>, frequent: bool) -> Vec<f32> {
    let asks = Asks { logits: Wanted::All, exit, frequent, ..Asks::default() };
    let mut memory = model.start();
    model.forward(&mut [Run { asks, ..Run::line(&mut memory, tokens) }]).unwrap().remove(0).logits
}

#[test]
fn logits_of_frequent_tokens_are_the_models_own() {
    let tokens = stories::tokenizer().unwrap().encode("Lily saw a big red ball").unwrap();
    for model in [stories::model().unwrap(), stories::drafter().unwrap()] {
        let listed = model.shortlist().unwrap().tokens().to_vec();
        assert_eq!(listed.len(), 2048);
        for exit in [None, Some(1)] {
            let (all, frequent) = (logits(&model, &tokens, exit, false), logits(&model, &tokens, exit, true));
            assert_eq!(all.len(), tokens.len() * 4096);
            for (place, (all, frequent)) in all.into_iter().zip(frequent).enumerate() {
                let expected = if listed.contains(&(place as u32 % 4096)) { all } else { f32::NEG_INFINITY };
                assert_eq!(frequent.to_bits(), expected.to_bits(), "{place}, {exit:?}");
            }
        }
    }
}

/// One pass may hold both questions.
#[test]
fn runs_of_both_kinds_share_a_pass() {
    let model = stories::model().unwrap();
    let tokens = stories::tokenizer().unwrap().encode("One day").unwrap();
    let mut memories: Vec<_> = (0..3).map(|_| model.start()).collect();
    let mut runs: Vec<_> = memories
        .iter_mut()
        .zip([true, false, true])
        .map(|(memory, frequent)| Run {
            asks: Asks { logits: Wanted::All, frequent, ..Asks::default() },
            ..Run::line(memory, &tokens)
        })
        .collect();
    let answers = model.forward(&mut runs).unwrap();
    for (answer, frequent) in answers.iter().zip([true, false, true]) {
        assert_eq!(answer.logits, logits(&model, &tokens, None, frequent), "{frequent}");
    }
}

#[test]
fn a_model_that_knows_no_frequent_tokens_gives_all() {
    let model = stories::drafter().unwrap().among(None);
    assert_eq!(model.shortlist(), None);
    assert_eq!(logits(&model, &[5, 6], None, true), logits(&model, &[5, 6], None, false));
}

/// The list changes what is guessed, and no text.
#[test]
fn texts_do_not_depend_on_the_list() {
    let tokenizer = stories::tokenizer().unwrap();
    let (target, whole) = (stories::model().unwrap(), stories::model().unwrap().among(None));
    let (short, long) = (stories::drafter().unwrap(), stories::drafter().unwrap().among(None));
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let fixed = Speculation { width: 2, depth: 2, adapts: false, ..Speculation::default() };
    let write = |mut generator: Generator<'_, Llama>| {
        let mut params = onedraw::presets::balanced();
        (params.seed, params.max_tokens) = (Some(11), 60);
        generator.add(&prompt, params).unwrap();
        let text = generator.finish().unwrap().remove(0);
        text.tokens.iter().map(|sampled| sampled.token).collect::<Vec<_>>()
    };
    let plain = write(Generator::new(&target, &tokenizer));
    assert_eq!(plain.len(), 60);
    for drafter in [&short, &long] {
        let companion = Companion::new(drafter, &target).unwrap();
        let guessing = Generator::new(&target, &tokenizer).speculate(companion, fixed).unwrap();
        assert_eq!(write(guessing), plain);
    }
    for model in [&target, &whole] {
        let exit = EarlyExit::new(2, model).unwrap();
        assert_eq!(write(Generator::new(model, &tokenizer).speculate(exit, fixed).unwrap()), plain);
    }
}

#[test]
fn a_list_of_another_vocabulary_is_an_error() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/drafter");
    let folder = std::env::temp_dir().join(format!("onedraw-shortlist-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(std::path::Path::new(models).join(file), folder.join(file)).unwrap();
    }
    let open = |list: &str| {
        std::fs::write(folder.join("shortlist.json"), list).unwrap();
        Llama::open(&folder)
    };
    assert_eq!(open("[1, 4095]").unwrap().shortlist().unwrap().tokens(), [1, 4095]);
    let error = open("[1, 4096]").err().unwrap().to_string();
    assert!(error.contains("shortlist.json") && error.contains("tokens below 4096"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
