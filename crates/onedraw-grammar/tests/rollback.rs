//! Tokens that are taken back, and copies that go their own way: a matcher is a function of its grammar and
//! the tokens it holds.

use std::collections::BTreeSet;

use onedraw::Constraint;
use onedraw_grammar::{Grammar, Vocabulary};

use crate::chance::Chance;
use crate::vocabularies::{self, ids};

const SCHEMA: &str = r##"{"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 20},
    "kind": {"enum": ["cat", "catfish", "dog"]},
    "ages": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 120}},
    "more": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}
  }, "required": ["kind"], "additionalProperties": false}"##;

/// After its first letter either way allows the same terminal, but tokens that go beyond that are other ones.
const TWO_WAYS: &str = "start: \"a\" one | \"b\" two\none: LETTER \"e\"\ntwo: LETTER \"a\"\nLETTER: /[hm]/\n";

fn grammars(vocabulary: &Vocabulary) -> Vec<Grammar> {
    vec![
        Grammar::json_schema(vocabulary, SCHEMA).unwrap(),
        Grammar::compact_json_schema(vocabulary, SCHEMA).unwrap(),
        Grammar::regex(vocabulary, "([a-z]{2,9} ){3,8}!").unwrap(),
        Grammar::choices(vocabulary, &["Once upon a time", "Once there was", "On", ""]).unwrap(),
        Grammar::lark(vocabulary, TWO_WAYS).unwrap(),
        Grammar::lark(vocabulary, "start: \"(\" start \")\" | /[a-c]+/\n").unwrap(),
        // llguidance cannot take back tokens of these two.
        Grammar::lark(vocabulary, "start: word word\nword[stop=\".\"]: /[a-z ]*/\n").unwrap(),
        Grammar::lark(vocabulary, "start: word \"!\"\nword[max_tokens=3]: /[a-z ]+/\n").unwrap(),
    ]
}

/// The mask after these tokens, from a new start.
fn anew(grammar: &Grammar, tokens: &[u32]) -> Vec<u32> {
    let mut matcher = grammar.start();
    for &token in tokens {
        matcher.accept(token).unwrap();
    }
    matcher.mask().unwrap().to_vec()
}

fn step(chance: &mut Chance, mask: &[u32]) -> u32 {
    *chance.pick(&ids(mask))
}

#[test]
fn what_is_taken_back_leaves_no_trace() {
    let vocabulary = vocabularies::stories();
    let mut taken_back = 0;
    for (number, grammar) in grammars(&vocabulary).iter().enumerate() {
        for seed in 0..6 {
            let mut chance = Chance::new(100 * number as u64 + seed);
            let mut matcher = grammar.start();
            let mut masks = vec![matcher.mask().unwrap().to_vec()];
            for _ in 0..40 {
                if chance.percent(25) && !matcher.tokens().is_empty() {
                    let count = 1 + chance.below(matcher.tokens().len().min(9));
                    let tail = matcher.tokens()[matcher.tokens().len() - count..].to_vec();
                    let tail_masks = masks.split_off(masks.len() - count);
                    matcher.rollback(count).unwrap();
                    taken_back += count;
                    assert_eq!(matcher.mask().unwrap(), masks.last().unwrap());
                    // Half of the time the same way again, else another.
                    if chance.percent(50) {
                        for (token, mask) in tail.into_iter().zip(tail_masks) {
                            matcher.accept(token).unwrap();
                            assert_eq!(matcher.mask().unwrap(), mask);
                            masks.push(mask);
                        }
                    }
                }
                // Past an end there are only ends.
                if matcher.tokens().last().is_some_and(|&token| vocabulary.is_eos(token)) {
                    assert_eq!(ids(masks.last().unwrap()), [0]);
                    matcher.rollback(1).unwrap();
                    masks.pop();
                    taken_back += 1;
                    continue;
                }
                if chance.percent(20) {
                    matcher.forced().unwrap();
                }
                matcher.accept(step(&mut chance, masks.last().unwrap())).unwrap();
                masks.push(matcher.mask().unwrap().to_vec());
                assert_eq!(
                    *masks.last().unwrap(),
                    anew(grammar, matcher.tokens()),
                    "grammar {number}, seed {seed}"
                );
            }
        }
    }
    assert!(taken_back > 500, "{taken_back}");
}

#[test]
fn another_way_to_the_same_place_has_its_own_mask() {
    let vocabulary = vocabularies::stories();
    let grammar = Grammar::lark(&vocabulary, TWO_WAYS).unwrap();
    let tokenizer = vocabularies::tokenizer();
    let token = |text| tokenizer.id(text).unwrap();
    // Not every pair of letters is a token.
    let tokens = |texts: [&str; 4]| BTreeSet::from_iter(texts.iter().filter_map(|text| tokenizer.id(text)));
    let (one, two) = (tokens(["h", "m", "he", "me"]), tokens(["h", "m", "ha", "ma"]));
    assert_ne!(one, two);
    let mut matcher = grammar.start();
    matcher.accept(token("a")).unwrap();
    assert_eq!(BTreeSet::from_iter(ids(matcher.mask().unwrap())), one);
    matcher.rollback(1).unwrap();
    matcher.accept(token("b")).unwrap();
    assert_eq!(BTreeSet::from_iter(ids(matcher.mask().unwrap())), two);
}

#[test]
fn a_fork_and_its_origin_go_their_own_ways() {
    let vocabulary = vocabularies::stories();
    for (number, grammar) in grammars(&vocabulary).iter().enumerate() {
        let mut chance = Chance::new(number as u64);
        let mut origin = grammar.start();
        for _ in 0..5 {
            let token = step(&mut chance, origin.mask().unwrap());
            origin.accept(token).unwrap();
        }
        let shared = origin.tokens().to_vec();
        let mut fork = origin.fork();
        assert_eq!(fork.mask().unwrap(), origin.mask().unwrap());
        // Each is rolled back beyond the fork, too.
        fork.rollback(2).unwrap();
        let mut fork_tokens = shared[..3].to_vec();
        for _ in 0..12 {
            let token = step(&mut chance, fork.mask().unwrap());
            fork.accept(token).unwrap();
            fork_tokens.push(token);
            let token = step(&mut chance, origin.mask().unwrap());
            origin.accept(token).unwrap();
        }
        assert_eq!(origin.tokens()[..5], shared);
        let tokens = origin.tokens().to_vec();
        assert_eq!(origin.mask().unwrap(), anew(grammar, &tokens));
        assert_eq!(fork.mask().unwrap(), anew(grammar, &fork_tokens));
        assert!(fork.rollback(fork_tokens.len() + 1).is_err());
        fork.rollback(fork_tokens.len()).unwrap();
        assert_eq!(fork.mask().unwrap(), anew(grammar, &[]));
        drop(fork);
        origin.rollback(17).unwrap();
        assert_eq!(origin.mask().unwrap(), anew(grammar, &[]));
    }
}

#[test]
fn forks_work_on_threads_of_their_own() {
    let vocabulary = vocabularies::stories();
    let grammar = Grammar::json_schema(&vocabulary, SCHEMA).unwrap();
    let run = |grammar: &Grammar, seed: u64| {
        let mut chance = Chance::new(seed);
        let mut matcher = grammar.start();
        for _ in 0..60 {
            let token = step(&mut chance, matcher.mask().unwrap());
            matcher.accept(token).unwrap();
        }
        matcher.tokens().to_vec()
    };
    let alone: Vec<Vec<u32>> = (0..4).map(|seed| run(&grammar, seed)).collect();
    let together: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let grammar = &grammar;
                    move || run(grammar, seed)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}
