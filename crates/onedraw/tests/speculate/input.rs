//! A draft that cannot be verified is an error, and what must end a path ends it.

use onedraw::speculate::{Draft, DraftTree, Law, Probabilities, Verify};
use onedraw::{Batch, Constraint, Rewind, Row, RowError, Sampler, SamplingParams, SequenceId, Step};

use super::toy::{Rules, Toy, guessed, speculate};

const SAMPLING: [Verify; 2] = [Verify::Rejection, Verify::Block];

fn batch() -> (Batch, SequenceId) {
    let mut batch = Batch::new();
    let id = batch.add(SamplingParams { seed: Some(1), ..SamplingParams::default() }).expect("parameters");
    (batch, id)
}

fn drawn(pairs: &[(u32, f64)]) -> Law {
    Law::Drawn(Probabilities::new(pairs.iter().copied()).expect("a law"))
}

#[track_caller]
fn refused(draft: &Draft, rows: usize, verify: Verify) -> (RowError, String) {
    let (mut batch, id) = batch();
    let rows = vec![vec![0.0_f32, 1.0, 2.0]; rows];
    let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
    let error = batch.verify(id, draft, &rows, None, verify).expect_err("an error");
    let message = error.to_string();
    (error, message)
}

#[test]
fn bad_drafts_are_errors() {
    let chain = Draft::chain(&[1, 2]);
    for verify in Verify::ALL {
        let (error, message) = refused(&chain, 2, verify);
        assert_eq!(error, RowError::DraftRows { rows: 2, needed: 3 });
        assert_eq!(message, "a draft of 2 tokens needs 3 rows, not 2");
    }
    for verify in SAMPLING {
        let (error, message) = refused(&chain, 3, verify);
        assert_eq!((error.kind(), error), ("draft_without_laws", RowError::DraftWithoutLaws));
        assert!(message.ends_with("the drafter gives none"), "{message}");

        let short = Draft { laws: vec![Law::Given; 2], ..chain.clone() };
        let (error, message) = refused(&short, 3, verify);
        assert_eq!((error.kind(), error), ("draft_laws", RowError::DraftLaws { laws: 2, needed: 3 }));
        assert_eq!(message, "a draft of 2 tokens needs 3 laws, not 2");

        let impossible = Draft { laws: vec![Law::Given, drawn(&[(1, 1.0)]), Law::Given], ..chain.clone() };
        let (error, message) = refused(&impossible, 3, verify);
        assert_eq!(
            (error.kind(), error),
            ("impossible_guess", RowError::ImpossibleGuess { node: 1, token: 2 })
        );
        assert_eq!(message, "node 1 of the draft is token 2, which its law gives no probability");

        let outside = RowError::OutsideVocabulary { field: "draft", token: 3, vocabulary: 3 };
        assert_eq!(refused(&Draft::given(DraftTree::chain(&[1, 3])), 3, verify).0, outside);
        let law = Draft { laws: vec![Law::Given, drawn(&[(2, 0.5), (3, 0.5)]), Law::Given], ..chain.clone() };
        assert_eq!(refused(&law, 3, verify).0, outside);
    }
    let mut tree = DraftTree::chain(&[1]);
    tree.push(None, 2);
    let (error, message) = refused(&Draft::given(tree), 3, Verify::Block);
    assert_eq!((error.kind(), error), ("draft_not_chain", RowError::DraftNotChain));
    assert_eq!(
        message,
        "block verification needs guesses that come one after the other; the draft is a tree"
    );

    let (mut batch, id) = batch();
    batch.remove(id);
    let row = [0.0_f32];
    for verify in Verify::ALL {
        let verdict = batch.verify(id, &Draft::default(), &[Row::from(&row)], None, verify);
        assert_eq!(verdict, Err(RowError::UnknownSequence));
    }
    assert_eq!(batch.guess(&Step::new(id, &row), 1, 0), Err(RowError::UnknownSequence));
}

