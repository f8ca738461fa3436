//! The embedded model: the same text everywhere, and what its folder says of it.

mod cases;

use cases::{CASES, Story, params, story, write};
use onedraw::{Kernel, SamplingParams, presets};
use onedraw_lm::{Asks, Generator, LanguageModel, Llama, Run, stories};

/// The texts of every case. `examples/golden_stories.rs` writes the file.
fn golden() -> Vec<Vec<Story>> {
    serde_json::from_str(include_str!("../../../../golden/stories.json")).expect("the golden file")
}

#[test]
fn texts_are_those_of_the_golden_file() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let golden = golden();
    assert_eq!(golden.len(), CASES.len());
    for (case, expected) in CASES.into_iter().zip(&golden) {
        assert_eq!(&write(&model, &tokenizer, case), expected, "{case:?}");
        for text in expected {
            assert_eq!(
                tokenizer.encode(&text.prompt).unwrap()[0],
                0,
                "a text begins with the token of a beginning"
            );
        }
    }
}

/// All cases in one batch, joining one by one, in any cut of the prompt, on any threads and kernel.
#[test]
fn company_chunks_threads_and_kernels_change_no_text() {
    let tokenizer = stories::tokenizer().unwrap();
    let golden = golden();
    let kernels = Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported());
    for (kernel, (chunk, threads)) in kernels.zip([(1, 1), (3, 2), (7, 3), (64, 2), (2, 1), (5, 5)]) {
        let model = stories::model().unwrap().on(kernel, threads).unwrap();
        let mut generator = Generator::new(&model, &tokenizer).chunk(chunk).kernel(kernel);
        let mut texts = onedraw_lm::generate::Texts::default();
        let mut cases = Vec::new();
        // Without an instruction that multiplies and adds at once, the bits are the same but take thirty
        // times as long.
        let skipped = if matches!(kernel, Kernel::Scalar | Kernel::Sse) { CASES.len() - 2 } else { 0 };
        for case in CASES.into_iter().skip(skipped) {
            let (prompt, json) = case;
            let request = generator.add(&tokenizer.encode(prompt).unwrap(), params(json)).unwrap();
            cases.push((request, case));
            for _ in 0..5 {
                generator.step().unwrap().into_iter().for_each(|event| texts.push(event));
            }
        }
        while !generator.is_done() {
            generator.step().unwrap().into_iter().for_each(|event| texts.push(event));
        }
        let case = |request| cases.iter().find(|(other, _)| *other == request).unwrap().1;
        let found: Vec<Story> =
            texts.into_generated().iter().map(|text| story(case(text.request), text)).collect();
        assert_eq!(found, golden[skipped..].concat(), "{kernel}, {threads} threads, {chunk} positions");
    }
}

#[test]
fn the_model_is_of_the_shape_its_card_says() {
    let (model, drafter) = (stories::model().unwrap(), stories::drafter().unwrap());
    let shape = |model: &Llama| {
        let config = model.config();
        (config.layers, config.width, config.vocabulary, config.context)
    };
    assert_eq!((shape(&model), shape(&drafter)), ((6, 256, 4096, 512), (2, 96, 4096, 512)));
    let tokenizer = stories::tokenizer().unwrap();
    assert_eq!(tokenizer.len(), 4096);
    assert_eq!((tokenizer.piece(0), tokenizer.id("<|endoftext|>")), ("<|endoftext|>".to_owned(), Some(0)));
    // Every byte is a token, so every text can be written.
    let text = "A fox 🦊, naïve\u{0}\n\tand 1234\u{7f}";
    assert_eq!(tokenizer.text(&tokenizer.encode(text).unwrap()), text);
}

/// What it comes with is the preset `balanced`, and the token that ends a story.
#[test]
fn its_parameters_are_balanced() {
    let config = stories::generation_config().unwrap();
    assert_eq!(config.eos_token_ids, [0]);
    assert_eq!(config.notes, Vec::<String>::new());
    let found = SamplingParams::from_value(config.params.into()).unwrap();
    let SamplingParams { temperature, top_k, top_p, repetition_penalty, .. } = presets::balanced();
    assert_eq!(
        found,
        SamplingParams {
            temperature,
            top_k,
            top_p,
            repetition_penalty,
            order: found.order.clone(),
            ..SamplingParams::default()
        }
    );
}

/// A little is right after two layers, more after three: the share of a story's tokens that each exit and the
/// drafter guess.
#[test]
fn early_layers_and_the_drafter_guess_tokens() {
    let (model, drafter) = (stories::model().unwrap(), stories::drafter().unwrap());
    let stories = golden();
    let text: Vec<u32> = [&[0][..], &stories[2][0].tokens].concat();
    let best = |model: &Llama, exit| {
        let asks = Asks { logits: onedraw_lm::Wanted::All, exit, ..Asks::default() };
        let mut sequence = model.start();
        let run = Run { asks, ..Run::line(&mut sequence, &text) };
        let logits = model.forward(&mut [run]).unwrap().remove(0).logits;
        logits
            .chunks(model.vocabulary())
            .map(|row| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap())
            .collect::<Vec<_>>()
    };
    let whole = best(&model, None);
    let agrees = |other: Vec<usize>| {
        let same = other.iter().zip(&whole).filter(|(a, b)| a == b).count();
        100 * same / whole.len()
    };
    let (two, three, draft) =
        (agrees(best(&model, Some(2))), agrees(best(&model, Some(3))), agrees(best(&drafter, None)));
    println!(
        "of the tokens, {two} % are right after two layers, {three} % after three, {draft} % by the drafter"
    );
    assert!(two >= 50 && three >= 60 && draft >= 40, "{two}, {three}, {draft}");
}
