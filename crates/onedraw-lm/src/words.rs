//! Parameters that are text, as tokens: words that must not appear, and special tokens that end a text.

use onedraw::{ParamError, SamplingParams};

use crate::model::Vocabulary;

/// Replaces what only a tokenizer understands.
///
/// - `bad_words` become `bad_words_ids`: each word is cut as it stands, and with a space before it where that
///   gives other tokens. (vLLM leaves out the form with a space where it has another number of tokens.)
/// - A `stop` string that is the name of a special token, such as `</s>`, also becomes one of
///   `stop_token_ids`: special tokens have no text, so the string alone would never match.
pub fn to_tokens(params: &mut SamplingParams, vocabulary: &dyn Vocabulary) -> Result<(), ParamError> {
    for (place, word) in std::mem::take(&mut params.bad_words).iter().enumerate() {
        let error = |message: &str| ParamError::new(format!("bad_words[{place}]"), message);
        let cut = |text: &str| {
            vocabulary.cut(text).ok_or_else(|| error("needs a tokenizer; give its ids as bad_words_ids"))
        };
        let word = word.trim_start_matches(' ');
        let plain = cut(word)?;
        if plain.is_empty() {
            return Err(error("has no tokens"));
        }
        let spaced = cut(&format!(" {word}"))?;
        // Where the space is a token of its own, the form without it is enough.
        let is_another = !spaced.ends_with(&plain);
        params.bad_words_ids.push(plain);
        if is_another {
            params.bad_words_ids.push(spaced);
        }
    }
    for token in params.stop.iter().filter_map(|text| vocabulary.special(text)) {
        if !params.stop_token_ids.contains(&token) {
            params.stop_token_ids.push(token);
        }
    }
    Ok(())
}

/// The stop strings that no text can have, because they need a byte that no token has.
pub fn unmatchable<'a>(params: &'a SamplingParams, vocabulary: &dyn Vocabulary, tokens: u32) -> Vec<&'a str> {
    let mut has = [false; 256];
    for byte in (0..tokens).flat_map(|token| vocabulary.bytes(token)) {
        has[usize::from(*byte)] = true;
    }
    let is_special = |text: &str| vocabulary.special(text).is_some();
    let never = |text: &&str| text.bytes().any(|byte| !has[usize::from(byte)]) && !is_special(text);
    params.stop.iter().map(String::as_str).filter(never).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stories;

    /// Two tokens of text, and nobody who can cut one.
    struct Letters;

    impl Vocabulary for Letters {
        fn bytes(&self, token: u32) -> &[u8] {
            if token == 0 { b"a" } else { b"b" }
        }
    }

    #[test]
    fn bad_words_are_cut_with_and_without_a_space() {
        let tokenizer = stories::tokenizer().unwrap();
        let bad_words = vec!["dog".to_owned(), " dragonfly".to_owned()];
        let mut params =
            SamplingParams { bad_words, bad_words_ids: vec![vec![7]], ..SamplingParams::default() };
        to_tokens(&mut params, &tokenizer).unwrap();
        assert!(params.bad_words.is_empty());
        assert_eq!(params.bad_words_ids[0], [7]);
        let texts: Vec<String> = params.bad_words_ids[1..].iter().map(|ids| tokenizer.text(ids)).collect();
        assert!(texts.contains(&" dog".to_owned()), "{texts:?}");
        assert!(texts.iter().all(|text| ["dog", "dragonfly"].contains(&text.trim_start())), "{texts:?}");
        let mut params = SamplingParams { bad_words: vec!["a".to_owned()], ..SamplingParams::default() };
        let error = to_tokens(&mut params, &Letters).unwrap_err();
        assert_eq!(error.to_string(), "bad_words[0]: needs a tokenizer; give its ids as bad_words_ids");
    }

    #[test]
    fn the_name_of_a_special_token_stops_at_it() {
        let tokenizer = stories::tokenizer().unwrap();
        let end = stories::generation_config().unwrap().eos_token_ids[0];
        let name = tokenizer.piece(end);
        assert!(tokenizer.is_special(end), "{name}");
        let mut params = SamplingParams { stop: vec![name.clone(), "dog".to_owned()], ..Default::default() };
        to_tokens(&mut params, &tokenizer).unwrap();
        assert_eq!(params.stop_token_ids, [end]);
        assert_eq!(params.stop, [name, "dog".to_owned()]);
    }

    #[test]
    fn strings_that_cannot_match_are_found() {
        let params = SamplingParams { stop: vec!["ab".into(), "abc".into()], ..Default::default() };
        assert_eq!(unmatchable(&params, &Letters, 2), ["abc"]);
    }
}