/// Laws that are not used may be anything, and an empty draft needs no law.
#[test]
fn what_is_not_needed_is_not_asked_for() {
    let (mut batch, id) = batch();
    let row = [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY];
    let rows = [Row::from(&row); 2];
    for verify in Verify::ALL {
        let draft = Draft { laws: vec![Law::Given, drawn(&[(77, 1.0)])], ..Draft::chain(&[1]) };
        let verdict = batch.verify(id, &draft, &rows, None, verify).expect("a verdict");
        assert_eq!((verdict.path.len(), verdict.sampled.len()), (1, 2), "{verify}");
        let verdict = batch.verify(id, &Draft::default(), &rows[..1], None, verify).expect("a verdict");
        assert_eq!((verdict.path.len(), verdict.sampled[0].token), (0, 1), "{verify}");
    }
}

#[test]
fn a_bad_row_counts_where_it_is_reached() {
    let (mut batch, id) = batch();
    let certain = [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY];
    let bad = [0.0, f32::NAN, 0.0];
    let before = batch.save(id);
    for verify in Verify::ALL {
        let draft = Draft::given(DraftTree::chain(&[1, 1]));
        let rows = [Row::from(&certain), Row::from(&bad), Row::from(&certain)];
        let verdict = batch.verify(id, &draft, &rows, None, verify).expect("a verdict");
        assert_eq!((verdict.path.as_slice(), verdict.sampled.len()), (&[0][..], 1), "{verify}");
        assert_eq!(verdict.error, Some(RowError::NanLogit { token: 1 }), "{verify}");
        // The rows below a guess that is not accepted are not read.
        let draft = Draft::given(DraftTree::chain(&[0, 1]));
        let verdict = batch.verify(id, &draft, &rows, None, verify).expect("a verdict");
        assert_eq!((verdict.path.len(), verdict.sampled[0].token, verdict.error), (0, 1, None), "{verify}");
        assert_eq!(batch.save(id), before);
    }
    assert_eq!(batch.guess(&Step::new(id, &bad), 2, 0), Err(RowError::NanLogit { token: 1 }));
}

/// Token 3 forces the next two tokens: the path ends with it, and no draw follows.
#[test]
fn a_path_ends_where_tokens_are_forced() {
    let (mut batch, id) = batch();
    let mut five = vec![f32::NEG_INFINITY; 40];
    five[5] = 0.0;
    let mut rules = Rules::new(40);
    for token in [1, 3] {
        let mut row = vec![f32::NEG_INFINITY; 40];
        row[token] = 0.0;
        // At the second place of the text the rules allow 1 and 3, at the third 5.
        rules.text = vec![0];
        let rows = [Row::from(&row), Row::from(&five)];
        for verify in Verify::ALL {
            let draft = Draft::given(DraftTree::chain(&[token as u32]));
            let verdict = batch.verify(id, &draft, &rows, Some(&mut rules), verify).expect("a verdict");
            let tokens: Vec<u32> = verdict.sampled.iter().map(|sampled| sampled.token).collect();
            let expected: (&[usize], &[u32]) = if token == 3 { (&[], &[3]) } else { (&[0], &[1, 5]) };
            assert_eq!((verdict.path.as_slice(), tokens.as_slice()), expected, "{verify}");
            assert_eq!(rules.text, [0]);
        }
    }
}

/// Every mode leaves the sequence and the rules unchanged (`speculate` checks that), and follows the rules.
#[test]
fn texts_keep_the_rules_in_every_mode() {
    let toy = Toy { seed: 41, vocabulary: 40, sharpness: 1.5 };
    for verify in Verify::ALL {
        let mut batch = Batch::new();
        let params =
            SamplingParams { seed: Some(6), mirostat: 2, mirostat_tau: 3.0, ..SamplingParams::default() };
        let id = batch.add(params).expect("parameters");
        let shape: &[usize] = if verify == Verify::Block { &[1, 1, 1] } else { &[2, 1, 1] };
        let rules = Rules::new(40);
        speculate(&toy, &mut batch, id, Some(rules), 40, verify, |batch, text| {
            guessed(batch, id, &toy, text, shape)
        });
        let mut rules = Rules::new(40);
        for &token in batch.output(id).expect("a text") {
            let forced = rules.forced().expect("tokens");
            let mask = rules.mask().expect("a mask");
            let is_allowed = mask[token as usize / 32] >> (token % 32) & 1 == 1;
            assert!(if forced.is_empty() { is_allowed } else { forced[0] == token }, "{verify}");
            rules.accept(token).expect("a token");
        }
    }
}

