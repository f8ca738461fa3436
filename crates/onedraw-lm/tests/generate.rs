//! The decode loop, on a model small enough to look through: the logits after a token are noise of the last
//! tokens.

use onedraw::{Finish, FinishReason, Rows, Sampler, SamplingParams};
use onedraw_lm::generate::Texts;
use onedraw_lm::{Asks, Event, GenerateError, Generated, Generator, LanguageModel, Run, Wanted};

use crate::parrot::{Parrot, tokenizer};

fn params(json: &str) -> SamplingParams {
    SamplingParams::from_json(json).expect(json)
}

/// Texts without what differs from batch to batch: their requests.
fn texts(generated: Vec<Generated>) -> Vec<(usize, String, Vec<u32>, Option<FinishReason>)> {
    let tokens = |generated: &Generated| generated.tokens.iter().map(|sampled| sampled.token).collect();
    generated.iter().map(|text| (text.sample, text.text.clone(), tokens(text), text.finish)).collect()
}

fn alone(prompt: &str, json: &str, chunk: usize) -> Vec<(usize, String, Vec<u32>, Option<FinishReason>)> {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer).chunk(chunk);
    let prompt = tokenizer.encode(prompt).expect("a prompt");
    generator.add(&prompt, params(json)).expect(json);
    texts(generator.finish().expect("texts"))
}

