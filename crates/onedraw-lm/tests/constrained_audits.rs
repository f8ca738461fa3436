//! Traces and audits of texts under a constraint, and what cannot be written into a trace.

use onedraw::custom::{Change, Custom, View};
use onedraw::verdict::Verdict;
use onedraw::{Constraint, Order, SamplingParams, Stage};
use onedraw_lm::audit::{AuditError, Auditor};
use onedraw_lm::trace::{Lines, NotReplayable, Trace};
use onedraw_lm::{Generator, Tracer};

use crate::constrained::{self, Pattern};
use crate::parrot::{self, Parrot};

/// The trace of a text under a pattern.
fn constrained(pattern: &Pattern, json: &str) -> Trace {
    let (model, tokenizer) = (Parrot::new(200), parrot::tokenizer());
    let mut file = Vec::new();
    let mut generator = Generator::new(&model, &tokenizer).trace(Tracer::new(&mut file, "m", "t"));
    generator.add_constrained(&[65], constrained::params(json), pattern).expect("a request");
    generator.finish().expect("a text");
    drop(generator);
    Lines::new(&file[..]).next().expect("a line").expect("a trace").1
}

#[test]
fn constrained_texts_are_drawn_again() {
    let (model, tokenizer) = (Parrot::new(200), parrot::tokenizer());
    let pattern = Pattern { has_text: true, ..Pattern::new("aa-fixed-0a", true) };
    let audit = |trace: &Trace, pattern: &Pattern| {
        Auditor::new(&model, &tokenizer).audit(trace, Some(pattern.fork()))
    };
    let plain = r#"{"seed": 3, "max_tokens": 20}"#;
    let trace = constrained(&pattern, plain);
    assert_eq!(trace.forced, [2, 3, 4, 5, 6, 7, 8]);
    let audited = audit(&trace, &pattern).expect("an audit");
    assert_eq!((audited.judgement.verdict, audited.equal(), audited.forced), (Verdict::Same, 5, 7));
    // Text is taken back over forced tokens; after that nothing is forced.
    let phrases: Vec<String> = (b'a'..=b't').map(|letter| format!("\"{}-f\"", letter as char)).collect();
    let json = format!(r#"{{"seed": 3, "max_tokens": 20, "banned_strings": [{}]}}"#, phrases.join(","));
    let banned = constrained(&pattern, &json);
    assert!(banned.taken_back.iter().any(|taken| taken.forced == [2, 3]), "{:?}", banned.taken_back);
    assert!(banned.forced.is_empty());
    let audited = audit(&banned, &pattern).expect("an audit");
    assert_eq!((audited.judgement.verdict, audited.left_constraint), (Verdict::Same, None));
    let mut forged = banned.clone();
    forged.taken_back[0].token_ids[0] = u32::from(b'z');
    let error = audit(&forged, &pattern).expect_err("no phrase").to_string();
    assert!(error.ends_with("no banned phrase begins there"), "{error}");
    // A constraint that gives up after a token it allowed has written an honest text.
    let tired = Pattern { gives_up: 10, ..pattern.clone() };
    let short = constrained(&tired, plain);
    assert_eq!(short.error.as_deref(), Some("constraint: it is too much"));
    assert_eq!(audit(&short, &tired).expect("an audit").judgement.verdict, Verdict::Same);
    assert!(audit(&trace, &tired).is_err_and(|error| error.to_string().contains("it is too much")));
    // A token that it forbids.
    let mut forged = trace.clone();
    forged.output_token_ids[0] = 65;
    let audited = audit(&forged, &pattern).expect("an audit");
    assert_eq!((audited.judgement.verdict, audited.left_constraint), (Verdict::Other, Some(0)));
    assert_eq!((audited.judgement.chance, audited.places()), (0.0, vec![0]));
    // With the constraint, and only then.
    let missing = Auditor::new(&model, &tokenizer).audit(&trace, None).expect_err("it has one");
    assert!(matches!(missing, AuditError::Constraint), "{missing}");
}

#[test]
fn what_no_trace_can_hold_is_marked() {
    let pattern = Pattern::new("aa-fixed-0a", true);
    let trace = constrained(&pattern, r#"{"seed": 3, "max_tokens": 20}"#);
    assert_eq!((trace.not_replayable, trace.constraint), (Some(NotReplayable::Constraint), None));

    let (model, tokenizer) = (Parrot::new(200), parrot::tokenizer());
    let own = Custom::edit("own", |_: &View<'_>| Ok(Change::Sparse(Vec::new()))).expect("a good name");
    let order = Order::of([Stage::Custom(own), Stage::TopK, Stage::Temperature]);
    let mut file = Vec::new();
    let mut generator = Generator::new(&model, &tokenizer).trace(Tracer::new(&mut file, "m", "t"));
    let params =
        SamplingParams { order: Some(order), ..constrained::params(r#"{"seed": 1, "max_tokens": 3}"#) };
    generator.add(&[65], params).expect("a request");
    generator.finish().expect("a text");
    drop(generator);
    let trace = Lines::new(&file[..]).next().expect("a line").expect("a trace").1;
    assert_eq!(trace.not_replayable, Some(NotReplayable::Stages));
    let names: Vec<String> =
        trace.params.order.expect("an order").stages().iter().map(|stage| stage.name().to_owned()).collect();
    assert_eq!(names, ["top_k", "temperature"]);
}
