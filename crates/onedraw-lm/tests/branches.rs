//! Texts with given tokens, and what is seen of their passes.

use std::collections::BTreeMap;

use onedraw::{FinishReason, RowError, Sampler, SamplingParams};
use onedraw_lm::generate::Seen;
use onedraw_lm::speculate::{Ngram, Speculation};
use onedraw_lm::trace::{NotReplayable, Trace};
use onedraw_lm::{Event, GenerateError, Generator, Tracer};

use crate::constrained::Pattern;
use crate::parrot::{Parrot, tokenizer};

const PROMPT: [u32; 4] = [84, 104, 101, 32];

fn params(json: &str) -> SamplingParams {
    SamplingParams::from_json(json).expect(json)
}

/// Writes one text, with the tokens that are given for it.
fn events(json: &str, chosen: &[(usize, u32)], guesses: bool) -> (Vec<Event>, Vec<Seen>) {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer).watched();
    if guesses {
        let speculation = Speculation { width: 1, depth: 4, adapts: false, ..Speculation::default() };
        generator = generator.speculate(Ngram::new(2).expect("a drafter"), speculation).expect("a generator");
    }
    let chosen = chosen.iter().copied().collect();
    generator.add_chosen(&PROMPT, params(json), &chosen, None).expect(json);
    let (mut events, mut seen) = (Vec::new(), Vec::new());
    while !generator.is_done() {
        events.extend(generator.step().expect("a pass"));
        seen.extend(generator.take_seen());
    }
    (events, seen)
}

/// The tokens that stay.
fn tokens(events: &[Event]) -> Vec<u32> {
    let mut tokens = Vec::new();
    for event in events {
        tokens.extend(event.sampled.as_ref().map(|sampled| sampled.token));
        tokens.truncate(tokens.len() - event.taken_back);
    }
    tokens
}

#[test]
fn a_text_branches_off_at_a_given_token() {
    for json in [
        r#"{"seed": 1, "max_tokens": 30}"#,
        r#"{"seed": 2, "max_tokens": 30, "temperature": 0.7, "top_p": 0.8, "frequency_penalty": 0.4}"#,
        r#"{"seed": 3, "max_tokens": 30, "temperature": 0}"#,
    ] {
        let (plain, _) = events(json, &[], false);
        let (branch, _) = events(json, &[(7, 120)], false);
        let forced: Vec<usize> = (0..branch.len()).filter(|&place| branch[place].is_forced).collect();
        let (plain, branch) = (tokens(&plain), tokens(&branch));
        assert_eq!((forced, branch.len(), branch[7]), (vec![7], 30, 120), "{json}");
        assert_eq!(plain[..7], branch[..7], "{json}");
        assert_ne!(plain[7..], branch[7..], "{json}");
        // It goes on with the same seed and positions, as a text with this beginning does.
        let mut continued = params(json);
        continued.output_token_ids = branch[..8].to_vec();
        let (model, tokenizer) = (Parrot::new(200), tokenizer());
        let mut generator = Generator::new(&model, &tokenizer);
        generator.add(&PROMPT, continued).expect(json);
        let rest = generator.finish().expect("a text").remove(0).tokens;
        assert_eq!(rest.iter().map(|sampled| sampled.token).collect::<Vec<_>>(), branch[8..], "{json}");
        // A text whose every token is given is that text.
        let all: Vec<(usize, u32)> = branch.iter().copied().enumerate().collect();
        let (again, _) = events(json, &all, false);
        assert!(again.iter().all(|event| event.is_forced));
        assert_eq!(tokens(&again), branch, "{json}");
        assert_eq!(
            again.last().and_then(|event| event.finish).map(|finish| finish.reason()),
            Some(FinishReason::Length)
        );
    }
}

#[test]
fn guesses_change_no_text_with_given_tokens() {
    // A text that repeats itself, so that guesses are accepted.
    let json = r#"{"seed": 5, "max_tokens": 60, "temperature": 0.2}"#;
    let chosen = [(5, 97), (6, 98), (20, 97), (21, 98), (22, 99)];
    let (plain, _) = events(json, &chosen, false);
    let (guessed, seen) = events(json, &chosen, true);
    assert_eq!(tokens(&plain), tokens(&guessed));
    let forced = |events: &[Event]| events.iter().map(|event| event.is_forced).collect::<Vec<_>>();
    assert_eq!(forced(&plain), forced(&guessed));
    let written = tokens(&guessed);
    let mut verified = 0;
    for guesses in
        seen.iter().filter_map(|seen| if let Seen::Guesses(guesses) = seen { Some(guesses) } else { None })
    {
        verified += guesses.tree.len();
        // Those that were accepted are the text, and the first that was not is not.
        for (place, &node) in guesses.path.iter().enumerate() {
            assert_eq!(guesses.tree.tokens()[node], written[guesses.position + place]);
        }
        let after = guesses.position + guesses.path.len();
        if let Some(&token) = guesses.tree.tokens().get(guesses.path.len()) {
            assert_ne!(token, written[after]);
        }
        let range = guesses.position..guesses.position + guesses.tree.len();
        assert!(chosen.iter().all(|(position, _)| !range.contains(position)), "{range:?}");
    }
    assert!(verified > 0);
}

