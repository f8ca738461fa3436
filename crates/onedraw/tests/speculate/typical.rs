//! Typical acceptance: p above min(threshold, alpha·exp(−H)).

use onedraw::speculate::{Draft, DraftTree, Typical, Verify};
use onedraw::{Batch, Row, SamplingParams, Step};

fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|&p| onedraw::math::ln(p) as f32).collect()
}

#[test]
fn what_is_likely_enough_stays() {
    // H = 1.03328, exp(−H) = 0.35584.
    let flat = [0.5, 0.29, 0.21];
    // H = 0.15384, exp(−H) = 0.85741.
    let peaked = [0.97, 0.02, 0.01];
    let cases: [(&[f64; 3], f64, f64, [bool; 3]); 6] = [
        (&flat, 0.3, 0.09, [true, true, true]),
        (&flat, 0.3, 1.0, [true, false, false]),
        (&flat, 0.3, 0.7, [true, true, false]),
        (&flat, 0.6, 2.0, [false, false, false]),
        (&peaked, 0.3, 0.09, [true, false, false]),
        (&peaked, 0.015, 0.09, [true, true, false]),
    ];
    let mut batch = Batch::new();
    for (p, threshold, alpha, accepted) in cases {
        for (token, expected) in (0..3).zip(accepted) {
            let id =
                batch.add(SamplingParams { seed: Some(4), ..SamplingParams::default() }).expect("parameters");
            let rows = [logits(p), logits(&[0.2, 0.2, 0.6])];
            let rows = rows.each_ref().map(Row::from);
            let verify = Verify::Typical(Typical { threshold, alpha });
            let verdict = batch.verify(id, &Draft::chain(&[token]), &rows, None, verify).expect("a verdict");
            assert_eq!(!verdict.path.is_empty(), expected, "{p:?} {threshold} {alpha} {token}");
            // The next token is what plain decoding would draw there.
            if expected {
                batch.accept(id, token);
            }
            let drawn = batch.peek(&[Step::new(id, rows[verdict.path.len()])], 0).remove(0).expect("a token");
            assert_eq!(verdict.sampled.last(), Some(&drawn));
        }
    }
}

/// Even senseless bounds accept only tokens that could be drawn.
#[test]
fn what_is_never_drawn_is_never_likely() {
    let mut batch = Batch::new();
    let id = batch.add(SamplingParams { seed: Some(4), ..SamplingParams::default() }).expect("parameters");
    let row = [0.0, f32::NEG_INFINITY, 1.0];
    let rows = [Row::from(&row); 2];
    for bound in [-1.0, f64::NEG_INFINITY, f64::NAN] {
        let verify = Verify::Typical(Typical { threshold: bound, alpha: bound });
        for (token, expected) in [(0, true), (1, false), (2, true), (3, false)] {
            let verdict = batch.verify(id, &Draft::chain(&[token]), &rows, None, verify).expect("a verdict");
            assert_eq!(!verdict.path.is_empty(), expected, "{bound} {token}");
        }
    }
}

#[test]
fn the_longest_way_wins_and_the_first_of_several() {
    let mut tree = DraftTree::new();
    let a = tree.push(None, 0);
    let b = tree.push(None, 1);
    tree.push(Some(a), 2);
    let c = tree.push(Some(b), 0);
    let d = tree.push(Some(b), 1);
    let rows = [
        logits(&[0.45, 0.45, 0.1]),
        // After `a` no guess is likely enough.
        logits(&[0.9, 0.09, 0.01]),
        logits(&[0.4, 0.4, 0.2]),
        logits(&[0.4, 0.4, 0.2]),
        logits(&[0.4, 0.4, 0.2]),
        logits(&[0.4, 0.4, 0.2]),
    ];
    let mut batch = Batch::new();
    let params = SamplingParams { seed: Some(4), frequency_penalty: 0.1, ..SamplingParams::default() };
    let id = batch.add(params).expect("parameters");
    let before = batch.save(id);
    let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
    let draft = Draft { tree: tree.clone(), ..Draft::default() };
    let verify = Verify::Typical(Typical::default());
    let verdict = batch.verify(id, &draft, &rows, None, verify).expect("a verdict");
    assert_eq!((verdict.path.as_slice(), verdict.sampled.len()), (&[b, c][..], 3));
    assert_eq!(batch.save(id), before);
    // The other child is as good but comes later. It wins once the first is removed.
    let masked = logits(&[1e-9, 0.5, 0.5]);
    let rows: Vec<Row<'_>> =
        rows.iter().enumerate().map(|(i, &row)| if i == 2 { Row::from(&masked) } else { row }).collect();
    let verdict = batch.verify(id, &draft, &rows, None, verify).expect("a verdict");
    assert_eq!(verdict.path, [b, d]);
}
