//! Guesses change how long a text takes, and in `exact` mode nothing else.

mod drafters;

use drafters::{KINDS, Kind, Models, fixed, shapes};
use onedraw::speculate::Verify;
use onedraw::{Kernel, SamplingParams, presets};
use onedraw_lm::speculate::{
    Companion, EarlyExit, Ngram, SelfSpeculativeDecoder, Speculation, SpeculativeDecoder,
};
use onedraw_lm::{Generated, Generator, LanguageModel, stories};

use crate::parrot::{Parrot, tokenizer};

/// What texts are drawn by.
fn settings() -> Vec<SamplingParams> {
    let bad_words = |params: &mut SamplingParams| {
        // " the", " a" and " and": words that every story has.
        let tokenizer = stories::tokenizer().expect("a tokenizer");
        params.bad_words_ids =
            [" the", " a", " and"].iter().map(|word| tokenizer.encode_plain(word).expect("tokens")).collect();
    };
    let with = |mut params: SamplingParams, change: &dyn Fn(&mut SamplingParams)| {
        change(&mut params);
        params
    };
    vec![
        presets::balanced(),
        presets::deterministic(),
        with(presets::creative(), &|params| params.logprobs = Some(3)),
        with(presets::precise(), &|params| params.n = 2),
        with(presets::balanced(), &|params| {
            (params.repetition_penalty, params.frequency_penalty, params.presence_penalty) = (1.2, 0.3, 0.2);
            (params.no_repeat_ngram_size, params.logprobs) = (3, Some(0));
        }),
        with(presets::creative(), &bad_words),
        with(SamplingParams::default(), &|params| (params.mirostat, params.logprobs) = (2, Some(1))),
        with(SamplingParams::default(), &|params| {
            (params.min_p, params.xtc_probability, params.xtc_threshold) = (0.02, 0.5, 0.1);
            (params.dry_multiplier, params.min_tokens) = (0.8, 20);
        }),
    ]
}

/// Prompts that are written side by side.
const BATCHES: [&[&str]; 3] = [
    &["Once upon a time"],
    &["One day, Tom and Lily", "The little dog"],
    &["A bird. A bird. A bird. A", "Mom said", "There was a small house"],
];

fn texts(
    mut generator: Generator<'_, onedraw_lm::Llama>,
    batch: &[&str],
    params: &SamplingParams,
    seed: u64,
) -> Vec<Generated> {
    let tokenizer = stories::tokenizer().expect("a tokenizer");
    for (i, prompt) in batch.iter().enumerate() {
        let mut params = params.clone();
        (params.seed, params.max_tokens) = (Some(seed + i as u64), 40);
        params.eos_token_id = vec![0];
        generator.add(&tokenizer.encode(prompt).expect("tokens"), params).expect("a request");
    }
    generator.finish().expect("texts")
}

/// A case of the product: drafter, and the numbers of a shape, of settings and of a batch.
fn check(models: &Models, kind: Kind, shape: usize, setting: usize, batch: usize) -> usize {
    let params = &settings()[setting];
    let seed = (shape * 100 + setting * 10 + batch) as u64;
    let plain = texts(Generator::new(&models.target, &models.tokenizer), BATCHES[batch], params, seed);
    let generator = Generator::new(&models.target, &models.tokenizer);
    let guessing = texts(kind.of(models, generator, shapes()[shape]), BATCHES[batch], params, seed);
    let case = format!("{kind:?}, shape {shape}, settings {setting}, batch {batch}");
    assert_eq!(guessing.len(), plain.len(), "{case}");
    for (guessing, plain) in guessing.iter().zip(&plain) {
        assert_eq!(guessing.text, plain.text, "{case}");
        // Tokens with their positions, logprobs, ranks and mirostat's mu.
        assert_eq!(guessing.tokens, plain.tokens, "{case}");
        assert_eq!((guessing.finish, &guessing.error), (plain.finish, &plain.error), "{case}");
    }
    plain.iter().map(|text| text.tokens.len()).sum()
}

