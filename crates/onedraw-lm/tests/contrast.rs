//! Models made of two, beside rows that are set off by hand.

use onedraw::contrast::contrasting_layer;
use onedraw::{Contrast, Row, SamplingParams};
use onedraw_lm::contrast::{Contrasted, Dola, Guided};
use onedraw_lm::{Asks, Generator, LanguageModel, Run, Wanted, stories};

/// The rows of every position of a text, read in parts.
fn rows<M: LanguageModel>(model: &M, text: &[u32], part: usize) -> Vec<Vec<f32>> {
    let mut sequence = model.start();
    let mut rows = Vec::new();
    for tokens in text.chunks(part) {
        let asks = Asks { logits: Wanted::All, ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut sequence, tokens) };
        let logits = model.forward(&mut [run]).unwrap().remove(0).logits;
        rows.extend(logits.chunks(model.vocabulary()).map(<[f32]>::to_vec));
    }
    rows
}

fn exit_rows<M: LanguageModel>(model: &M, text: &[u32], layers: usize) -> Vec<Vec<f32>> {
    let mut sequence = model.start();
    let asks = Asks { logits: Wanted::All, exit: Some(layers), ..Asks::default() };
    let run = Run { asks, ..Run::line(&mut sequence, text) };
    let logits = model.forward(&mut [run]).unwrap().remove(0).logits;
    logits.chunks(model.vocabulary()).map(<[f32]>::to_vec).collect()
}

/// As the library sets rows off, but what it drops is 1,000 nats below the least of the others, in the order
/// of the first row.
fn set_off(contrast: &Contrast, rows: &[Vec<f32>], others: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let pair = |(row, other): (&Vec<f32>, &Vec<f32>)| {
        let mut out = Vec::new();
        contrast.apply(row, other, &mut out).unwrap();
        let least = out.iter().copied().filter(|score| score.is_finite()).reduce(f32::min).unwrap();
        let best = row.iter().copied().reduce(f32::max).unwrap();
        let floored = out.iter().zip(row);
        floored
            .map(|(&score, &logit)| if score.is_finite() { score } else { least - 1000.0 + (logit - best) })
            .collect()
    };
    rows.iter().zip(others).map(pair).collect()
}

fn write<M: LanguageModel>(model: &M, prompt: &[u32], json: &str) -> (String, Vec<u32>) {
    let tokenizer = stories::tokenizer().unwrap();
    let mut generator = Generator::new(model, &tokenizer).chunk(4);
    generator.add(prompt, SamplingParams::from_json(json).expect(json)).unwrap();
    let text = generator.finish().unwrap().remove(0);
    (text.text, text.tokens.iter().map(|sampled| sampled.token).collect())
}

const TEXT: &str = "Once upon a time there was a dog who liked to swim";

#[test]
fn an_expert_is_set_off_against_an_amateur() {
    let (expert, amateur, tokenizer) =
        (stories::model().unwrap(), stories::drafter().unwrap(), stories::tokenizer().unwrap());
    let text = tokenizer.encode(TEXT).unwrap();
    let contrast = Contrast::obrien(0.1, 0.5).unwrap();
    let both = Contrasted::new(&expert, &amateur, contrast).unwrap();
    let expected = set_off(&contrast, &rows(&expert, &text, 100), &rows(&amateur, &text, 100));
    for part in [1, 3, 100] {
        assert!(rows(&both, &text, part) == expected, "{part} at a time");
    }
    // Taking back goes to both memories.
    let json = r#"{"seed": 3, "max_tokens": 40, "temperature": 0.8, "banned_strings": [" a", " the"]}"#;
    let (words, tokens) = write(&both, &text, json);
    assert!(!words.contains(" a") && !words.contains(" the"));
    assert_eq!(tokens.len(), 40);
    assert_ne!(write(&expert, &text, json).1, tokens);
    // Beta 0 and every token plausible: the expert alone.
    let plain = Contrasted::new(&expert, &amateur, Contrast::obrien(0.0, 0.0).unwrap()).unwrap();
    assert_eq!(write(&plain, &text, json), write(&expert, &text, json));
    // Alpha 1: greedy.
    let greedy = Contrasted::new(&expert, &amateur, Contrast::obrien(1.0, 3.0).unwrap()).unwrap();
    let warm = r#"{"seed": 3, "max_tokens": 20}"#;
    assert_eq!(write(&greedy, &text, warm), write(&expert, &text, r#"{"temperature": 0, "max_tokens": 20}"#));
}

#[test]
fn a_prompt_is_set_off_against_another() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let text = tokenizer.encode(TEXT).unwrap();
    let (prompt, rest) = text.split_at(6);
    for negative in ["The cat was sad", "A"] {
        let negative = tokenizer.encode(negative).unwrap();
        let contrast = Contrast::guidance(1.8).unwrap();
        let guided = Guided::new(&model, prompt.len(), &negative, contrast).unwrap();
        let own = rows(&model, &text, 100);
        let other = rows(&model, &[&negative[..], rest].concat(), 100);
        // Within the prompt there is nothing to be guided by.
        let mut expected = own[..prompt.len() - 1].to_vec();
        expected.extend(set_off(&contrast, &own[prompt.len() - 1..], &other[negative.len() - 1..]));
        for part in [1, 2, 5, 6, 7, 100] {
            assert_eq!(rows(&guided, &text, part), expected, "{part} at a time");
        }
        let json =
            r#"{"seed": 3, "max_tokens": 30, "temperature": 0.8, "banned_strings": [" a", " the"], "n": 2}"#;
        let (words, _) = write(&guided, prompt, json);
        assert!(!words.contains(" a") && !words.contains(" the"));
        let plain = Guided::new(&model, prompt.len(), &negative, Contrast::guidance(1.0).unwrap()).unwrap();
        assert_eq!(write(&plain, prompt, json), write(&model, prompt, json));
    }
    assert!(Guided::new(&model, 3, &[], Contrast::guidance(2.0).unwrap()).is_err());
}

#[test]
fn the_last_layer_is_set_off_against_an_earlier_one() {
    let (model, tokenizer) = (stories::model().unwrap(), stories::tokenizer().unwrap());
    let text = tokenizer.encode(TEXT).unwrap();
    let contrast = Contrast::dola(0.1).unwrap();
    let dola = Dola::new(&model, &[1, 2, 4], contrast).unwrap();
    let last = rows(&model, &text, 100);
    let early: Vec<Vec<Vec<f32>>> = [1, 2, 4].map(|layer| exit_rows(&model, &text, layer)).to_vec();
    let mut chosen = Vec::new();
    let furthest: Vec<Vec<f32>> = (0..text.len())
        .map(|place| {
            let layers: Vec<Row<'_>> = early.iter().map(|rows| Row::from(&rows[place])).collect();
            let layer = contrasting_layer(Row::from(&last[place]), &layers).unwrap().unwrap();
            chosen.push(layer);
            early[layer][place].clone()
        })
        .collect();
    assert!(chosen.contains(&0), "{chosen:?}");
    let expected = set_off(&contrast, &last, &furthest);
    for part in [1, 4, 100] {
        assert!(rows(&dola, &text, part) == expected, "{part} at a time");
    }
    let (_, tokens) = write(&dola, &text, r#"{"temperature": 0, "max_tokens": 20}"#);
    assert_eq!(tokens.len(), 20);
    // The lower half, where no layers are given.
    assert_eq!(rows(&Dola::new(&model, &[], contrast).unwrap(), &text, 100).len(), text.len());
    assert!(Dola::new(&model, &[6], contrast).is_err() && Dola::new(&model, &[0], contrast).is_err());
}
