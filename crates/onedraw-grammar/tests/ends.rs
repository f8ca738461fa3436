//! Tokens that end a text, and tokens that are no text.

use onedraw::Constraint;
use onedraw_grammar::{Grammar, GrammarError, Vocabulary};

use crate::chance::Chance;
use crate::vocabularies::{self, ids};

/// Two ends (3 and 40), two special tokens with bytes (0 and 41), and text. 43 tokens, so that the last word
/// has bits to spare.
fn vocabulary() -> Vocabulary {
    let mut tokens: Vec<Vec<u8>> = (b'A'..=b'i').map(|byte| vec![byte]).collect();
    tokens.extend([b"ab".to_vec(), b"abc".to_vec()]);
    assert_eq!(tokens.len(), 43);
    Vocabulary::builder(tokens).special([0, 41]).eos([40, 3, 40]).build().unwrap()
}

#[test]
fn every_end_is_allowed_where_the_text_may_end_and_nowhere_else() {
    let vocabulary = vocabulary();
    assert_eq!(vocabulary.eos(), [3, 40]);
    let [b, c, end_d, end_i, abc] = [1, 2, 3, 40, 42];
    let grammar = Grammar::regex(&vocabulary, "B(C|abc)?").unwrap();
    let mut matcher = grammar.start();
    assert_eq!(ids(matcher.mask().unwrap()), [b]);
    assert!(matcher.accept(end_d).is_err());
    matcher.accept(b).unwrap();
    let a = 32;
    // 41 is "ab", but special.
    assert_eq!(ids(matcher.mask().unwrap()), [c, end_d, a, end_i, abc]);
    for end in [end_d, end_i] {
        let mut ended = matcher.fork();
        ended.accept(end).unwrap();
        assert_eq!(ids(ended.mask().unwrap()), [end_d, end_i]);
        assert!(ended.forced().unwrap().is_empty());
        assert!(ended.accept(c).unwrap_err().to_string().contains("the text has ended"));
        // Whoever ignores ends can go on ending.
        ended.accept(end_i).unwrap();
        ended.rollback(2).unwrap();
        assert_eq!(ids(ended.mask().unwrap()), [c, end_d, a, end_i, abc]);
    }
    matcher.accept(abc).unwrap();
    // Complete: ends and nothing else, and which of them is a choice.
    assert_eq!(ids(matcher.mask().unwrap()), [end_d, end_i]);
    assert!(matcher.forced().unwrap().is_empty());
    assert!(matcher.accept(c).is_err());
    matcher.rollback(1).unwrap();
    matcher.accept(a).unwrap();
    assert_eq!(ids(matcher.mask().unwrap()), [33]);
}

#[test]
fn the_only_end_is_forced_once_nothing_else_is_left() {
    let (vocabulary, tokens) = vocabularies::plain();
    let grammar = Grammar::choices(&vocabulary, &["no"]).unwrap();
    let mut matcher = grammar.start();
    assert!(matcher.forced().unwrap().is_empty());
    let no = tokens.iter().position(|bytes| bytes == b"no").unwrap() as u32;
    matcher.accept(no).unwrap();
    assert_eq!(matcher.forced().unwrap(), [0]);
    matcher.accept(0).unwrap();
    assert!(matcher.forced().unwrap().is_empty());
    assert_eq!(ids(matcher.mask().unwrap()), [0]);
}

#[test]
fn special_tokens_are_never_allowed() {
    let vocabulary = vocabulary();
    let grammars = [
        Grammar::regex(&vocabulary, ".*").unwrap(),
        Grammar::regex(&vocabulary, "[A-Za-z]{3,}").unwrap(),
        Grammar::lark(&vocabulary, "start: <[*]>*\n").unwrap(),
        Grammar::lark(&vocabulary, "start: (\"A\" | \"B\" | <[0-2]> | <[39-42]>)+ \"Z\"\n").unwrap(),
    ];
    let mut seen = 0;
    for (seed, grammar) in grammars.iter().enumerate() {
        let mut chance = Chance::new(seed as u64);
        let mut matcher = grammar.start();
        for _ in 0..30 {
            let mask = ids(matcher.mask().unwrap());
            assert!(!mask.contains(&0) && !mask.contains(&41), "{mask:?}");
            assert!(mask.iter().all(|&token| token < 43));
            assert_eq!(mask.contains(&3), matcher.may_end().unwrap());
            assert_eq!(mask.contains(&3), mask.contains(&40));
            for token in [0, 41, 43, u32::MAX] {
                assert!(matcher.accept(token).is_err());
            }
            let on: Vec<u32> = mask.into_iter().filter(|&token| !vocabulary.is_eos(token)).collect();
            if on.is_empty() {
                break;
            }
            matcher.accept(*chance.pick(&on)).unwrap();
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn a_grammar_of_special_tokens_alone_is_an_error() {
    let vocabulary = vocabulary();
    let error = Grammar::lark(&vocabulary, "start: <[41]> \"A\"\n").err().unwrap();
    assert!(
        matches!(&error, GrammarError::Unsatisfiable(message) if message.contains("special tokens")),
        "{error:?}"
    );
    let error = Grammar::lark(&vocabulary, "start: <|tool|> \"A\"\n").err().unwrap();
    assert!(error.to_string().contains("special tokens"), "{error:?}");
    // Written out, it is only text.
    let stories = vocabularies::stories();
    let grammar = Grammar::choices(&stories, &["<|endoftext|>!"]).unwrap();
    let mut matcher = grammar.start();
    let mut text: Vec<u8> = Vec::new();
    while !matcher.may_end().unwrap() {
        let token = ids(matcher.mask().unwrap())[0];
        assert_ne!(token, 0);
        matcher.accept(token).unwrap();
        text.extend(stories.bytes(token));
    }
    assert_eq!(text, b"<|endoftext|>!");
}

#[test]
fn vocabularies_that_cannot_be() {
    let message = |builder: onedraw_grammar::VocabularyBuilder| match builder.build() {
        Err(GrammarError::Vocabulary(message)) => message,
        other => panic!("{:?}", other.err()),
    };
    assert_eq!(message(Vocabulary::builder(["a", "b"])), "no token ends a text: give the ids with `eos`");
    assert_eq!(message(Vocabulary::builder(["a", "b"]).eos([2])), "token 2 is outside the vocabulary of 2");
    assert_eq!(
        message(Vocabulary::builder(["a"]).eos([0]).special([9])),
        "token 9 is outside the vocabulary of 1"
    );
    let many = std::iter::repeat_n("a", (1 << 20) + 1);
    assert_eq!(message(Vocabulary::builder(many).eos([0])), "1048577 tokens are more than 1048576");
}

#[test]
fn odd_tokens_do_no_harm() {
    // Too long for the tree, as long as it can be, twice the same, not text, an end that has bytes.
    let (long, longest) = ("a".repeat(1025), "a".repeat(1024));
    let tokens: [&[u8]; 8] =
        [b"stop", long.as_bytes(), longest.as_bytes(), b"a", b"a", b"\xFF", b"a\xFFa", b""];
    let vocabulary = Vocabulary::builder(tokens).eos([0]).build().unwrap();
    let grammar = Grammar::regex(&vocabulary, "(?s:.*)").unwrap();
    assert_eq!(ids(grammar.start().mask().unwrap()), [0, 2, 3, 4]);
    assert_eq!(vocabulary.bytes(0), b"");
    assert_eq!(vocabulary.bytes(4), b"a");
    assert_eq!(vocabulary.bytes(8), b"");
}