/// Every drafter with every shape, with every setting and with every batch, and every shape with every
/// setting. The grid of `onedraw-grammar`'s tests has more settings, and the whole product.
#[test]
fn texts_are_those_of_plain_decoding() {
    let models = Models::new();
    let (shapes, settings) = (shapes().len(), settings().len());
    let mut tokens = 0;
    for (i, kind) in KINDS.into_iter().enumerate() {
        for round in 0..settings {
            tokens += check(
                &models,
                kind,
                (i + round) % shapes,
                (round + 3 * i) % settings,
                (i + round) % BATCHES.len(),
            );
        }
    }
    assert!(tokens > 4000, "{tokens}");
}

/// The target guesses for itself, so every guess holds until the text ends: within a block.
#[test]
fn a_text_ends_within_a_block_where_plain_decoding_ends_it() {
    let models = Models::new();
    let prompt = models.tokenizer.encode("Once upon a time").expect("tokens");
    let base = SamplingParams { seed: Some(5), max_tokens: 60, eos_token_id: vec![0], ..presets::balanced() };
    let plain = |params: &SamplingParams| {
        let mut generator = Generator::new(&models.target, &models.tokenizer);
        generator.add(&prompt, params.clone()).expect("a request");
        generator.finish().expect("a text").remove(0)
    };
    let whole = plain(&base);
    let pieces: Vec<&str> = whole.text.split_inclusive(' ').collect();
    let mut cases: Vec<SamplingParams> =
        (1..12).map(|max_tokens| SamplingParams { max_tokens, ..base.clone() }).collect();
    // Strings that begin and end within tokens, tokens that end the text, and what must not be written.
    for words in pieces.windows(2).step_by(3) {
        let [first, second] = [words[0].trim(), words[1].trim()];
        let string =
            format!("{} {}", &first[first.len().saturating_sub(2)..], &second[..second.len().min(2)]);
        cases.push(SamplingParams { stop: vec![string.clone()], ..base.clone() });
        cases.push(SamplingParams { banned_strings: vec![string], ..base.clone() });
    }
    for token in whole.tokens.iter().step_by(7).map(|sampled| sampled.token) {
        cases.push(SamplingParams { eos_token_id: vec![token], ..base.clone() });
        cases.push(SamplingParams { stop_token_ids: vec![token], min_tokens: 9, ..base.clone() });
    }
    assert!(cases.len() > 40, "{}", cases.len());
    let (mut rewound, mut stopped) = (0, 0);
    for (number, params) in cases.iter().enumerate() {
        for shape in [fixed(1, 5), fixed(2, 3)] {
            let companion = Companion::new(&models.target, &models.target).expect("a drafter");
            let mut generator = Generator::new(&models.target, &models.tokenizer)
                .speculate(companion, shape)
                .expect("a generator");
            generator.add(&prompt, params.clone()).expect("a request");
            let guessing = generator.finish().expect("a text").remove(0);
            let plain = plain(params);
            assert_eq!(
                (&guessing.text, &guessing.tokens, guessing.finish),
                (&plain.text, &plain.tokens, plain.finish),
                "case {number}"
            );
            rewound += usize::from(!params.banned_strings.is_empty() && plain.text != whole.text);
            stopped += usize::from(plain.text.len() < whole.text.len());
            let guessed = generator.guessed().expect("guesses");
            if params.banned_strings.is_empty() {
                let judged: usize = guessed.depths.iter().map(|depth| depth.0).sum();
                let held: usize = guessed.depths.iter().map(|depth| depth.1).sum();
                assert_eq!(held, judged, "the target knows what it draws");
            }
        }
    }
    assert!(rewound > 10 && stopped > 40, "{rewound} {stopped}");
}

