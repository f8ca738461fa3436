//! A sequence goes on as if nothing had been, after forks that went elsewhere and after cuts.

use onedraw_lm::llama::Memory;
use onedraw_lm::{LanguageModel, Llama, Sequence};

use super::folders::{all, append, assert_same, line, other};
use crate::checkpoint::Checkpoint;

/// Before, at and after the ends of pages.
const LENGTHS: [usize; 7] = [0, 5, 15, 16, 17, 32, 47];

fn started(model: &Llama, text: &[u32]) -> Memory {
    let mut sequence = model.start();
    if !text.is_empty() {
        append(model, &mut sequence, text);
    }
    sequence
}

#[test]
fn a_fork_goes_its_own_way() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let (elsewhere, whole) = (other(&text), line(&model, &text));
        for length in LENGTHS {
            let what = format!("{} forked at {length}", folder.name);
            let mut sequence = started(&model, &text[..length]);
            let (mut fork, mut late) = (sequence.clone(), sequence.clone());
            // The fork first, so that what it writes would be seen.
            let forked = append(&model, &mut fork, &elsewhere[length..]);
            let own = append(&model, &mut sequence, &text[length..]);
            assert_same(&what, &own, &whole[length * model.vocabulary()..]);
            let path = [&text[..length], &elsewhere[length..]].concat();
            assert_same(&what, &forked, &line(&model, &path)[length * model.vocabulary()..]);
            // And one that slept meanwhile.
            let own = append(&model, &mut late, &text[length..]);
            assert_same(&what, &own, &whole[length * model.vocabulary()..]);
        }
    }
}

#[test]
fn what_was_cut_is_forgotten() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let (elsewhere, whole) = (other(&text), line(&model, &text));
        for length in LENGTHS {
            let what = format!("{} cut to {length}", folder.name);
            let mut sequence = started(&model, &text[..length]);
            append(&model, &mut sequence, &elsewhere[length..]);
            let before = sequence.clone();
            sequence.cut(length);
            assert_eq!((sequence.len(), sequence.is_empty()), (length, length == 0));
            // Beyond the end there is nothing to forget.
            sequence.cut(1000);
            assert_eq!(sequence.len(), length);
            let own = append(&model, &mut sequence, &text[length..]);
            assert_same(&what, &own, &whole[length * model.vocabulary()..]);
            // The fork from before the cut still has what was cut.
            let mut before = before;
            before.cut(text.len() - 1);
            let last = text.len() - 1;
            let path = [&text[..length], &elsewhere[length..]].concat();
            let found = append(&model, &mut before, &elsewhere[last..]);
            assert_same(&what, &found, &line(&model, &path)[last * model.vocabulary()..]);
        }
    }
}

/// Weights that are no numbers are left by some programs in rows of tokens that are never used.
#[test]
fn what_was_no_number_is_forgotten_too() {
    for folder in all().into_iter().filter(|folder| folder.path.join("model.safetensors").exists()) {
        let damaged = tempfile::tempdir().unwrap();
        std::fs::copy(folder.path.join("config.json"), damaged.path().join("config.json")).unwrap();
        let mut checkpoint = Checkpoint::read(&folder.path.join("model.safetensors"));
        let embedding = &checkpoint.header["model.embed_tokens.weight"];
        let start = embedding["data_offsets"][0].as_u64().unwrap() as usize;
        let width = folder.model().config().width;
        let size = if embedding["dtype"] == "F32" { 4 } else { 2 };
        // The row of token 0: all bits set is no number in each of the types.
        checkpoint.data[start..start + width * size].fill(0xff);
        checkpoint.write(&damaged.path().join("model.safetensors"), 0);
        let model = Llama::open(damaged.path()).unwrap();

        let text: Vec<u32> = folder.text().into_iter().map(|token| token.max(1)).collect();
        // Where the head is tied, the logit of token 0 is no number either.
        let known = |logits: Vec<f32>| -> Vec<f32> {
            logits.chunks_exact(131).flat_map(|row| row[1..].to_vec()).collect()
        };
        let whole = known(line(&model, &text));
        for length in [0, 5, 16] {
            let what = format!("{} at {length}", folder.name);
            let mut sequence = started(&model, &text[..length]);
            assert!(append(&model, &mut sequence, &[0; 20])[1].is_nan());
            sequence.cut(length);
            // One by one, so that what was cut is overwritten as late as can be.
            let own: Vec<f32> = text[length..]
                .chunks(1)
                .flat_map(|token| known(append(&model, &mut sequence, token)))
                .collect();
            assert_same(&what, &own, &whole[length * 130..]);
            // Nor does a position see what follows it in the same run.
            let ahead = [&text[..length + 3], &[0]].concat();
            let found = known(line(&model, &ahead));
            assert_same(&what, &found[..(length + 3) * 130], &whole[..(length + 3) * 130]);
        }
    }
}
