//! Traces and audits: what a generator writes down is enough to draw every token again, and a change is found.

use std::io::{self, Write};
use std::path::Path;

use onedraw::speculate::Verify;
use onedraw::verdict::Verdict;
use onedraw::{FinishReason, KeptMode, PARAMETERS, SamplingParams};
use onedraw_lm::audit::{AuditError, Auditor};
use onedraw_lm::speculate::{Ngram, Speculation};
use onedraw_lm::trace::{Lines, TakenBack, Trace};
use onedraw_lm::{GenerateError, Generator, LanguageModel, Llama, Tokenizer, Tracer, Vocabulary, stories};
use serde_json::Value;

use crate::parrot::{self, Parrot};

fn params(json: &str) -> SamplingParams {
    SamplingParams::from_json(json).expect(json)
}

/// The traces of a generator's requests.
fn traces<M: LanguageModel>(
    model: &M,
    vocabulary: &dyn Vocabulary,
    requests: &[(Vec<u32>, &str)],
    with: impl for<'a> FnOnce(Generator<'a, M>) -> Generator<'a, M>,
) -> Vec<Value> {
    let mut file = Vec::new();
    let mut generator =
        with(Generator::new(model, vocabulary)).trace(Tracer::new(&mut file, "model", "tokens"));
    for (prompt, json) in requests {
        generator.add(prompt, params(json)).expect(json);
    }
    generator.finish().expect("texts");
    generator.flush_trace().expect("a vector takes all lines");
    drop(generator);
    let text = String::from_utf8(file).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/trace.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON")
}

fn read(line: &Value) -> Trace {
    Trace::parse(&line.to_string()).expect("a trace")
}

fn story() -> (Llama, Tokenizer) {
    (stories::model().expect("the model"), stories::tokenizer().expect("its tokenizer"))
}

const REQUESTS: [&str; 9] = [
    r#"{"seed": 1, "max_tokens": 60, "top_p": 0.9, "temperature": 0.8, "kept": "summary", "logprobs": 2}"#,
    r#"{"seed": 2, "max_tokens": 40, "n": 3, "typical_p": 0.9, "kept": "ids"}"#,
    r#"{"temperature": 0, "seed": 3, "max_tokens": 50, "repetition_penalty": 1.3}"#,
    r#"{"seed": 4, "max_tokens": 60, "mirostat": 2, "mirostat_tau": 3.0}"#,
    r#"{"seed": 5, "max_tokens": 60, "temperature": 1.2, "banned_strings": [" a", " the", "."]}"#,
    r#"{"seed": 6, "max_tokens": 40, "output_token_ids": [266, 261], "presence_penalty": 0.5, "min_tokens": 10}"#,
    r#"{"seed": 7, "max_tokens": 0}"#,
    r#"{"seed": 18446744073709551615, "max_tokens": 40, "xtc_probability": 0.5, "dry_multiplier": 0.8, "stop": ["."]}"#,
    r#"{"seed": 9, "max_tokens": 30, "mirostat": 1, "banned_strings": [" was", ","], "logit_bias": {"12": 3.5}}"#,
];

fn requests(tokenizer: &Tokenizer) -> Vec<(Vec<u32>, &'static str)> {
    REQUESTS.map(|json| (tokenizer.encode("Once upon a time").expect("a prompt"), json)).to_vec()
}

#[test]
fn every_text_is_drawn_again() {
    let (model, tokenizer) = story();
    let schema = jsonschema::validator_for(&schema()).expect("a schema");
    let lines = traces(&model, &tokenizer, &requests(&tokenizer), |generator| generator.chunk(7));
    assert_eq!(lines.len(), REQUESTS.len() + 2);
    let (mut taken_back, mut drawn) = (0, 0);
    for line in &lines {
        schema.validate(line).expect("the line keeps to the schema");
        let trace = read(line);
        let audit = Auditor::new(&model, &tokenizer).audit(&trace, None).expect("an audit");
        assert_eq!(audit.equal(), audit.tokens.len(), "{line}");
        assert_eq!(audit.judgement.verdict, Verdict::Same);
        let removed: usize = trace.taken_back.iter().map(|taken| taken.token_ids.len()).sum();
        assert_eq!(audit.tokens.len(), trace.output_token_ids.len() + removed);
        (taken_back, drawn) = (taken_back + removed, drawn + audit.tokens.len());
        assert_eq!(trace.kept.is_some(), trace.params.kept != KeptMode::None);
        for (kept, &token) in trace.kept.iter().flatten().zip(&trace.output_token_ids) {
            let ids = kept.as_ref().expect("it was drawn").ids.as_ref();
            assert!(ids.is_none_or(|ids| ids.binary_search(&token).is_ok()));
        }
    }
    assert!(taken_back > 20 && drawn > 300, "{taken_back} of {drawn} tokens were taken back");
    let reasons: Vec<&Value> = lines.iter().map(|line| &line["finish_reason"]).collect();
    assert!(
        reasons.iter().any(|reason| *reason == "stop") && reasons.iter().any(|reason| *reason == "length")
    );
}

