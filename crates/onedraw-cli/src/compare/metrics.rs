//! What can be measured of a text without a model: how varied it is, how much it repeats itself, how well it
//! compresses.

use std::collections::BTreeSet;

/// How varied one text or several texts of one strategy are.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Variety {
    /// The share of distinct words among all words (Li and others 2016).
    pub distinct_1: f64,
    /// The same for pairs of words.
    pub distinct_2: f64,
    /// The same for triples of words.
    pub distinct_3: f64,
    /// The share of runs of four tokens that occurred before in the same text (Welleck and others 2019).
    pub rep_4: f64,
    /// The bytes of the texts, divided by their bytes after compression with zlib.
    pub compression: f64,
}

impl Variety {
    /// `tokens` are those of each text.
    pub fn of(texts: &[&str], tokens: &[&[u32]]) -> Self {
        let words: Vec<Vec<String>> = texts.iter().map(|text| words(text)).collect();
        Self {
            distinct_1: distinct(&words, 1),
            distinct_2: distinct(&words, 2),
            distinct_3: distinct(&words, 3),
            rep_4: repetition(tokens),
            compression: compression(texts),
        }
    }
}

/// Words in lower case, without the punctuation around them.
fn words(text: &str) -> Vec<String> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    text.split_whitespace().map(bare).filter(|word| !word.is_empty()).collect()
}

/// The share of distinct runs of `n` words among all such runs; 1 if there are none.
fn distinct(texts: &[Vec<String>], n: usize) -> f64 {
    let runs: Vec<&[String]> = texts.iter().flat_map(|words| words.windows(n)).collect();
    let different: BTreeSet<&[String]> = runs.iter().copied().collect();
    share(different.len(), runs.len(), 1.0)
}

fn repetition(texts: &[&[u32]]) -> f64 {
    let (mut all, mut different) = (0, 0);
    for tokens in texts {
        let runs: Vec<&[u32]> = tokens.windows(4).collect();
        all += runs.len();
        different += runs.iter().collect::<BTreeSet<_>>().len();
    }
    share(all - different, all, 0.0)
}

fn compression(texts: &[&str]) -> f64 {
    /// zlib's default.
    const LEVEL: u8 = 6;
    let text = texts.join("\n");
    share(text.len(), miniz_oxide::deflate::compress_to_vec_zlib(text.as_bytes(), LEVEL).len(), 1.0)
}

fn share(part: usize, whole: usize, of_nothing: f64) -> f64 {
    if whole == 0 { of_nothing } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_without_their_marks() {
        let variety = Variety::of(&["The cat. The \"cat\" sat!"], &[&[1, 2, 3, 4, 5]]);
        assert_eq!(variety.distinct_1, 3.0 / 5.0);
        // the cat, cat the, the cat, cat sat
        assert_eq!(variety.distinct_2, 3.0 / 4.0);
        assert_eq!(variety.distinct_3, 1.0);
        assert_eq!(variety.rep_4, 0.0);
    }

    #[test]
    fn runs_repeat_within_a_text_only() {
        let loops: &[u32] = &[1, 2, 1, 2, 1, 2, 1];
        // Four runs: 1212, 2121, 1212, 2121.
        assert_eq!(repetition(&[loops]), 0.5);
        assert_eq!(repetition(&[&[1, 2, 3, 4], &[1, 2, 3, 4]]), 0.0);
        assert_eq!(repetition(&[&[1, 2]]), 0.0);
    }

    #[test]
    fn what_repeats_compresses() {
        let plain = compression(&["a quick brown fox jumps over the lazy dog and runs"]);
        let loops = compression(&[&"on and on ".repeat(40)]);
        assert!(plain < 1.0 && loops > 10.0, "{plain} {loops}");
    }

    #[test]
    fn no_text_has_numbers_too() {
        let variety = Variety::of(&[""], &[&[]]);
        assert_eq!((variety.distinct_1, variety.rep_4), (1.0, 0.0));
        assert!(variety.compression.is_finite());
    }
}