/// Several tokens a pass, and a context that ends in the middle of a block.
#[test]
fn the_context_ends_a_text_as_it_does_without_guesses() {
    let (model, tokenizer) = (Parrot::new(24), tokenizer());
    let prompt = tokenizer.encode("abcabcabc").expect("tokens");
    let params =
        SamplingParams { temperature: 0.0, max_tokens: 100, seed: Some(1), ..SamplingParams::default() };
    let mut plain = Generator::new(&model, &tokenizer);
    plain.add(&prompt, params.clone()).expect("a request");
    let plain = plain.finish().expect("a text");
    for depth in [1, 2, 5, 20] {
        let companion = Companion::new(&model, &model).expect("a drafter");
        let mut decoder = SpeculativeDecoder::with(&model, companion, &tokenizer)
            .and_then(|decoder| decoder.params(params.clone()).speculation(fixed(1, depth)))
            .expect("a decoder");
        let text = decoder.generate(&prompt, 100).expect("a text");
        assert_eq!((&text.tokens, text.finish), (&plain[0].tokens, plain[0].finish), "{depth}");
        assert!(decoder.guessed().tokens_a_pass() > 1.0 + depth as f64 / 3.0, "{:?}", decoder.guessed());
    }
}

#[test]
fn decoders_generate_stream_and_take_batches() {
    let models = Models::new();
    let prompts =
        ["Once upon a time", "One day"].map(|prompt| models.tokenizer.encode(prompt).expect("tokens"));
    let params = SamplingParams { seed: Some(3), eos_token_id: vec![0], ..presets::balanced() };
    let plain: Vec<String> = prompts
        .iter()
        .map(|prompt| {
            let mut generator = Generator::new(&models.target, &models.tokenizer);
            generator.add(prompt, SamplingParams { max_tokens: 30, ..params.clone() }).expect("a request");
            generator.finish().expect("a text").remove(0).text
        })
        .collect();
    let decoder = || {
        SpeculativeDecoder::new(&models.target, &models.drafter, &models.tokenizer)
            .expect("a decoder")
            .params(params.clone())
    };
    assert_eq!(decoder().generate(&prompts[0], 30).expect("a text").text, plain[0]);
    let both: Vec<String> = decoder()
        .generate_all(&[&prompts[0], &prompts[1]], 30)
        .expect("texts")
        .into_iter()
        .map(|text| text.text)
        .collect();
    assert_eq!(both, plain);
    let streamed: String = decoder()
        .stream(&prompts[1], 30)
        .expect("a stream")
        .map(|event| event.expect("an event").text)
        .collect();
    assert_eq!(streamed, plain[1]);
    let mut own = SelfSpeculativeDecoder::new(&models.target, 2, &models.tokenizer)
        .expect("a decoder")
        .params(params.clone());
    let text = own.generate(&prompts[0], 30).expect("a text");
    assert_eq!((text.text.as_str(), text.error), (plain[0].as_str(), None));
    assert!(decoder().generate(&[], 30).is_err());
}

/// In the other modes texts are others. A drafter that is the target has the target's law, so rejection and
/// block verification take all it guesses.
#[test]
fn other_modes_take_what_the_target_itself_guesses() {
    let models = Models::new();
    let prompt = models.tokenizer.encode("Once upon a time").expect("tokens");
    let params = SamplingParams { seed: Some(2), ignore_eos: true, ..presets::balanced() };
    for verify in [Verify::Rejection, Verify::Block] {
        let decoder = SpeculativeDecoder::new(&models.target, &models.target, &models.tokenizer);
        let mut decoder = decoder
            .and_then(|decoder| decoder.params(params.clone()).speculation(Speculation::new(verify)))
            .expect("a decoder");
        // The first token comes with the prompt, then five a pass.
        assert_eq!(decoder.generate(&prompt, 41).expect("a text").tokens.len(), 41);
        assert_eq!((decoder.guessed().passes, decoder.guessed().tokens), (8, 40), "{verify}");
    }
    // Greedy rows are those of plain decoding, whatever the mode.
    let greedy = SamplingParams { temperature: 0.0, ignore_eos: true, ..SamplingParams::default() };
    let mut plain = Generator::new(&models.target, &models.tokenizer);
    plain.add(&prompt, SamplingParams { max_tokens: 30, ..greedy.clone() }).expect("a request");
    let plain = plain.finish().expect("a text").remove(0);
    for verify in [Verify::Rejection, Verify::Block] {
        for kind in KINDS {
            let generator = Generator::new(&models.target, &models.tokenizer);
            let mut generator = kind.of(&models, generator, Speculation::new(verify));
            generator.add(&prompt, SamplingParams { max_tokens: 30, ..greedy.clone() }).expect("a request");
            assert_eq!(generator.finish().expect("a text")[0].text, plain.text, "{verify}, {kind:?}");
        }
    }
}

