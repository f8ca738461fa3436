//! What somebody probably meant by a name that is none of ours.

use crate::params::table::PARAMETERS;

/// Names of other systems, with what they are called here.
const ELSEWHERE: [(&str, &str); 20] = [
    ("max_new_tokens", "max_tokens"),
    ("max_completion_tokens", "max_tokens"),
    ("max_output_tokens", "max_tokens"),
    ("max_length", "max_tokens"),
    ("n_predict", "max_tokens"),
    ("num_predict", "max_tokens"),
    ("min_new_tokens", "min_tokens"),
    ("min_length", "min_tokens"),
    ("num_return_sequences", "n"),
    ("temp", "temperature"),
    ("typ_p", "typical_p"),
    ("repeat_penalty", "repetition_penalty"),
    ("rep_pen", "repetition_penalty"),
    ("repeat_last_n", "penalty_window"),
    ("sequence_bias", "logit_bias"),
    ("stop_strings", "stop"),
    ("stop_sequences", "stop"),
    ("top_logprobs", "logprobs"),
    ("samplers", "order"),
    ("random_seed", "seed"),
];

/// Names of other systems that are no parameter here.
const NO_PARAMETER: [(&str, &str); 5] = [
    ("do_sample", "greedy text is `temperature` 0"),
    ("num_beams", "a beam search is `--beams` of the program, and `Beams` in Rust and Python"),
    ("use_beam_search", "a beam search is `--beams` of the program, and `Beams` in Rust and Python"),
    ("best_of", "`n` writes several texts"),
    ("stream", "a text is always streamed"),
];

/// The longest name, in letters, that is compared with ours.
const LONGEST: usize = 64;

/// What an unknown name may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// A parameter under another name, or misspelt.
    Parameter(&'static str),
    /// Something that is no parameter: what to do instead.
    Instead(&'static str),
}

/// The parameter that an unknown name probably means, or what there is in its place.
pub fn suggestion(name: &str) -> Option<Suggestion> {
    let name = plain(name);
    if let Some((_, words)) = NO_PARAMETER.iter().find(|(other, _)| *other == name) {
        return Some(Suggestion::Instead(words));
    }
    let ours = PARAMETERS.iter().map(|parameter| (parameter.name, parameter.name));
    nearest(&name, ours.chain(ELSEWHERE)).map(Suggestion::Parameter)
}

/// What belongs to the name that is most like `name`, or to the only one that begins with it. `None` if no name
/// is like it: more than a third of its letters would have to change.
pub fn nearest<T>(name: &str, names: impl IntoIterator<Item = (impl AsRef<str>, T)>) -> Option<T> {
    let letters = name.chars().count();
    // Comparing takes the product of the lengths, and a name of ours is much shorter.
    if letters > LONGEST {
        return None;
    }
    let (mut best, mut begun) = (None, Vec::new());
    let mut shortest = letters / 3 + 1;
    for (other, meaning) in names {
        let distance = strsim::damerau_levenshtein(name, other.as_ref());
        if distance < shortest {
            (shortest, best) = (distance, Some(meaning));
        } else if letters > 2 && other.as_ref().starts_with(name) {
            begun.push(meaning);
        }
    }
    best.or_else(|| if begun.len() == 1 { begun.pop() } else { None })
}

/// A name as ours are written: `topP`, `Top-P` and `top_p` are one.
fn plain(name: &str) -> String {
    let mut plain = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && plain.ends_with(char::is_lowercase) {
            plain.push('_');
        }
        plain.extend(if letter == '-' { '_' } else { letter }.to_lowercase());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant() {
        use Suggestion::Parameter;
        for (name, meant) in [
            ("tempreature", "temperature"),
            ("temperture", "temperature"),
            ("topP", "top_p"),
            ("topp", "top_p"),
            ("top-k", "top_k"),
            ("maxTokens", "max_tokens"),
            ("maxOutputTokens", "max_tokens"),
            ("max_new_token", "max_tokens"),
            ("max_length", "max_tokens"),
            ("min_new_tokens", "min_tokens"),
            ("repeat_penalty", "repetition_penalty"),
            ("presence_penality", "presence_penalty"),
            ("repetition", "repetition_penalty"),
            ("num_return_sequences", "n"),
        ] {
            assert_eq!(suggestion(name), Some(Parameter(meant)), "{name}");
        }
        for name in ["", "wild", "colour", "x", "prompt", &"temperature".repeat(1_000_000)] {
            assert_eq!(suggestion(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_no_parameter_here_is_said() {
        assert_eq!(suggestion("do_sample"), Some(Suggestion::Instead("greedy text is `temperature` 0")));
        let Some(Suggestion::Instead(words)) = suggestion("num_beams") else { panic!("num_beams") };
        assert!(words.contains("--beams"), "{words}");
    }

    #[test]
    fn other_systems_names_mean_ours_and_are_none_of_ours() {
        let is_ours = |name: &str| PARAMETERS.iter().any(|parameter| parameter.name == name);
        for (name, meant) in ELSEWHERE {
            assert!(!is_ours(name) && is_ours(meant), "{name} {meant}");
            assert_eq!(suggestion(name), Some(Suggestion::Parameter(meant)));
        }
        assert!(NO_PARAMETER.iter().all(|(name, _)| !is_ours(name)));
    }
}
