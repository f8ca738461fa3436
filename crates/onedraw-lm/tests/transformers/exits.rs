//! States between the layers, and runs that leave after some of them.

use onedraw_lm::{Asks, LanguageModel, Sequence, Wanted};

use super::folders::{ALL, all, append, ask, assert_same, line, other};

#[test]
fn states_headed_are_the_logits() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let layers = model.config().layers;
        let asked: Vec<usize> = (0..=layers).collect();
        let answer = ask(&model, &mut model.start(), &text, Asks { states: &asked, ..ALL });
        assert_same(&folder.name, &answer.logits, &line(&model, &text));
        assert_same(&folder.name, &model.logits(&answer.states[layers]), &answer.logits);
        assert_eq!(answer.states.len(), layers + 1);

        // In the order that was asked for, twice where asked twice, and the same bits in chunks.
        let asked = [layers, 0, layers];
        let mut sequence = model.start();
        let mut chunks = vec![Vec::new(); asked.len()];
        for tokens in text.chunks(7) {
            let asks = Asks { logits: Wanted::Nothing, states: &asked, ..Asks::default() };
            let states = ask(&model, &mut sequence, tokens, asks).states;
            chunks.iter_mut().zip(states).for_each(|(all, some)| all.extend(some));
        }
        for (layer, chunks) in asked.into_iter().zip(chunks) {
            assert_same(format!("{}, layer {layer}", folder.name), &chunks, &answer.states[layer]);
        }

        // A state is a row of its own: normed alone and among others.
        let width = model.config().width;
        let alone = model.normed(&answer.states[1][3 * width..4 * width]);
        assert_same(&folder.name, &alone, &model.normed(&answer.states[1])[3 * width..4 * width]);
    }
}

#[test]
fn layers_change_the_states() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let width = model.config().width;
        let states = ask(&model, &mut model.start(), &text, Asks { states: &[0, 1], ..ALL }).states;
        // Before all layers a token is the same wherever it stands; after one it is not.
        let again = (1..text.len()).find_map(|j| Some((text[..j].iter().position(|t| *t == text[j])?, j)));
        let (i, j) = again.unwrap();
        let state = |layer: usize, position: usize| &states[layer][position * width..(position + 1) * width];
        assert_eq!(state(0, i), state(0, j), "{}", folder.name);
        assert_ne!(state(1, i), state(1, j), "{}", folder.name);
    }
}

#[test]
fn an_exit_gives_the_logits_of_its_layer() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let (vocabulary, layers, whole) = (model.vocabulary(), model.config().layers, line(&model, &text));
        let all_layers: Vec<usize> = (0..=layers).collect();
        let states = ask(&model, &mut model.start(), &text, Asks { states: &all_layers, ..ALL }).states;
        for exit in 0..=layers {
            for length in [0, 9, 16] {
                let what = format!("{} leaving after {exit} layers from {length} on", folder.name);
                let mut sequence = model.start();
                if length > 0 {
                    append(&model, &mut sequence, &text[..length]);
                }
                let asked = &all_layers[..=exit];
                let asks = Asks { exit: Some(exit), states: asked, ..ALL };
                // Token by token, then a chunk: a drafter looks at what it drafted itself.
                let mut found = Vec::new();
                for tokens in text[length..length + 5].chunks(1).chain([&text[length + 5..length + 20]]) {
                    let answer = ask(&model, &mut sequence, tokens, asks);
                    assert_eq!(answer.states.len(), exit + 1, "{what}");
                    assert_same(&what, &model.logits(&answer.states[exit]), &answer.logits);
                    found.extend(answer.logits);
                }
                let expected = model.logits(&states[exit]);
                assert_same(&what, &found, &expected[length * vocabulary..(length + 20) * vocabulary]);

                assert_eq!(sequence.len(), length + 20, "{what}");
                let mut fork = sequence.clone();
                sequence.cut(length);
                let own = append(&model, &mut sequence, &text[length..]);
                assert_same(&what, &own, &whole[length * vocabulary..]);
                // A fork from before the cut is cut alone, and goes elsewhere.
                fork.cut(length);
                let path = [&text[..length], &other(&text)[..10]].concat();
                let own = append(&model, &mut fork, &path[length..]);
                assert_same(&what, &own, &line(&model, &path)[length * vocabulary..]);
            }
        }
    }
}