#[test]
fn neither_threads_nor_kernels_change_a_text() {
    let models = Models::new();
    let prompt = models.tokenizer.encode("Once upon a time").expect("tokens");
    let params = SamplingParams { seed: Some(8), ..presets::balanced() };
    let mut texts = Vec::new();
    for (kernel, threads) in [(Kernel::Auto, 1), (Kernel::Auto, 3), (Kernel::Avx2, 2)] {
        // This machine may lack one.
        let Ok(target) = stories::model().expect("a model").on(kernel, threads) else { continue };
        let drafter = stories::drafter().and_then(|model| model.on(kernel, threads)).expect("a model");
        let mut decoder = SpeculativeDecoder::new(&target, &drafter, &models.tokenizer)
            .expect("a decoder")
            .params(params.clone());
        texts.push(decoder.generate(&prompt, 40).expect("a text").tokens);
    }
    assert!(texts.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn what_cannot_guess_says_why() {
    let models = Models::new();
    let message = |error: onedraw_lm::ModelError| error.to_string();
    let parrot = Parrot::new(64);
    assert_eq!(
        Companion::new(&parrot, &models.target).map(|_| ()).map_err(message),
        Err("the drafter has 257 tokens and the target 4096: they must be the same".to_owned())
    );
    for layers in [0, 6, 7] {
        assert_eq!(
            EarlyExit::new(layers, &models.target).map(|_| ()).map_err(message),
            Err(format!("the target has 6 layers, so an early exit is after 1 to 5, not {layers}"))
        );
    }
    assert_eq!(
        EarlyExit::new(1, &parrot).map(|_| ()).map_err(message),
        Err("the target has no layers to leave early from".to_owned())
    );
    assert_eq!(
        Ngram::new(0).map(|_| ()).map_err(message),
        Err("an n-gram has at least one token".to_owned())
    );
    let with = |speculation: Speculation| {
        let generator = Generator::new(&models.target, &models.tokenizer);
        generator.speculate(Ngram::new(2).expect("a drafter"), speculation).map(|_| ()).map_err(message)
    };
    assert_eq!(with(fixed(0, 3)), Err("a tree of guesses is at least one wide and one deep".to_owned()));
    assert_eq!(with(fixed(1, 0)), Err("a tree of guesses is at least one wide and one deep".to_owned()));
    assert_eq!(with(fixed(5, 2)), Err("a tree of guesses is at most 4 wide, not 5".to_owned()));
    let context = models.target.context();
    assert_eq!(
        with(fixed(4, 5)),
        Err(format!("a tree of 4x5 guesses is larger than the model's context of {context}"))
    );
    assert_eq!(
        with(fixed(1, 512)),
        Err("a tree of 1x512 guesses is larger than the model's context of 512".to_owned())
    );
    assert_eq!(
        with(Speculation { width: 2, ..Speculation::new(Verify::Block) }),
        Err("block verification judges a line of guesses, not a tree: its width is 1".to_owned())
    );
    assert_eq!(with(fixed(4, 4)), Ok(()));
}