#[test]
fn the_schema_knows_every_parameter() {
    let schema = schema();
    let known: Vec<&String> =
        schema["properties"]["params"]["properties"].as_object().expect("parameters").keys().collect();
    let names: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.name).collect();
    assert_eq!(known.len(), names.len());
    assert!(names.iter().all(|name| known.iter().any(|known| known == name)));
    // Every line has every parameter.
    let (model, tokenizer) = story();
    let lines = traces(&model, &tokenizer, &requests(&tokenizer)[..1], |generator| generator);
    assert_eq!(lines[0]["params"].as_object().expect("parameters").len(), names.len());
}

#[test]
fn guesses_do_not_change_a_trace_unless_they_decide() {
    let (model, tokenizer) = story();
    let requests = requests(&tokenizer);
    let plain = traces(&model, &tokenizer, &requests[..1], |generator| generator);
    let guessing = |verify: Verify| {
        traces(&model, &tokenizer, &requests[..1], |generator| {
            generator
                .speculate(Ngram::new(3).expect("a length"), Speculation::new(verify))
                .expect("a drafter")
        })
    };
    assert_eq!(guessing(Verify::Exact), plain);
    for verify in [Verify::Rejection, Verify::Block] {
        let line = guessing(verify).remove(0);
        assert_eq!(line["not_replayable"], verify.name());
        let error =
            Auditor::new(&model, &tokenizer).audit(&read(&line), None).expect_err("nothing can be said");
        assert_eq!(error.to_string(), format!("the text cannot be drawn again: {verify}"));
    }
}

#[test]
fn a_change_is_found() {
    let (model, tokenizer) = story();
    let json = r#"{"seed": 1, "max_tokens": 150, "min_tokens": 150, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "eos_token_id": 0}"#;
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let line = traces(&model, &tokenizer, &[(prompt, json)], |generator| generator).remove(0);
    let audit = |trace: &Trace| Auditor::new(&model, &tokenizer).audit(trace, None);
    let with = |change: fn(&mut Trace)| {
        let mut trace = read(&line);
        change(&mut trace);
        audit(&trace).expect("an audit")
    };
    assert_eq!(with(|_| {}).judgement.verdict, Verdict::Same);
    // Another parameter: which one, and where.
    let hot = with(|trace| trace.params.temperature = 1.0);
    assert_eq!(hot.judgement.verdict, Verdict::Other);
    assert!(!hot.places().is_empty() && hot.places().iter().all(|&place| place < 150));
    let diagnosis = hot.diagnosis.expect("one parameter explains it");
    assert_eq!((diagnosis.parameter, diagnosis.value, diagnosis.equal), ("temperature", 0.7, 150));
    let wide = with(|trace| (trace.params.top_p, trace.params.top_k) = (1.0, 0));
    assert_eq!(wide.judgement.verdict, Verdict::Other);
    // Another seed: hardly a token is right, and no parameter explains it.
    let other = with(|trace| trace.params.seed = Some(2));
    assert_eq!((other.judgement.verdict, &other.diagnosis), (Verdict::Other, &None));
    assert!(other.equal() < 140, "{}", other.equal());
    // One token that nobody would draw.
    let planted = with(|trace| trace.output_token_ids[70] = 4000);
    assert!(planted.judgement.verdict == Verdict::Other && planted.is_far);
    assert!(planted.places().contains(&70));
    let checked = &planted.tokens[70];
    assert!(!checked.audit.is_kept && checked.audit.outside > 1.0, "{checked:?}");
    // What cannot be a text of this model.
    let mut bad = read(&line);
    bad.output_token_ids[3] = 4096;
    let error = audit(&bad).expect_err("no token");
    assert_eq!(error.to_string(), "token 4096 is outside the vocabulary of 4096");
    let mut long = read(&line);
    long.output_token_ids = vec![5; 600];
    let error = audit(&long).expect_err("too long");
    assert!(matches!(error, AuditError::TooLong { context: 512, .. }), "{error}");
    let mut bad = read(&line);
    bad.forced = vec![3];
    let error = audit(&bad).expect_err("nothing forces it").to_string();
    assert_eq!(error, "tokens are marked as forced, and there is no constraint that forces them");
    let mut bad = read(&line);
    (bad.sequence, bad.params.n) = (3, 2);
    assert_eq!(
        audit(&bad).expect_err("no sequence").to_string(),
        "`params`: sequence: must be below n (2), not 3"
    );
}

