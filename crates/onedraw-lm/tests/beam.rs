//! Beam search with the embedded model.

use onedraw::beam::{BeamParams, BeamStyle, Candidate, EarlyStopping, Fate};
use onedraw::{FinishReason, Kernel, SamplingParams};
use onedraw_lm::{
    Answer, Asks, Beams, Found, Generator, LanguageModel, Llama, ModelError, Run, Wanted, stories,
};

fn params(json: &str) -> SamplingParams {
    SamplingParams { eos_token_id: vec![0], ..SamplingParams::from_json(json).expect(json) }
}

fn width(width: usize) -> BeamParams {
    BeamParams { width, ..BeamParams::default() }
}

/// The sum of the logprobs of tokens after a prompt, in f64 from the logits of one pass.
fn logprob(model: &Llama, prompt: &[u32], tokens: &[u32]) -> f64 {
    let text = [prompt, tokens].concat();
    let mut sequence = model.start();
    let asks = Asks { logits: Wanted::All, ..Asks::default() };
    let run = Run { asks, ..Run::line(&mut sequence, &text[..text.len() - 1]) };
    let logits = model.forward(&mut [run]).unwrap().remove(0).logits;
    let rows = logits.chunks(model.vocabulary()).skip(prompt.len() - 1);
    rows.zip(tokens)
        .map(|(row, &token)| {
            let highest = f64::from(row.iter().copied().fold(f32::MIN, f32::max));
            let total: f64 = row.iter().map(|&x| onedraw::math::exp(f64::from(x) - highest)).sum();
            f64::from(row[token as usize]) - highest - onedraw::math::ln(total)
        })
        .sum()
}