#[test]
fn guesses_are_no_more_than_there_are_and_fresh_for_each_draft() {
    let (mut batch, id) = batch();
    let row = [0.0_f32, f32::NEG_INFINITY, 0.0, 0.0];
    let (mut tokens, law) = batch.guess(&Step::new(id, &row), 10, 0).expect("guesses");
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 2, 3]);
    let Law::Drawn(q) = law else { panic!("drawn") };
    assert_eq!(q.tokens(), [0, 2, 3]);
    assert!(q.values().iter().all(|value| (value - 1.0 / 3.0).abs() < 1e-15), "{q:?}");
    assert!(batch.guess(&Step::new(id, &row), 0, 0).expect("guesses").0.is_empty());
    // Twenty positions, each reached by a draft that begins there and by one that began earlier.
    let row = vec![0.0_f32; 1000];
    let (mut here, mut before) = (Vec::new(), Vec::new());
    for length in 1..=20 {
        batch.accept(id, 7);
        let step = Step::new(id, &row);
        here.extend(batch.guess(&step, 1, length).expect("guesses").0);
        before.extend(batch.guess(&step, 1, length - 1).expect("guesses").0);
        assert_eq!(batch.guess(&step, 1, length).expect("guesses").0, here[length - 1..], "the same again");
    }
    assert!(here.iter().zip(&before).filter(|(a, b)| a == b).count() < 3);
    // After text is taken back because of what was drawn, there is fresh noise.
    let rewind = Rewind { length: 19, token: 7, phrase: 0 };
    batch.take_back(id, &rewind);
    let again = batch.guess(&Step::new(id, &row), 1, 19).expect("guesses").0;
    assert_ne!(again[0], here[18]);
}

/// A sampler verifies as a batch does.
#[test]
fn a_sampler_verifies_too() {
    let toy = Toy { seed: 8, vocabulary: 40, sharpness: 1.5 };
    for verify in Verify::ALL {
        let params = SamplingParams {
            seed: Some(4),
            mirostat: 2,
            mirostat_tau: 3.0,
            output_token_ids: vec![7],
            ..SamplingParams::default()
        };
        let mut batch = Batch::new();
        let id = batch.add(params.clone()).expect("parameters");
        let mut sampler = Sampler::new(params).expect("parameters");
        let mut accepted = 0;
        for round in 0..12 {
            let guesses = [round % 40, 3, 9];
            let draft = Draft::given(DraftTree::chain(&guesses));
            let text = batch.output(id).expect("it is there").to_vec();
            let rows = toy.rows(&text, &draft.tree);
            let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
            let before = sampler.save();
            let verdict = sampler.verify(&draft, &rows, None, verify).expect("a verdict");
            assert_eq!(sampler.save(), before, "{verify}");
            assert_eq!(Ok(&verdict), batch.verify(id, &draft, &rows, None, verify).as_ref(), "{verify}");
            for sampled in &verdict.sampled {
                sampler.accept_sampled(sampled);
                batch.accept_sampled(id, sampled);
            }
            accepted += verdict.sampled.len();
            assert_eq!(Some(sampler.save()), batch.save(id));
        }
        assert_eq!(sampler.output().len(), 1 + accepted);
        let error = sampler.verify(&Draft::chain(&[1, 2]), &[Row::from(&[0.0_f32; 40])], None, verify);
        assert_eq!(error, Err(RowError::DraftRows { rows: 1, needed: 3 }));
    }
}