/// Rewinds and the end of a text follow from its tokens, so a trace cannot invent them.
#[test]
fn a_text_goes_back_and_ends_where_it_must() {
    let (model, tokenizer) = story();
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let banned = r#"{"seed": 5, "max_tokens": 60, "temperature": 1.2, "banned_strings": [" a", " the"]}"#;
    let plain = r#"{"seed": 5, "max_tokens": 30, "stop": ["."]}"#;
    let requests = [(prompt.clone(), banned), (prompt, plain)];
    let mut lines = traces(&model, &tokenizer, &requests, |generator| generator);
    lines.sort_by_key(|line| line["taken_back"].is_null());
    let with = |line: usize, change: &dyn Fn(&mut Trace)| {
        let mut trace = read(&lines[line]);
        change(&mut trace);
        Auditor::new(&model, &tokenizer).audit(&trace, None).map(|audit| audit.judgement.verdict)
    };
    let wrong = |line: usize, change: &dyn Fn(&mut Trace)| {
        with(line, change).expect_err("the trace contradicts itself").to_string()
    };
    let taken = read(&lines[0]).taken_back;
    assert!(taken.len() > 3, "{taken:?}");
    assert_eq!((with(0, &|_| {}).ok(), with(1, &|_| {}).ok()), (Some(Verdict::Same), Some(Verdict::Same)));
    // A token that was not liked is said to have been taken back.
    let forged = |trace: &mut Trace| {
        let place = trace.output_token_ids.len() - 2;
        let token_ids = trace.output_token_ids[place..].to_vec();
        trace.taken_back.push(TakenBack { place, token_ids, forced: Vec::new() });
    };
    let error = wrong(0, &forged);
    assert!(
        error.ends_with("and no banned phrase begins there") || error.contains("follows the end"),
        "{error}"
    );
    assert!(wrong(1, &forged).starts_with("text was taken back to output token "));
    // One that was taken back is left out: the phrase stands in the text.
    let kept = |trace: &mut Trace| {
        let last = trace.taken_back.pop().expect("one was taken back");
        trace.output_token_ids.splice(last.place..last.place, last.token_ids);
    };
    assert!(wrong(0, &kept).ends_with("ends with a banned phrase"), "{}", wrong(0, &kept));
    // Forced tokens after text was taken back, where nothing is forced.
    let forced = |trace: &mut Trace| trace.forced = vec![trace.output_token_ids.len() - 1];
    assert!(wrong(0, &forced).starts_with("tokens are marked as forced after text was taken back"));
    // Tokens after the end, another reason, and an end that is none.
    let length = read(&lines[1]).output_token_ids.len();
    let longer = |trace: &mut Trace| trace.output_token_ids.push(5);
    assert_eq!(wrong(1, &longer), format!("output token {length} follows the end of the text"));
    let other = |trace: &mut Trace| trace.finish_reason = Some(FinishReason::Length);
    assert_eq!(wrong(1, &other), "`finish_reason` is `length`, and the text ends by `stop`");
    let shorter = |trace: &mut Trace| trace.output_token_ids.truncate(3);
    assert_eq!(wrong(1, &shorter), "`finish_reason` is `stop`, and the text ends by nothing");
    let cancelled = |trace: &mut Trace| {
        shorter(trace);
        trace.finish_reason = None;
    };
    assert_eq!(with(1, &cancelled).ok(), Some(Verdict::Same));
}

