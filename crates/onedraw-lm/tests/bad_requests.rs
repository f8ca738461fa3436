//! What cannot be answered: an error that says why, and sequences that are as they were.

use std::path::Path;

use onedraw_lm::llama::Memory;
use onedraw_lm::{Asks, LanguageModel, Llama, ModelError, Run, Sequence, Wanted};

const ALL: Asks<'static> = Asks { logits: Wanted::All, exit: None, states: &[], frequent: false };

/// Two layers, a vocabulary of 131, a context of 128.
fn model() -> Llama {
    open("llama-biases")
}

fn open(name: &str) -> Llama {
    Llama::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transformers").join(name)).unwrap()
}

fn append(model: &Llama, sequence: &mut Memory, tokens: &[u32]) -> Vec<f32> {
    model
        .forward(&mut [Run { sequence, tokens, parents: None, known: None, asks: ALL }])
        .unwrap()
        .remove(0)
        .logits
}

#[track_caller]
fn assert_request(result: Result<Vec<onedraw_lm::Answer>, ModelError>, words: &str) {
    match result {
        Err(ModelError::Request(message)) => {
            assert!(message.contains(words), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        other => panic!("{other:?}"),
    }
}

type Wrong<'a> = (&'a [u32], Option<&'a [Option<usize>]>, Asks<'a>, &'a str);

#[test]
fn runs_that_cannot_be() {
    let model = model();
    let long = [1; 128];
    let exit = |exit| Asks { exit: Some(exit), ..ALL };
    let line: Vec<Option<usize>> = (0..127usize).map(|node| node.checked_sub(1)).collect();
    let wrong: [Wrong<'_>; 14] = [
        (&[], None, ALL, "a run has no tokens"),
        (&[], Some(&[]), ALL, "a run has no tokens"),
        (&[3, 131], None, ALL, "token 131 is outside the vocabulary of 131"),
        (&[u32::MAX], None, ALL, "token 4294967295 is outside"),
        (&long[..127], None, ALL, "129 tokens are more than the model's context of 128"),
        (&long[..127], Some(&line), ALL, "129 tokens are more than the model's context of 128"),
        (&[3], Some(&[Some(0)]), ALL, "the parent of token 0 of a tree must come before it"),
        (&[3, 4], Some(&[None, Some(2)]), ALL, "the parent of token 1 of a tree must come before it"),
        (&[3, 4], Some(&[None, Some(usize::MAX)]), ALL, "the parent of token 1"),
        (&[3, 4], Some(&[None]), ALL, "a tree has a parent for every token"),
        (&[3], Some(&[None]), exit(1), "goes through all layers"),
        (&[3], None, exit(3), "there is no layer 3: the model has 2"),
        (&[3], None, Asks { states: &[0, 3], ..ALL }, "there is no layer 3: the model has 2"),
        (
            &[3],
            None,
            Asks { exit: Some(1), states: &[2], ..ALL },
            "states after 2 layers are asked of a run that leaves after 1",
        ),
    ];
    let text = [5, 6, 7, 8];
    let expected = append(&model, &mut model.start(), &text);
    for (tokens, parents, asks, words) in wrong {
        // Alone, and after one that could be answered.
        let (mut first, mut second) = (model.start(), model.start());
        append(&model, &mut first, &text[..2]);
        append(&model, &mut second, &text[..2]);
        assert_request(
            model.forward(&mut [Run { sequence: &mut first, tokens, parents, known: None, asks }]),
            words,
        );
        let good = Run { sequence: &mut second, tokens: &text[2..], parents: None, known: None, asks: ALL };
        let bad = Run { sequence: &mut first, tokens, parents, known: None, asks };
        assert_request(model.forward(&mut [good, bad]), words);
        for mut sequence in [first, second] {
            assert_eq!(sequence.len(), 2, "{words}");
            let found = append(&model, &mut sequence, &text[2..]);
            assert_eq!(found, expected[2 * 131..], "{words}");
        }
    }
}

#[test]
fn the_whole_context_can_be_used() {
    let model = model();
    let mut sequence = model.start();
    assert_eq!(append(&model, &mut sequence, &[1; 128]).len(), 128 * 131);
    assert_request(model.forward(&mut [Run::line(&mut sequence, &[1])]), "129 tokens are more");
    // A tree of many tokens may be shallow.
    sequence.cut(127);
    let run = Run {
        sequence: &mut sequence,
        tokens: &[1, 2, 3],
        parents: Some(&[None; 3]),
        known: None,
        asks: ALL,
    };
    assert_eq!(model.forward(&mut [run]).unwrap()[0].logits.len(), 3 * 131);
    sequence.keep(&[2]).expect("a way");
    assert_eq!(sequence.len(), 128);
}

#[test]
fn a_tree_must_be_kept_first() {
    let model = model();
    let mut sequence = model.start();
    let run = Run {
        sequence: &mut sequence,
        tokens: &[1, 2],
        parents: Some(&[None, None]),
        known: None,
        asks: ALL,
    };
    model.forward(&mut [run]).unwrap();
    for parents in [None, Some(&[None][..])] {
        let run = Run { sequence: &mut sequence, tokens: &[3], parents, known: None, asks: ALL };
        assert_request(model.forward(&mut [run]), "the last run was a tree: say first what to keep of it");
    }
    // A fork has the tree as well.
    let mut fork = sequence.clone();
    assert_request(model.forward(&mut [Run::line(&mut fork, &[3])]), "the last run was a tree");
    // What is no way down the tree is an error, and the tree still waits.
    for (path, words) in
        [(&[7, 1][..], "node 7 does not follow the text"), (&[1, 0], "node 0 does not follow 1")]
    {
        assert!(fork.keep(path).unwrap_err().to_string().contains(words));
        assert_eq!(fork.len(), 0);
    }
    fork.keep(&[1]).expect("a way");
    assert_eq!(fork.len(), 1);
    assert_eq!(append(&model, &mut fork, &[3]), append(&model, &mut model.start(), &[2, 3])[131..]);
    sequence.keep(&[]).expect("a way");
    assert_eq!(append(&model, &mut sequence, &[3]), append(&model, &mut model.start(), &[3]));
}

fn run<'a>(sequence: &'a mut Memory, asks: Asks<'a>) -> Run<'a, Memory> {
    Run { sequence, tokens: &[7], parents: None, known: None, asks }
}

#[test]
fn positions_that_left_early_must_be_cut_first() {
    let model = model();
    let words = "only 2 of 3 positions went through more than 1 layers: cut the others first";
    let mut sequence = model.start();
    append(&model, &mut sequence, &[5, 6]);
    let early = Asks { exit: Some(1), ..ALL };
    model.forward(&mut [run(&mut sequence, early)]).unwrap();
    // Neither keeping nothing nor cutting nothing makes them whole.
    for step in 0..3 {
        match step {
            0 => {}
            1 => sequence.keep(&[]).expect("nothing"),
            _ => sequence.cut(3),
        }
        assert_request(model.forward(&mut [run(&mut sequence, ALL)]), words);
        let tree =
            Run { sequence: &mut sequence, tokens: &[7], parents: Some(&[None]), known: None, asks: ALL };
        assert_request(model.forward(&mut [tree]), words);
    }
    // Leaving earlier still is possible, and then not as late as before.
    model.forward(&mut [run(&mut sequence, Asks { exit: Some(0), ..ALL })]).unwrap();
    let words = "only 2 of 4 positions went through more than 0 layers";
    assert_request(model.forward(&mut [run(&mut sequence, early)]), words);
    sequence.cut(2);
    assert_eq!(
        append(&model, &mut sequence, &[7]),
        append(&model, &mut model.start(), &[5, 6, 7])[2 * 131..]
    );
}

#[test]
fn a_sequence_of_another_model() {
    let (one, other) = (model(), open("qwen3"));
    let mut sequence = other.start();
    append(&other, &mut sequence, &[1, 2, 3]);
    let words = "the sequence was started by a model of another shape";
    assert_request(one.forward(&mut [Run::line(&mut sequence, &[4])]), words);
    assert_request(one.forward(&mut [Run::line(&mut other.start(), &[4])]), words);
}
