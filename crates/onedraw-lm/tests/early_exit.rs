//! Positions that leave after some layers and are taken on later: the same bits as in one go.

use onedraw_lm::llama::Memory;
use onedraw_lm::{Asks, Known, LanguageModel, Llama, Run, Sequence, Wanted, stories};

const TEXT: [u32; 9] = [0, 310, 522, 299, 17, 453, 1024, 77, 2000];

fn all(exit: Option<usize>, states: &[usize]) -> Asks<'_> {
    Asks { logits: Wanted::All, exit, states, frequent: false }
}

/// Runs tokens through some layers, one by one; their states.
fn leave_early(model: &Llama, sequence: &mut Memory, tokens: &[u32], layers: usize) -> Vec<f32> {
    let mut states = Vec::new();
    let after = [layers];
    for token in tokens.chunks(1) {
        let run = Run { asks: all(Some(layers), &after), ..Run::line(sequence, token) };
        states.extend(model.forward(&mut [run]).expect("a pass").remove(0).states.remove(0));
    }
    states
}

#[test]
fn positions_that_left_early_are_taken_on() {
    let model = stories::model().expect("a model");
    let mut plain = model.start();
    let run = Run { asks: all(None, &[6]), ..Run::line(&mut plain, &TEXT) };
    let expected = model.forward(&mut [run]).expect("a pass").remove(0);
    let (vocabulary, width) = (model.vocabulary(), model.config().width);
    for layers in 1..6 {
        for new in 0..3 {
            let mut sequence = model.start();
            model.forward(&mut [Run::line(&mut sequence, &TEXT[..4])]).expect("a pass");
            let states = leave_early(&model, &mut sequence, &TEXT[4..9 - new], layers);
            let known = Some(Known { layers, states: &states });
            let mut other = model.start();
            let runs = &mut [
                Run::line(&mut other, &TEXT[..5]),
                Run { known, asks: all(None, &[6]), ..Run::line(&mut sequence, &TEXT[4..]) },
            ];
            let answers = model.forward(runs).expect("a pass");
            // What else is in the pass changes nothing.
            assert_eq!(answers[0].logits, expected.logits[4 * vocabulary..5 * vocabulary]);
            assert_eq!(answers[1].logits, expected.logits[4 * vocabulary..], "{layers} layers, {new} new");
            assert_eq!(answers[1].states[0], expected.states[0][4 * width..]);
            // What follows does not see how they came.
            let next =
                |sequence: &mut Memory| model.forward(&mut [Run::line(sequence, &[5])]).expect("a pass");
            assert_eq!(next(&mut sequence), next(&mut plain.clone()));
        }
    }
}

#[test]
fn the_last_rows_can_be_asked_for() {
    let model = stories::model().expect("a model");
    let logits = |wanted: Wanted| {
        let mut sequence = model.start();
        let asks = Asks { logits: wanted, ..Asks::default() };
        model
            .forward(&mut [Run { asks, ..Run::line(&mut sequence, &TEXT) }])
            .expect("a pass")
            .remove(0)
            .logits
    };
    let whole = logits(Wanted::All);
    for rows in 0..=9 {
        assert_eq!(logits(Wanted::Tail(rows)), whole[(9 - rows) * model.vocabulary()..]);
    }
    assert_eq!(logits(Wanted::Tail(50)), whole);
}

#[test]
fn states_must_be_those_of_the_positions() {
    let model = stories::model().expect("a model");
    let mut sequence = model.start();
    model.forward(&mut [Run::line(&mut sequence, &TEXT[..4])]).expect("a pass");
    let states = leave_early(&model, &mut sequence, &TEXT[4..6], 2);
    let other_layers = Known { layers: 3, states: &states };
    let too_few = Known { layers: 2, states: &states[256..] };
    for known in [other_layers, too_few] {
        let run = Run { known: Some(known), ..Run::line(&mut sequence, &TEXT[4..7]) };
        let error = model.forward(&mut [run]).expect_err("wrong states").to_string();
        let words = "states are given that are not those of the 2 positions that left after 2 layers";
        assert!(error.contains(words), "{error}");
    }
    // One token is too few for two positions; a run after them all needs none.
    let known = Some(Known { layers: 2, states: &states });
    assert!(model.forward(&mut [Run { known, ..Run::line(&mut sequence, &TEXT[4..5]) }]).is_err());
    assert!(model.forward(&mut [Run::line(&mut sequence, &TEXT[6..7])]).is_err());
    let asks = Asks { states: &[1], ..Asks::default() };
    let error = model.forward(&mut [Run { known, asks, ..Run::line(&mut sequence, &TEXT[4..7]) }]);
    assert!(error.expect_err("too early").to_string().contains("before layer 2"));
    model.forward(&mut [Run { known, ..Run::line(&mut sequence, &TEXT[4..7]) }]).expect("a pass");
    assert_eq!(sequence.len(), 7);
}