/// No arithmetic draws a token that a mask forbids, so one is enough, in a text of any length.
#[test]
fn a_forbidden_token_is_something_else() {
    let (model, tokenizer) = story();
    let prompt = tokenizer.encode("Once upon a time").expect("a prompt");
    let json = r#"{"seed": 1, "max_tokens": 200, "min_tokens": 200, "ignore_eos": true}"#;
    let line = traces(&model, &tokenizer, &[(prompt, json)], |generator| generator).remove(0);
    let mut trace = read(&line);
    trace.params.bad_words_ids = vec![vec![trace.output_token_ids[100]]];
    let audit = Auditor::new(&model, &tokenizer).audit(&trace, None).expect("an audit");
    assert_eq!((audit.judgement.verdict, audit.judgement.chance), (Verdict::Other, 0.0));
    assert!(audit.places().contains(&100), "{:?}", audit.places());
}

#[test]
fn a_line_that_was_cut_is_ended_before_the_next() {
    let (model, tokenizer) = (Parrot::new(200), parrot::tokenizer());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.jsonl");
    std::fs::write(&path, "{\"version\":1,\"par").expect("a file");
    let prompt = tokenizer.encode("a").expect("a prompt");
    for _ in 0..2 {
        let tracer = Tracer::append(&path, "m", "t").expect("the file");
        let mut generator = Generator::new(&model, &tokenizer).trace(tracer);
        generator.add(&prompt, params(r#"{"seed": 1, "max_tokens": 3}"#)).expect("a request");
        generator.finish().expect("a text");
    }
    let text = std::fs::read(&path).expect("the file");
    let lines: Vec<_> = Lines::new(&text[..]).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].as_ref().is_err_and(|error| error.line == 1));
    assert!(
        lines[1..].iter().all(|line| line.as_ref().is_ok_and(|(_, trace)| trace.output_token_ids.len() == 3))
    );
}

#[test]
fn cancelled_texts_and_full_disks_are_told() {
    /// Takes so many bytes.
    struct Disk(usize);
    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (model, tokenizer) = (Parrot::new(200), parrot::tokenizer());
    let prompt = tokenizer.encode("a").expect("a prompt");
    let mut file = Vec::new();
    let mut generator = Generator::new(&model, &tokenizer).trace(Tracer::new(&mut file, "m", "t"));
    let request =
        generator.add(&prompt, params(r#"{"seed": 1, "n": 2, "max_tokens": 9}"#)).expect("a request");
    for _ in 0..3 {
        generator.step().expect("a pass");
    }
    generator.cancel(request);
    drop(generator);
    let lines: Vec<Trace> = Lines::new(&file[..]).map(|line| line.expect("a trace").1).collect();
    assert_eq!(lines.len(), 2);
    for (sequence, trace) in lines.iter().enumerate() {
        assert_eq!((trace.sequence as usize, trace.finish_reason), (sequence, None));
        let audit = Auditor::new(&model, &tokenizer).audit(trace, None).expect("an audit");
        assert_eq!((audit.equal(), audit.tokens.len()), (3, 3));
    }

    let mut generator = Generator::new(&model, &tokenizer).trace(Tracer::new(Disk(2000), "m", "t"));
    generator.add(&prompt, params(r#"{"seed": 1, "max_tokens": 2}"#)).expect("a request");
    assert!(generator.finish().is_ok());
    generator.add(&prompt, params(r#"{"seed": 1, "max_tokens": 2}"#)).expect("a request");
    let error = generator.finish().expect_err("the disk is full");
    assert!(matches!(error, GenerateError::Trace(_)), "{error}");
}

#[test]
fn a_model_is_named_by_its_tensors() {
    let (model, tokenizer) = story();
    // The file has one order of tensors, the hash another; so has every division into files.
    assert_eq!(model.sha256().len(), 64);
    assert_eq!(model.sha256(), stories::model().expect("the model").sha256());
    assert_ne!(model.sha256(), stories::drafter().expect("the drafter").sha256());
    assert_eq!(tokenizer.sha256(), stories::tokenizer().expect("the tokenizer").sha256());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transformers");
    let open = |name: &str| Llama::open(&folder.join(name)).expect(name).sha256().to_owned();
    assert_ne!(open("qwen2"), open("qwen3"));
}
