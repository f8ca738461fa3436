//! Masks against an automaton of another library, token by token: a token is allowed if and only if some text
//! that keeps to the grammar begins with what is written and the token's bytes.

use std::collections::{BTreeMap, BTreeSet};

use onedraw::Constraint;
use onedraw_grammar::{Grammar, Vocabulary};
use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start::Config;
use regex_automata::{Anchored, dfa::dense::DFA};

use crate::chance::Chance;
use crate::vocabularies::{self, END, ids};

/// What a regular expression allows, as an automaton sees it.
struct Oracle {
    automaton: DFA<Vec<u32>>,
    alive: BTreeMap<StateID, bool>,
}

impl Oracle {
    fn new(expression: &str) -> Self {
        let automaton = dense::DFA::new(&format!("^(?:{expression})$")).unwrap();
        Self { automaton, alive: BTreeMap::new() }
    }

    fn start(&self) -> StateID {
        self.automaton.start_state(&Config::new().anchored(Anchored::Yes)).unwrap()
    }

    fn can_end(&self, state: StateID) -> bool {
        self.automaton.is_match_state(self.automaton.next_eoi_state(state))
    }

    /// Whether some bytes lead to an end.
    fn is_alive(&mut self, state: StateID) -> bool {
        if let Some(&alive) = self.alive.get(&state) {
            return alive;
        }
        let (mut seen, mut open) = (BTreeSet::from([state]), vec![state]);
        let mut alive = false;
        while let Some(at) = open.pop() {
            if self.can_end(at) {
                alive = true;
                break;
            }
            let next = (0..=255).map(|byte| self.automaton.next_state(at, byte));
            open.extend(next.filter(|&next| !self.automaton.is_dead_state(next) && seen.insert(next)));
        }
        self.alive.insert(state, alive);
        alive
    }

    fn after(&self, state: StateID, bytes: &[u8]) -> StateID {
        bytes.iter().fold(state, |state, &byte| self.automaton.next_state(state, byte))
    }

    fn allowed(&mut self, state: StateID, tokens: &[Vec<u8>]) -> Vec<u32> {
        let mut allowed = Vec::new();
        for (id, bytes) in tokens.iter().enumerate() {
            let id = id as u32;
            let fits = match id {
                END => self.can_end(state),
                1 => false,
                _ => {
                    let after = self.after(state, bytes);
                    self.is_alive(after)
                }
            };
            if fits {
                allowed.push(id);
            }
        }
        allowed
    }

    /// Whether the text must go on with these bytes, whatever comes after.
    fn forces(&mut self, mut state: StateID, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.can_end(state) {
                return false;
            }
            let next: Vec<u8> = (0..=255)
                .filter(|&byte| {
                    let next = self.automaton.next_state(state, byte);
                    self.is_alive(next)
                })
                .collect();
            if next != [byte] {
                return false;
            }
            state = self.automaton.next_state(state, byte);
        }
        true
    }
}

