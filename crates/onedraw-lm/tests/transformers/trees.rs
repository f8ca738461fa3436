//! Along a tree every token is the same bits as at the end of its path run as a line.

use onedraw_lm::llama::Memory;
use onedraw_lm::{Answer, LanguageModel, Llama, Run, Sequence};

use super::folders::{ALL, all, append, assert_same, line, other};

/// Parents of the tokens of trees.
fn trees() -> Vec<Vec<Option<usize>>> {
    // Two roots, each with children of their own.
    let small = vec![None, None, Some(0), Some(0), Some(1), Some(2), Some(2), Some(4)];
    // Longer than a page, with a leaf at every third token of the trunk.
    let mut deep: Vec<Option<usize>> = Vec::new();
    let mut trunk = None;
    for depth in 0..20 {
        deep.push(trunk);
        trunk = Some(deep.len() - 1);
        if depth % 3 == 1 {
            deep.push(trunk);
        }
    }
    // Wide: every token has four children, as long as there are tokens.
    let wide = (0..21).map(|node: usize| node.checked_sub(1).map(|before| before / 4)).collect();
    vec![vec![None], small, deep, wide]
}

/// The places from the root to this one.
fn path(parents: &[Option<usize>], node: usize) -> Vec<usize> {
    let mut path = vec![node];
    while let Some(parent) = parents[path[path.len() - 1]] {
        path.push(parent);
    }
    path.reverse();
    path
}

fn plant(model: &Llama, sequence: &mut Memory, tokens: &[u32], parents: &[Option<usize>]) -> Answer {
    let run = Run { sequence, tokens, parents: Some(parents), known: None, asks: ALL };
    model.forward(&mut [run]).unwrap().into_iter().next().unwrap()
}

#[test]
fn a_node_is_the_end_of_its_path() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let vocabulary = model.vocabulary();
        for length in [0, 5, 15, 16, 30] {
            for parents in trees() {
                let tokens = &other(&text)[..parents.len()];
                let mut sequence = model.start();
                if length > 0 {
                    append(&model, &mut sequence, &text[..length]);
                }
                let answer = plant(&model, &mut sequence, tokens, &parents);
                assert_eq!(sequence.len(), length, "a tree is not part of the sequence yet");
                for node in 0..parents.len() {
                    let mut own = text[..length].to_vec();
                    own.extend(path(&parents, node).into_iter().map(|node| tokens[node]));
                    let whole = line(&model, &own);
                    assert_same(
                        format!("{} after {length}, node {node} of {parents:?}", folder.name),
                        &answer.logits[node * vocabulary..(node + 1) * vocabulary],
                        &whole[whole.len() - vocabulary..],
                    );
                }
            }
        }
    }
}

#[test]
fn a_kept_path_goes_on_as_a_line() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        for length in [0, 5, 16, 30] {
            for parents in trees() {
                let tokens = &other(&text)[..parents.len()];
                let mut planted = model.start();
                if length > 0 {
                    append(&model, &mut planted, &text[..length]);
                }
                let before = planted.clone();
                plant(&model, &mut planted, tokens, &parents);
                let deepest = path(&parents, parents.len() - 1);
                // All of a path, a part of one, and nothing.
                for kept in [&deepest[..], &deepest[..deepest.len() / 2], &[]] {
                    let what = format!("{} after {length}, {kept:?} of {parents:?}", folder.name);
                    let mut sequence = planted.clone();
                    sequence.keep(kept).expect("a way");
                    assert_eq!(sequence.len(), length + kept.len(), "{what}");
                    let mut own = text[..length].to_vec();
                    own.extend(kept.iter().map(|&node| tokens[node]));
                    own.extend(&text[50..70]);
                    let found = append(&model, &mut sequence, &text[50..70]);
                    let whole = line(&model, &own);
                    assert_same(what, &found, &whole[whole.len() - found.len()..]);
                }
                // A fork from before the tree, and a tree cut away, know nothing of it.
                let mut cut = planted;
                cut.cut(length);
                let own = [&text[..length], &text[50..60]].concat();
                let whole = line(&model, &own);
                for mut sequence in [before, cut] {
                    let found = append(&model, &mut sequence, &text[50..60]);
                    assert_same(&folder.name, &found, &whole[whole.len() - found.len()..]);
                }
            }
        }
    }
}

#[test]
fn trees_lines_and_exits_share_a_call() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let trees = trees();
        let tokens = other(&text);
        let exits = onedraw_lm::Asks { exit: Some(1), ..ALL };
        let alone: Vec<Answer> = (0..4)
            .map(|i| {
                let mut sequence = model.start();
                append(&model, &mut sequence, &text[..9 + i]);
                match i {
                    0 | 2 => plant(&model, &mut sequence, &tokens[..trees[i].len()], &trees[i]),
                    1 => super::folders::ask(&model, &mut sequence, &tokens[..6], exits),
                    _ => super::folders::ask(&model, &mut sequence, &tokens[..19], ALL),
                }
            })
            .collect();
        let mut sequences: Vec<Memory> = (0..4)
            .map(|i| {
                let mut sequence = model.start();
                append(&model, &mut sequence, &text[..9 + i]);
                sequence
            })
            .collect();
        let mut runs: Vec<Run<'_, Memory>> = sequences
            .iter_mut()
            .enumerate()
            .map(|(i, sequence)| match i {
                0 | 2 => Run {
                    sequence,
                    tokens: &tokens[..trees[i].len()],
                    parents: Some(&trees[i]),
                    known: None,
                    asks: ALL,
                },
                1 => Run { sequence, tokens: &tokens[..6], parents: None, known: None, asks: exits },
                _ => Run { sequence, tokens: &tokens[..19], parents: None, known: None, asks: ALL },
            })
            .collect();
        let together = model.forward(&mut runs).unwrap();
        for (i, (together, alone)) in together.iter().zip(&alone).enumerate() {
            assert_same(format!("{}, run {i}", folder.name), &together.logits, &alone.logits);
        }
    }
}
