//! How texts of a beam search end: by a token, by length, or because the search was stopped.

use onedraw::beam::{BeamParams, BeamSearch, Continuation, Fate, StochasticBeams};
use onedraw::{Finish, Row, SamplingParams};

/// The logits after every text. Token 2 ends a text.
const LOGITS: [f32; 3] = [1.0, 0.0, 0.9];
const END: Finish = Finish::Eos { token: 2 };

fn params(max_tokens: u32, output: &[u32]) -> SamplingParams {
    SamplingParams {
        seed: Some(1),
        eos_token_id: vec![2],
        max_tokens,
        output_token_ids: output.to_vec(),
        ..SamplingParams::default()
    }
}

fn continuation(_: usize, token: u32) -> Continuation {
    if token == 2 { Continuation::Ends(END) } else { Continuation::Goes }
}

fn search(max_tokens: u32, output: &[u32]) -> BeamSearch {
    let two = SamplingParams { n: 2, ..params(max_tokens, output) };
    BeamSearch::new(two, BeamParams { width: 2, ..BeamParams::default() }).expect("a search")
}

fn step(search: &mut BeamSearch) -> Vec<Fate> {
    let rows = vec![Row::from(&LOGITS); search.beams().len()];
    let step = search.step(&rows, &[], continuation).expect("a step");
    step.candidates.iter().map(|candidate| candidate.fate).collect()
}

#[test]
fn a_search_tells_an_end_from_a_cut() {
    let mut search = search(2, &[]);
    assert_eq!(step(&mut search), [Fate::Kept, Fate::Ended, Fate::Kept]);
    assert_eq!(step(&mut search), [Fate::Cut, Fate::Ended, Fate::Dropped, Fate::Dropped]);
    let texts: Vec<_> = search.finish().into_iter().map(|text| (text.tokens, text.finish)).collect();
    assert_eq!(texts, [(vec![0, 0], Some(Finish::Length)), (vec![0, 2], Some(END))]);
}

/// A driver that counts the tokens itself says so by [`Continuation::Ends`].
#[test]
fn a_cut_that_the_driver_reports_is_a_cut() {
    let mut search = search(9, &[]);
    let ends = |_, _| Continuation::Ends(Finish::Length);
    let step = search.step(&[Row::from(&LOGITS)], &[], ends).expect("a step");
    let fates: Vec<Fate> = step.candidates.iter().map(|candidate| candidate.fate).collect();
    assert_eq!(fates, [Fate::Cut, Fate::Cut, Fate::Dropped]);
}

#[test]
fn a_draw_tells_an_end_from_a_cut() {
    let (mut cut, mut ended) = (0, 0);
    for seed in 0..20 {
        let params = SamplingParams { seed: Some(seed), ..params(2, &[]) };
        let mut beams = StochasticBeams::new(params, 3).expect("beams");
        while !beams.is_done() {
            let rows = vec![Row::from(&LOGITS); beams.len()];
            let step = beams.step(&rows, &[], continuation).expect("a step");
            for candidate in step.candidates.iter().filter(|candidate| candidate.fate != Fate::Dropped) {
                let expected = match (candidate.token, beams.is_done()) {
                    (2, _) => Fate::Ended,
                    (_, true) => Fate::Cut,
                    (_, false) => Fate::Kept,
                };
                assert_eq!(candidate.fate, expected, "seed {seed}");
                ended += u32::from(candidate.fate == Fate::Ended);
                cut += u32::from(candidate.fate == Fate::Cut);
            }
        }
        for text in beams.finish() {
            let expected = if text.tokens.last() == Some(&2) { END } else { Finish::Length };
            assert_eq!(text.finish, Some(expected), "seed {seed}");
        }
    }
    // Token 2 ends a text in one of three places.
    assert!(cut > 10 && ended > 10, "{cut} cut, {ended} ended");
}

/// Where the output already has `max_tokens`, there is no step to take, and the text ends by length.
#[test]
fn a_text_without_room_ends_by_length() {
    let search = search(2, &[0, 1]);
    assert!(search.is_done());
    let texts: Vec<_> =
        search.finish().into_iter().map(|text| (text.tokens, text.logprob, text.finish)).collect();
    assert_eq!(texts, [(vec![0, 1], 0.0, Some(Finish::Length))]);
    let beams = StochasticBeams::new(params(2, &[0, 1]), 2).expect("beams");
    assert!(beams.is_done());
    let texts = beams.finish().into_iter().map(|text| (text.tokens, text.inclusion, text.finish));
    assert_eq!(texts.collect::<Vec<_>>(), [(vec![0, 1], 1.0, Some(Finish::Length))]);
}

#[test]
fn a_text_that_is_stopped_early_has_no_reason() {
    let mut search = search(3, &[]);
    step(&mut search);
    let texts: Vec<_> = search.finish().into_iter().map(|text| (text.tokens, text.finish)).collect();
    assert_eq!(texts, [(vec![0], None), (vec![2], Some(END))]);
    let mut beams = StochasticBeams::new(params(3, &[]), 3).expect("beams");
    beams.step(&[Row::from(&LOGITS)], &[], continuation).expect("a step");
    for text in beams.finish() {
        assert_eq!(text.finish, (text.tokens == [2]).then_some(END));
    }
}
