//! Logits of frequent tokens alone: for who guesses ahead.

use std::path::Path;

use onedraw_lm::speculate::{Companion, Eagle, EarlyExit, Speculation};
use onedraw_lm::{Asks, Generator, LanguageModel, Llama, ModelError, Run, Wanted, stories};

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

/// Logits of those who guess are the list's: with a list of one rare token no guess can hold. No text depends
/// on it.
#[test]
fn the_list_changes_what_is_guessed_and_no_text() {
    let tokenizer = stories::tokenizer().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rare = with_list(folder.path(), &format!("[{}]", tokenizer.id("Z").unwrap())).unwrap();
    let rare = rare.shortlist().unwrap();
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let fixed = Speculation { width: 2, depth: 2, adapts: false, ..Speculation::default() };
    let write = |mut generator: Generator<'_, Llama>| {
        let mut params = onedraw::presets::balanced();
        (params.seed, params.max_tokens) = (Some(11), 60);
        generator.add(&prompt, params).unwrap();
        let text = generator.finish().unwrap().remove(0);
        let tokens: Vec<u32> = text.tokens.iter().map(|sampled| sampled.token).collect();
        let held = generator.guessed().map_or(0, |guessed| guessed.depths.iter().map(|depth| depth.1).sum());
        (tokens, held)
    };
    let own = stories::model().unwrap();
    let (plain, _) = write(Generator::new(&own, &tokenizer));
    assert_eq!(plain.len(), 60);
    let lists = [(own.shortlist().cloned(), true), (None, true), (Some(rare.clone()), false)];
    for (list, holds) in lists {
        let target = stories::model().unwrap().among(list.clone());
        let drafter = stories::drafter().unwrap().among(list);
        let head = stories::eagle(&target).unwrap();
        let generator = || Generator::new(&target, &tokenizer);
        let guessing = [
            generator().speculate(Companion::new(&drafter, &target).unwrap(), fixed),
            generator().speculate(EarlyExit::new(2, &target).unwrap(), fixed),
            generator().speculate(Eagle::new(&head, &target), fixed),
        ];
        for (i, guessing) in guessing.into_iter().enumerate() {
            let (tokens, held) = write(guessing.unwrap());
            assert_eq!(tokens, plain, "{i}");
            assert_eq!(held > 10, holds, "{i}: {held} guesses held");
            assert!(holds || held == 0, "{i}: {held} guesses held");
        }
    }
}

/// The drafter's folder with a list of its own.
fn with_list(folder: &Path, list: &str) -> Result<Llama, ModelError> {
    let drafter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-drafters/drafter");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(drafter.join(file), folder.join(file)).unwrap();
    }
    std::fs::write(folder.join("shortlist.json"), list).unwrap();
    Llama::open(folder)
}

#[test]
fn a_list_of_another_vocabulary_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_list(folder.path(), "[1, 4095]").unwrap();
    assert_eq!(model.shortlist().unwrap().tokens(), [1, 4095]);
    let error = with_list(folder.path(), "[1, 4096]").err().unwrap().to_string();
    assert!(error.contains("shortlist.json") && error.contains("tokens below 4096"), "{error}");
}