#[test]
fn one_beam_is_greedy() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&prompt, params(r#"{"temperature": 0, "max_tokens": 40}"#)).unwrap();
    let greedy = generator.finish().unwrap().remove(0);
    let found =
        Beams::new(&model, &tokenizer).search(&prompt, params(r#"{"max_tokens": 40}"#), width(1)).unwrap();
    assert_eq!((&found[0].text, found.len()), (&greedy.text, 1));
    assert_eq!(found[0].hypothesis.finish.map(|finish| finish.reason()), Some(FinishReason::Length));
}

#[test]
fn scores_are_the_models_and_wider_is_no_worse() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("The dog").unwrap();
    let search = |beams: BeamParams, kernel, threads| {
        let model = stories::model().unwrap().on(kernel, threads).unwrap();
        let n = beams.width;
        let asked = params(&format!(r#"{{"max_tokens": 24, "n": {n}}}"#));
        Beams::new(&model, &tokenizer).kernel(kernel).search(&prompt, asked, beams).unwrap()
    };
    let zero = |width| BeamParams { width, length_penalty: 0.0, ..BeamParams::default() };
    let (narrow, wide) = (search(zero(1), Kernel::Auto, 1), search(zero(8), Kernel::Auto, 1));
    assert!(wide[0].hypothesis.score >= narrow[0].hypothesis.score);
    assert_eq!(wide.len(), 8);
    for found in &wide {
        let expected = logprob(&model, &prompt, &found.hypothesis.tokens);
        assert!((found.hypothesis.logprob - expected).abs() < 1e-5, "{expected}");
        assert_eq!(found.hypothesis.score, found.hypothesis.logprob);
        assert_eq!(found.text, tokenizer.text(&found.hypothesis.tokens));
    }
    for (kernel, threads) in
        [(Kernel::Auto, 2), (Kernel::Avx2, 1)].into_iter().filter(|(kernel, _)| kernel.is_supported())
    {
        assert_eq!(search(zero(8), kernel, threads), wide, "{kernel}, {threads} threads");
    }
    for (style, early_stopping) in
        [(BeamStyle::Vllm, EarlyStopping::Heuristic), (BeamStyle::Gnmt, EarlyStopping::Never)]
    {
        let beams = BeamParams { width: 3, style, early_stopping, ..BeamParams::default() };
        assert_eq!(search(beams, Kernel::Auto, 1).len(), 3);
    }
}

#[test]
fn stops_bans_and_steps() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let mut steps = Vec::new();
    let mut watch = |expansion: &onedraw::beam::Expansion| steps.push(expansion.clone());
    let asked = params(r#"{"max_tokens": 60, "n": 4, "stop": [". "], "banned_strings": ["little", "girl"]}"#);
    let found = Beams::new(&model, &tokenizer).watched(&mut watch).search(&prompt, asked, width(4)).unwrap();
    assert_eq!(found.len(), 4);
    for text in &found {
        assert!(
            !text.text.contains("little") && !text.text.contains("girl") && !text.text.contains(". "),
            "{}",
            text.text
        );
    }
    assert!(
        found
            .iter()
            .any(|text| text.hypothesis.finish.map(|finish| finish.reason()) == Some(FinishReason::Stop))
    );
    // A step looks at twice the width and one EOS id, keeps four, and each of those comes from a beam of the
    // step before.
    assert_eq!(steps[0].branches.len(), 4);
    for pair in steps.windows(2) {
        let kept = pair[1].candidates.iter().filter(|candidate| candidate.fate == Fate::Kept).count();
        assert_eq!(kept, pair[1].branches.len());
        assert!(pair[1].candidates.iter().all(|candidate| candidate.beam < pair[0].branches.len()));
    }
}

#[test]
fn draws_without_replacement_are_reproducible() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let draw = |seed: u64, width| {
        let asked = params(&format!(r#"{{"seed": {seed}, "max_tokens": 12}}"#));
        Beams::new(&model, &tokenizer).draw(&prompt, asked, width).unwrap()
    };
    let (texts, seed) = draw(7, 6);
    assert_eq!((texts.len(), seed), (6, 7));
    assert_eq!(draw(7, 6).0, texts);
    assert_ne!(draw(8, 6).0, texts);
    let mut different: Vec<_> = texts.iter().map(|text| text.hypothesis.tokens.clone()).collect();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 6);
    for text in &texts {
        let expected = logprob(&model, &prompt, &text.hypothesis.tokens);
        assert!((text.hypothesis.logprob - expected).abs() < 1e-5);
        assert!(text.hypothesis.inclusion > 0.0 && text.hypothesis.inclusion < 1.0);
    }
    assert!(texts.windows(2).all(|pair| pair[0].hypothesis.perturbed > pair[1].hypothesis.perturbed));
}

/// The numbers of a search that computed the noise and the score of every token of the vocabulary.
#[test]
fn drawn_texts_keep_their_bits() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("The dog").unwrap();
    let draw = |json: &str, width| {
        let mut steps = Vec::new();
        let mut watch = |expansion: &onedraw::beam::Expansion| steps.push(expansion.clone());
        let beams = Beams::new(&model, &tokenizer).watched(&mut watch);
        let (texts, _) = beams.draw(&prompt, params(json), width).unwrap();
        let texts = texts
            .into_iter()
            .map(|Found { text, hypothesis: drawn }| (text, drawn.logprob, drawn.perturbed, drawn.inclusion));
        (texts.collect::<Vec<_>>(), steps)
    };
    let text = |text: &str, logprob, perturbed, inclusion| (text.to_owned(), logprob, perturbed, inclusion);
    let (texts, steps) = draw(r#"{"seed": 1, "max_tokens": 6}"#, 3);
    assert_eq!(
        texts,
        [
            text(" was walking in the park.", -3.9604623809782047, 2.999427355027659, 0.025996869114709442),
            text(" was hungry. He looked at", -11.82764204953282, 1.5139700710324142, 1.0091446133952964e-5),
            text(" was a white dog. He", -11.547784577624853, -0.31378426467897835, 1.3350368534004176e-5),
        ]
    );
    let candidate = |token, logprob, score, fate| Candidate { beam: 0, token, logprob, score, fate };
    assert_eq!(
        steps[0].candidates,
        [
            candidate(275, -0.3238300027294307, 2.999427355027659, Fate::Kept),
            candidate(352, -4.226539963666931, -1.8856469238198839, Fate::Kept),
            candidate(543, -5.469683999006286, -2.19744434697644, Fate::Kept),
            candidate(363, -2.6138805093212274, -2.7913964239688953, Fate::Dropped),
            candidate(410, -4.915625447217956, -3.184875214543121, Fate::Dropped),
            candidate(84, -10.426610940877929, -3.235842910198391, Fate::Dropped),
        ]
    );
    // Banned texts are no part of the distribution: the highest allowed child gets the score of its parent.
    let (texts, _) =
        draw(r#"{"seed": 3, "max_tokens": 5, "temperature": 1.5, "banned_strings": [" was"]}"#, 2);
    assert_eq!(
        texts,
        [
            text(
                " and the friend tiger were",
                -23.102982021370114,
                1.0002637565030343,
                5.189086399004837e-10
            ),
            text(" smelled it! He wagged", -20.11742728683843, -1.4186645651121184, 1.0273084167944788e-8),
        ]
    );
}

/// A model that runs so many sequences in one pass.
struct InParts<'a>(&'a Llama, usize);

impl LanguageModel for InParts<'_> {
    type Sequence = <Llama as LanguageModel>::Sequence;

    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    fn context(&self) -> usize {
        self.0.context()
    }

    fn start(&self) -> Self::Sequence {
        self.0.start()
    }

    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError> {
        let answers = runs.chunks_mut(self.1).map(|part| self.0.forward(part));
        Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

#[test]
fn batches_and_threads_change_nothing() {
    let tokenizer = stories::tokenizer().unwrap();
    let prompt = tokenizer.encode("Tom saw a big").unwrap();
    let run = |threads, part| {
        let model = stories::model().unwrap().on(Kernel::Auto, threads).unwrap();
        let model = InParts(&model, part);
        let asked = params(r#"{"max_tokens": 16, "n": 5, "seed": 3}"#);
        let found = Beams::new(&model, &tokenizer).search(&prompt, asked.clone(), width(5)).unwrap();
        let (drawn, _) = Beams::new(&model, &tokenizer).draw(&prompt, asked, 5).unwrap();
        (found, drawn)
    };
    let expected = run(1, 5);
    for (threads, part) in [(1, 1), (2, 2), (3, 5)] {
        assert_eq!(run(threads, part), expected, "{threads} threads, {part} in a pass");
    }
}

#[test]
fn what_cannot_be_searched_is_said() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let error = |prompt: &[u32], json: &str, beams| {
        Beams::new(&model, &tokenizer).search(prompt, params(json), beams).err().unwrap().to_string()
    };
    assert_eq!(error(&[], "{}", width(2)), "the prompt has no token");
    assert_eq!(
        error(&[1; 513], "{}", width(2)),
        "the prompt has 513 tokens, more than the model's context of 512"
    );
    assert_eq!(error(&[4096], "{}", width(2)), "token 4096 of the prompt is outside the vocabulary of 4096");
    assert_eq!(error(&[1], "{}", width(0)), "beams: must be in [1, 4096], not 0");
    assert_eq!(error(&[1], "{}", width(5000)), "beams: must be at most the vocabulary (4096), not 5000");
    assert_eq!(error(&[1], r#"{"n": 3}"#, width(2)), "n: must be at most the beams (2), not 3");
    assert!(error(&[1], r#"{"output_token_ids": [3]}"#, width(2)).contains("no output yet"));
    assert!(error(&[1], r#"{"logit_bias": {"5000": 1}}"#, width(2)).contains("5000"));
    // A prompt that fills the context leaves room for one token.
    let last = Beams::new(&model, &tokenizer).search(&[1; 512], params("{}"), width(2)).unwrap();
    assert_eq!(last[0].hypothesis.tokens.len(), 1);
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let prompt = tokenizer.encode("Once upon a time").unwrap();
    let mut steps = 0;
    let mut goes_on = || {
        steps += 1;
        steps <= 3
    };
    let found = Beams::new(&model, &tokenizer)
        .while_told(&mut goes_on)
        .search(&prompt, params(r#"{"max_tokens": 40}"#), width(4))
        .unwrap();
    assert_eq!((found[0].hypothesis.tokens.len(), found[0].hypothesis.finish, steps), (3, None, 4));
}