/// Each with an expression that says the same.
fn grammars(vocabulary: &Vocabulary) -> Vec<(Grammar, String)> {
    let expressions = [
        "(ab)*c?",
        "a*",
        "",
        "[a-c]{2,5}",
        "(a|ab)(c|bcd)*",
        "(?:ab|ba){1,3}-?[0-9]+",
        "yes|no|maybe",
        "maybe not, maybe yes",
        r#""[^"]*""#,
        "[^a-z]{1,4}",
        "é?a€?",
        r"-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,2})?",
        "(a/b|a\\\\b)+",
        "[^\\x00-\\x1f]{3}",
    ];
    let mut all: Vec<(Grammar, String)> = expressions
        .iter()
        .map(|expression| (Grammar::regex(vocabulary, expression).unwrap(), (*expression).to_owned()))
        .collect();
    let choices: [(&[&str], &str); 4] = [
        (&["yes", "no", "maybe"], "yes|no|maybe"),
        (&["a", "ab", "abc", "abcabc"], "a|ab|abc|abcabc"),
        (&["", "a\"b\\c\n\u{7f}|/"], "(?:a\"b\\\\c\\n\\x7f\\|/)?"),
        (&["€uro", "é"], "€uro|é"),
    ];
    for (choices, expression) in choices {
        all.push((Grammar::choices(vocabulary, choices).unwrap(), expression.to_owned()));
    }
    let schemas = [
        (r#"{"type": "boolean"}"#, "true|false"),
        (r#"{"enum": ["a", 12, null, "b\"", [true]]}"#, r#""a"|12|null|"b\\""|\[true\]"#),
        (r#"{"type": "integer", "minimum": 5, "maximum": 120}"#, "[5-9]|[1-9][0-9]|1[01][0-9]|120"),
        (r#"{"type": "string", "pattern": "^[ab]{1,3}$"}"#, r#""[ab]{1,3}""#),
        (
            r#"{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}"#,
            r"\[(true|false)(,(true|false)){0,2}\]",
        ),
        (
            r#"{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "maybe": {"const": 123}},
                "required": ["a"], "additionalProperties": false}"#,
            r#"\{"a":(true|false)(,"b":null)?(,"maybe":123)?\}"#,
        ),
        (
            r##"{"anyOf": [{"type": "null"}, {"$ref": "#/$defs/pair"}], "$defs": {"pair":
                {"type": "array", "prefixItems": [{"const": "a"}, {"enum": [1, 12]}], "items": false, "minItems": 2}}}"##,
            r#"null|\["a",(1|12)\]"#,
        ),
    ];
    for (schema, expression) in schemas {
        all.push((Grammar::compact_json_schema(vocabulary, schema).unwrap(), expression.to_owned()));
    }
    let space = r"[ \t\r\n]*";
    let flexible =
        Grammar::json_schema(vocabulary, r#"{"type": "array", "items": {"const": 1}, "maxItems": 2}"#);
    all.push((flexible.unwrap(), format!(r"\[{space}(1{space}(,{space}1{space})?)?\]")));
    let lark = "start: item (\",\" item)*\nitem: \"ab\" | NUMBER\nNUMBER: /[0-9]+/\n";
    all.push((Grammar::lark(vocabulary, lark).unwrap(), "(ab|[0-9]+)(,(ab|[0-9]+))*".to_owned()));
    let options = format!("%llguidance {{}}\n{lark}");
    all.push((Grammar::llguidance(vocabulary, &options).unwrap(), "(ab|[0-9]+)(,(ab|[0-9]+))*".to_owned()));
    all
}

/// Walks at random; `check` compares a mask with what the oracle allows.
fn walk(
    vocabulary: &Vocabulary,
    tokens: &[Vec<u8>],
    mut check: impl FnMut(&mut dyn Constraint, &mut Oracle, StateID, &[u32], &[u32], &str),
) -> usize {
    let mut compared = 0;
    for (number, (grammar, expression)) in grammars(vocabulary).into_iter().enumerate() {
        let mut oracle = Oracle::new(&expression);
        for seed in 0..60 {
            let mut chance = Chance::new(1000 * number as u64 + seed);
            let (mut matcher, mut state, mut text) = (grammar.start(), oracle.start(), Vec::new());
            for _ in 0..24 {
                let expected = oracle.allowed(state, tokens);
                if expected.is_empty() {
                    // A byte that no token writes.
                    assert!(matcher.mask().is_err());
                    break;
                }
                let words = matcher.mask().unwrap().to_vec();
                assert_eq!(words.len(), tokens.len().div_ceil(32));
                let mask = ids(&words);
                let context = format!("/{expression}/ after {:?}", String::from_utf8_lossy(&text));
                check(&mut matcher, &mut oracle, state, &mask, &expected, &context);
                assert_eq!(matcher.may_end().unwrap(), oracle.can_end(state), "{context}");
                compared += 1;
                // An end would end the walk, too.
                let on: Vec<u32> = mask.iter().copied().filter(|&id| id != END).collect();
                if on.is_empty() {
                    break;
                }
                let token = *chance.pick(&on);
                matcher.accept(token).unwrap();
                state = oracle.after(state, &tokens[token as usize]);
                text.extend(&tokens[token as usize]);
            }
        }
    }
    compared
}

#[test]
fn masks_are_what_an_automaton_allows() {
    let (vocabulary, tokens) = vocabularies::plain();
    let compared = walk(&vocabulary, &tokens, |matcher, _, _, mask, expected, context| {
        assert_eq!(mask, expected, "{context}");
        assert_eq!(
            matcher.forced().unwrap(),
            if mask == [END] { forced_end(matcher) } else { vec![] },
            "{context}"
        );
    });
    assert!(compared > 8000, "{compared}");
}

/// An end that is the only token left is forced, once the matcher has been told of a token.
fn forced_end(matcher: &mut dyn Constraint) -> Vec<u32> {
    let forced = matcher.forced().unwrap();
    assert!(forced.is_empty() || forced == [END]);
    forced
}

#[test]
fn where_a_tokenizer_is_known_only_what_is_forced_is_narrower() {
    let (vocabulary, tokens) = vocabularies::forcing();
    let (mut narrower, mut runs) = (0, 0);
    let compared = walk(&vocabulary, &tokens, |matcher, oracle, state, mask, expected, context| {
        let forced = matcher.forced().unwrap();
        if mask != expected {
            assert_eq!(mask, [forced[0]], "{context}");
            assert!(expected.contains(&mask[0]), "{context}");
            narrower += 1;
        }
        if forced != [END] {
            let bytes: Vec<u8> = forced.iter().flat_map(|&token| tokens[token as usize].clone()).collect();
            assert!(oracle.forces(state, &bytes), "{context}: {:?}", String::from_utf8_lossy(&bytes));
            runs += usize::from(!forced.is_empty());
        }
    });
    assert!(compared > 8000 && narrower > 500 && runs > 2000, "{compared} {narrower} {runs}");
}