const REQUESTS: [(&str, &str); 6] = [
    ("Once upon a time", r#"{"seed": 1, "max_tokens": 30}"#),
    ("a", r#"{"seed": 1, "max_tokens": 7, "n": 3, "temperature": 2}"#),
    ("the quick brown fox", r#"{"seed": 9, "max_tokens": 50, "eos_token_id": 101}"#),
    ("some prompt that is longer than the others", r#"{"seed": 4, "max_tokens": 40, "stop": ["q", "zz"]}"#),
    ("x", r#"{"temperature": 0, "max_tokens": 20, "seed": 0}"#),
    ("banned", r#"{"seed": 3, "max_tokens": 60, "banned_strings": ["a", "b", "th"], "temperature": 3}"#),
];

#[test]
fn a_text_is_the_same_alone_and_in_any_company() {
    let expected: Vec<_> = REQUESTS.iter().map(|(prompt, json)| alone(prompt, json, 1000)).collect();
    for (request, (prompt, json)) in REQUESTS.iter().enumerate() {
        for chunk in [1, 3, 16] {
            assert_eq!(alone(prompt, json, chunk), expected[request], "{json}, {chunk} positions a pass");
        }
    }
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    for first in 0..REQUESTS.len() {
        // Joining one by one, every third pass.
        let mut generator = Generator::new(&model, &tokenizer).chunk(5);
        let mut gathered = Texts::default();
        let mut order = Vec::new();
        let mut waiting = (0..REQUESTS.len()).map(|i| (i + first) % REQUESTS.len());
        for pass in 0.. {
            if pass % 3 == 0
                && let Some(request) = waiting.next()
            {
                let (prompt, json) = REQUESTS[request];
                let prompt = tokenizer.encode(prompt).expect("a prompt");
                order.push((generator.add(&prompt, params(json)).expect(json), request));
            }
            if generator.is_done() && order.len() == REQUESTS.len() {
                break;
            }
            generator.step().expect("a pass").into_iter().for_each(|event| gathered.push(event));
        }
        let gathered = gathered.into_generated();
        for (id, request) in order {
            let own = gathered.iter().filter(|text| text.request == id).cloned().collect();
            assert_eq!(texts(own), expected[request], "{:?}", REQUESTS[request]);
        }
    }
}

#[test]
fn events_add_up_to_the_text() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    for (prompt, json) in REQUESTS {
        let prompt_tokens = tokenizer.encode(prompt).expect("a prompt");
        let stream = Generator::new(&model, &tokenizer).stream(&prompt_tokens, params(json)).expect(json);
        let mut gathered = Texts::default();
        let events: Vec<Event> = stream.map(|event| event.expect("a pass")).collect();
        let samples = events.iter().filter(|event| event.is_last()).count();
        assert_eq!(samples, params(json).n as usize);
        events.into_iter().for_each(|event| gathered.push(event));
        assert_eq!(texts(gathered.into_generated()), alone(prompt, json, 1000));
    }
}

#[test]
fn the_model_reads_what_is_written() {
    // Greedy, by hand: the loop must give the model every token once, in order.
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut line = tokenizer.encode("hello").expect("a prompt");
    let mut expected = Vec::new();
    for _ in 0..12 {
        let row = model.row(&line);
        let best =
            (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).expect("a row") as u32;
        line.push(best);
        expected.push(best);
    }
    let found = alone("hello", r#"{"temperature": 0, "max_tokens": 12}"#, 2);
    assert_eq!(found[0].2, expected);
    assert_eq!(found[0].3, Some(FinishReason::Length));
}

#[test]
fn time_is_counted_where_it_was_spent() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer).chunk(3);
    generator.add(&[1; 10], params(r#"{"seed": 1, "max_tokens": 6, "n": 2}"#)).expect("a request");
    assert_eq!(generator.waiting(), 10);
    generator.finish().expect("texts");
    let timings = generator.timings();
    // The prompt is read once for both; the last token of a text needs no logits after it.
    assert_eq!((timings.prompt_tokens, timings.output_tokens, generator.waiting()), (10, 10, 0));
}

#[test]
fn no_banned_phrase_is_written_and_nothing_shown_is_taken_back() {
    let found = alone(REQUESTS[5].0, REQUESTS[5].1, 8);
    let (_, text, tokens, _) = &found[0];
    assert!(!text.contains('a') && !text.contains('b') && !text.contains("th"), "{text}");
    assert_eq!(tokens.len(), 60);
    // The tokens that are left are those of the text.
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| tokenizer().bytes(token).to_vec()).collect();
    assert_eq!(String::from_utf8_lossy(&bytes), *text);
}

#[test]
fn a_text_ends_where_the_context_does() {
    let (model, tokenizer) = (Parrot::new(20), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer);
    let prompt = tokenizer.encode("0123456789").expect("a prompt");
    assert_eq!(prompt.len(), 10);
    generator.add(&prompt, params(r#"{"seed": 2, "max_tokens": 100}"#)).expect("a request");
    let generated = generator.finish().expect("texts");
    // Eleven: the last is drawn from the last position there is.
    assert_eq!((generated[0].tokens.len(), generated[0].finish), (11, Some(FinishReason::Length)));
    let whole = alone("0123456789", r#"{"seed": 2, "max_tokens": 11}"#, 9);
    assert_eq!(generated[0].text, whole[0].1);
}

#[test]
fn requests_that_cannot_be_answered_spoil_nothing() {
    let (model, tokenizer) = (Parrot::new(20), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer);
    let kept = generator.add(&[1, 2, 3], params(r#"{"seed": 1, "max_tokens": 2}"#)).expect("a request");
    let message =
        |result: Result<_, GenerateError>| result.map(|_: onedraw_lm::RequestId| ()).unwrap_err().to_string();
    assert_eq!(message(generator.add(&[], params("{}"))), "the prompt has no token");
    assert_eq!(
        message(generator.add(&[1; 21], params("{}"))),
        "the prompt has 21 tokens, more than the model's context of 20"
    );
    let vocabulary = model.vocabulary();
    assert_eq!(
        message(generator.add(&[vocabulary as u32], params("{}"))),
        format!("token {vocabulary} of the prompt is outside the vocabulary of {vocabulary}")
    );
    let bias = params(r#"{"logit_bias": {"100000": 1}}"#);
    assert!(message(generator.add(&[1], bias)).contains("100000"));
    let cancelled = generator.add(&[5], params(r#"{"n": 2}"#)).expect("a request");
    let last = generator.cancel(cancelled);
    assert_eq!(
        last.iter().map(|event| (event.sample, event.text.as_str())).collect::<Vec<_>>(),
        [(0, ""), (1, "")]
    );
    assert_eq!(generator.cancel(cancelled), []);
    let generated = generator.finish().expect("texts");
    assert_eq!(generated.len(), 1);
    assert_eq!((generated[0].request, generated[0].tokens.len()), (kept, 2));
}

/// A text that is ended from outside has all that was written of it, what was held back for a stop string
/// too.
#[test]
fn a_cancelled_text_shows_what_was_held_back() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let letters = SamplingParams {
        allowed_token_ids: Some((97..123).collect()),
        ..params(r#"{"seed": 1, "max_tokens": 12}"#)
    };
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&prompt, letters.clone()).expect("a request");
    let written = generator.finish().expect("texts").remove(0).text;
    // The text so far and more: all of it may be the beginning of this.
    let asked = SamplingParams { max_tokens: 30, stop: vec![format!("{written}~~~~")], ..letters };
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&prompt, asked).expect("a request");
    let mut texts = Texts::default();
    for _ in 0..12 {
        for event in generator.step().expect("a pass") {
            assert_eq!(event.text, "");
            texts.push(event);
        }
    }
    let last = generator.cancel_all();
    assert_eq!((last.len(), generator.is_done()), (1, true));
    assert!(last[0].sampled.is_none() && !last[0].is_last());
    last.into_iter().for_each(|event| texts.push(event));
    let text = texts.into_generated().remove(0);
    assert_eq!((text.text, text.tokens.len(), text.finish), (written, 12, None));
}

/// A phrase may be taken back up to the first token. The text is then still one that is being written.
#[test]
fn taking_back_the_first_token_does_not_make_a_prompt() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let json = r#"{"seed": 1, "max_tokens": 12}"#;
    let first = alone("Once upon a time", json, 9)[0].1.chars().next().expect("a letter");
    let asked = SamplingParams { banned_strings: vec![first.to_string()], ..params(json) };
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&prompt, asked).expect("a request");
    let mut taken_back = 0;
    while !generator.is_done() {
        for event in generator.step().expect("a pass") {
            taken_back += event.taken_back;
            assert_eq!(generator.waiting(), 0);
        }
    }
    assert!(taken_back > 0);
    assert_eq!(generator.timings().prompt_tokens, prompt.len());
}

/// At the end of the context, too: the last position is drawn again until nothing is banned.
#[test]
fn a_banned_phrase_can_end_at_the_end_of_the_context() {
    let tokenizer = tokenizer();
    let model = Parrot::new(20);
    let prompt = tokenizer.encode("0123456789").expect("a prompt");
    let plain = |banned: Vec<String>| {
        let mut generator = Generator::new(&model, &tokenizer);
        let asked = SamplingParams { banned_strings: banned, ..params(r#"{"seed": 2, "max_tokens": 100}"#) };
        generator.add(&prompt, asked).expect("a request");
        generator.finish().expect("texts").remove(0)
    };
    let text = plain(Vec::new());
    assert_eq!(text.tokens.len(), 11);
    let last = tokenizer.text(&[text.tokens[10].token]);
    let again = plain(vec![last.clone()]);
    assert_eq!((again.tokens.len(), again.finish), (11, Some(FinishReason::Length)));
    assert!(!again.text.contains(&last), "{}", again.text);
}

/// A stream ends with its request, whatever else is to be written, and a generator can go to another thread.
#[test]
fn a_stream_ends_with_its_request() {
    fn can_move<T: Send>(_: &T) {}
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer);
    can_move(&generator);
    generator.add(&[1, 2], params(r#"{"seed": 1, "max_tokens": 100}"#)).expect("a request");
    let mut stream = generator.stream(&[5], params(r#"{"seed": 1, "max_tokens": 4}"#)).expect("a stream");
    assert_eq!(
        stream.by_ref().map(|event| event.expect("an event").request).collect::<Vec<_>>(),
        [stream.request(); 4]
    );
    assert!(!stream.generator().is_done());
    assert!(stream.generator().timings().output_tokens < 20);
}

#[test]
fn a_row_that_fails_ends_its_text_alone() {
    let (model, tokenizer) = (Parrot::new(50), tokenizer());
    let mut generator = Generator::new(&model, &tokenizer);
    // Only one token may be drawn, and it is banned after the first.
    let stuck = r#"{"allowed_token_ids": [66], "bad_words_ids": [[66, 66]], "max_tokens": 5, "seed": 1}"#;
    let first = generator.add(&[1], params(stuck)).expect("a request");
    let second = generator.add(&[1], params(r#"{"seed": 1, "max_tokens": 5}"#)).expect("a request");
    let generated = generator.finish().expect("texts");
    assert_eq!((generated[0].request, generated[0].tokens.len(), generated[0].finish), (first, 1, None));
    assert!(generated[0].error.is_some());
    assert_eq!((generated[1].request, generated[1].tokens.len()), (second, 5));
    assert_eq!(generated[1].finish, Some(Finish::Length.reason()));
}

/// They come with the first token of each text, in whatever parts the prompt is read, and are those of the
/// sampler.
#[test]
fn a_prompt_has_logprobs_where_they_are_asked_for() {
    let (model, tokenizer) = (Parrot::new(200), tokenizer());
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let asked = params(r#"{"seed": 1, "max_tokens": 3, "n": 2, "prompt_logprobs": 2}"#);
    let mut sequence = model.start();
    let asks = Asks { logits: Wanted::All, ..Asks::default() };
    let mut run = [Run { asks, ..Run::line(&mut sequence, &prompt) }];
    let logits = model.forward(&mut run).expect("logits").remove(0).logits;
    let rows = Rows::new(&logits, prompt.len(), model.vocabulary(), model.vocabulary()).expect("rows");
    let mut sampler = Sampler::new(SamplingParams { prompt_token_ids: prompt.clone(), ..asked.clone() })
        .expect("a sampler");
    let expected = sampler.prompt_logprobs(rows);
    assert_eq!(expected.len(), prompt.len());
    for chunk in [1, 5, 16, 100] {
        let mut generator = Generator::new(&model, &tokenizer).chunk(chunk);
        // One that is being written, and one that asks for nothing, beside it.
        generator.add(&prompt[..2], params(r#"{"seed": 2, "max_tokens": 9}"#)).expect("a request");
        let request = generator.add(&prompt, asked.clone()).expect("a request");
        let found = generator.finish().expect("texts");
        assert_eq!(found.len(), 3);
        for text in found {
            match text.request == request {
                true => {
                    assert_eq!(text.prompt_logprobs.as_deref(), Some(&expected), "{chunk} positions a pass")
                }
                false => assert_eq!(text.prompt_logprobs, None),
            }
        }
        // The texts do not depend on it.
        let json = r#"{"seed": 1, "max_tokens": 3, "n": 2}"#;
        let plain = alone("Once upon a time", json, chunk);
        generator.add(&prompt, asked.clone()).expect("a request");
        assert_eq!(texts(generator.finish().expect("texts")), plain);
    }
}
