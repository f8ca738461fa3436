//! A text is the same bits however it is spread over calls, beside whatever else is in them, on any threads
//! and instruction set.

use onedraw::Kernel;
use onedraw_lm::{Asks, LanguageModel, Llama, Run, Wanted};

use super::folders::{ALL, all, append, ask, assert_same, line, other};

#[test]
fn a_text_in_chunks_is_the_text_at_once() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let whole = line(&model, &text);
        // 16 and 17: the length of a page, and one past it.
        for size in [1, 2, 3, 7, 16, 17, 50] {
            let mut sequence = model.start();
            let chunks: Vec<f32> =
                text.chunks(size).flat_map(|tokens| append(&model, &mut sequence, tokens)).collect();
            assert_same(format!("{} in chunks of {size}", folder.name), &chunks, &whole);
        }
    }
}

#[test]
fn what_is_asked_changes_no_number() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let whole = line(&model, &text);
        let mut sequence = model.start();
        let (silent, rest) = text.split_at(20);
        let nothing = ask(&model, &mut sequence, silent, Asks { logits: Wanted::Nothing, ..Asks::default() });
        assert_eq!((nothing.logits.len(), nothing.states.len()), (0, 0));
        let last = ask(&model, &mut sequence, rest, Asks::default()).logits;
        assert_same(&folder.name, &last, &whole[whole.len() - model.vocabulary()..]);
    }
}

#[test]
fn sequences_of_one_call_know_nothing_of_each_other() {
    for folder in all() {
        let (model, text) = (folder.model(), folder.text());
        let texts =
            [text.clone(), other(&text), text[7..40].to_vec(), text[3..4].to_vec(), text[..23].to_vec()];
        let mut sequences: Vec<_> = texts.iter().map(|_| model.start()).collect();
        let mut found = vec![Vec::new(); texts.len()];
        let mut done = vec![0; texts.len()];
        for round in 0.. {
            let mut runs = Vec::new();
            let mut owners = Vec::new();
            for (i, sequence) in sequences.iter_mut().enumerate() {
                // From one token to thirty, differently for each and in each round.
                let size = 1 + (7 * i + 11 * round + i * round) % 30;
                let end = (done[i] + size).min(texts[i].len());
                if done[i] < end {
                    runs.push(Run {
                        sequence,
                        tokens: &texts[i][done[i]..end],
                        parents: None,
                        known: None,
                        asks: ALL,
                    });
                    owners.push(i);
                    done[i] = end;
                }
            }
            if runs.is_empty() {
                break;
            }
            for (i, answer) in owners.into_iter().zip(model.forward(&mut runs).unwrap()) {
                found[i].extend(answer.logits);
            }
        }
        for (i, text) in texts.iter().enumerate() {
            assert_same(format!("{}, text {i}", folder.name), &found[i], &line(&model, text));
        }
    }
}

#[test]
fn threads_and_kernels_change_no_number() {
    let kernels: Vec<Kernel> = Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()).collect();
    assert!(kernels.contains(&Kernel::Auto) && kernels.contains(&Kernel::Scalar));
    for folder in all() {
        let text = folder.text();
        let on = |kernel, threads| folder.model().on(kernel, threads).unwrap();
        let whole = line(&on(Kernel::Scalar, 1), &text);
        for &kernel in &kernels {
            for threads in [1, 2, 5] {
                let model: Llama = on(kernel, threads);
                let what = format!("{} on {threads} threads by {kernel}", folder.name);
                assert_same(&what, &line(&model, &text), &whole);
                // Few positions: other blocks of products, and too little work for threads.
                let mut sequence = model.start();
                let mut found = append(&model, &mut sequence, &text[..5]);
                found.extend(append(&model, &mut sequence, &text[5..6]));
                assert_same(&what, &found, &whole[..6 * model.vocabulary()]);
            }
        }
    }
}