#[test]
fn a_row_that_was_seen_draws_its_token_again() {
    for (json, guesses) in [
        (r#"{"seed": 1, "max_tokens": 40, "temperature": 0.8, "top_k": 20}"#, true),
        (r#"{"seed": 2, "max_tokens": 40, "mirostat": 2, "mirostat_tau": 2}"#, false),
        (r#"{"seed": 3, "max_tokens": 40, "banned_strings": ["a", "b", "th"], "temperature": 3}"#, false),
    ] {
        let (events, seen) = events(json, &[], guesses);
        let rows: Vec<_> =
            seen.iter().filter_map(|seen| if let Seen::Row(row) = seen { Some(row) } else { None }).collect();
        assert_eq!(rows.len(), events.len(), "{json}");
        for (row, event) in rows.iter().zip(&events) {
            let mut sampler = Sampler::load(&row.before).expect("a sampler");
            let drawn = sampler.sample(&row.logits[..]).expect("a token");
            let sampled = event.sampled.as_ref().expect("a token");
            assert_eq!((drawn.token, drawn.position), (sampled.token, sampled.position), "{json}");
            assert_eq!(row.position, sampled.position as usize);
        }
    }
}

#[test]
fn text_that_was_taken_back_is_drawn_and_not_given_again() {
    let json = r#"{"seed": 3, "max_tokens": 20, "banned_strings": ["xyz"]}"#;
    let (events, _) = events(json, &[(4, 120), (5, 121), (6, 122), (9, 65)], false);
    assert_eq!(events.iter().map(|event| event.taken_back).sum::<usize>(), 3);
    let tokens = tokens(&events);
    assert_eq!(tokens.len(), 20);
    assert_ne!(tokens[4], 120);
    assert!(events.iter().skip_while(|event| event.taken_back == 0).skip(1).all(|event| !event.is_forced));
}

#[test]
fn a_given_token_must_fit_the_constraint() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let write = |chosen: &[(usize, u32)]| {
        let mut generator = Generator::new(&model, &tokenizer).watched();
        let asked = crate::constrained::params(r#"{"seed": 1, "max_tokens": 50}"#);
        let chosen: BTreeMap<usize, u32> = chosen.iter().copied().collect();
        let pattern = Pattern::new("NAME: aaa", true);
        generator.add_chosen(&PROMPT, asked, &chosen, Some(&pattern)).expect("a request");
        let text = generator.finish().expect("a text").remove(0);
        let masks = generator
            .take_seen()
            .iter()
            .filter(|seen| matches!(seen, Seen::Row(row) if row.mask.is_some()))
            .count();
        (text.text, text.error, masks)
    };
    let (text, error, masks) = write(&[(7, u32::from(b'q'))]);
    assert_eq!((&text[..6], text.as_bytes()[7], error), ("NAME: ", b'q', None));
    // Three letters and the end; the beginning is forced.
    assert_eq!(masks, 4);
    // One that is forced anyway may be given, another one may not.
    assert_eq!(write(&[(2, u32::from(b'M'))]).1, None);
    let refused = RowError::Constraint { message: "token 88 is not allowed".to_owned() };
    assert_eq!(write(&[(2, u32::from(b'X'))]).1, Some(refused));
}

#[test]
fn a_token_outside_of_the_vocabulary_is_refused_and_a_trace_says_that_tokens_were_given() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut lines = Vec::new();
    let mut generator = Generator::new(&model, &tokenizer).trace(Tracer::new(&mut lines, "m", "t"));
    let wrong = generator.add_chosen(&PROMPT, params("{}"), &[(3, 257)].into(), None);
    let message = "token 257, given for position 3, is outside the vocabulary of 257";
    assert!(matches!(wrong, Err(GenerateError::Model(error)) if error.to_string().contains(message)));
    let asked = params(r#"{"seed": 1, "max_tokens": 5}"#);
    generator.add_chosen(&PROMPT, asked.clone(), &[(3, 65)].into(), None).expect("a request");
    generator.add(&PROMPT, asked).expect("a request");
    generator.finish().expect("texts");
    drop(generator);
    let traces: Vec<Trace> =
        serde_json::Deserializer::from_slice(&lines).into_iter().collect::<Result<_, _>>().expect("traces");
    let reasons: Vec<_> = traces.iter().map(|trace| trace.not_replayable).collect();
    assert_eq!(reasons, [Some(NotReplayable::Given), None]);
}

/// Nobody pays for what nobody watches.
#[test]
fn without_a_watcher_nothing_is_collected() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&PROMPT, params(r#"{"seed": 1, "max_tokens": 5}"#)).expect("a request");
    generator.finish().expect("a text");
    assert!(generator.take_seen().is_empty());
}
