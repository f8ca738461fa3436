//! Every parameter once: its name, type and default, and what it does in one line.
//!
//! [`SamplingParams`](crate::SamplingParams), its defaults and its builder are made from this list. So are the
//! flags of the program with their help, the getters of the Python class, and the tables of the page
//! "Parameters" of the book.

/// What a parameter is for. Help and the reference page have a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The temperature.
    Temperature,
    /// Which tokens are kept.
    Truncation,
    /// Which logits are changed.
    Edit,
    /// Which tokens are forbidden.
    Ban,
    /// Where a text ends.
    End,
    /// How it is drawn, and what is reported.
    Report,
}

impl Group {
    /// Every group, in the order in which they are shown.
    pub const ALL: [Group; 6] =
        [Self::Temperature, Self::Truncation, Self::Edit, Self::Ban, Self::End, Self::Report];

    /// The heading of the section.
    pub fn title(self) -> &'static str {
        match self {
            Self::Temperature => "Temperature",
            Self::Truncation => "Truncations: which tokens are kept",
            Self::Edit => "Edits: which logits are changed",
            Self::Ban => "Bans: which tokens are forbidden",
            Self::End => "The end of a text",
            Self::Report => "The draw and the report",
        }
    }
}

/// One parameter, described.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, in JSON, Rust and Python.
    pub name: &'static str,
    /// What it is for.
    pub group: Group,
    /// What it does, in one line.
    pub help: &'static str,
    /// What else there is to know; may be empty.
    pub details: &'static str,
}

/// Gives the list of all parameters to another macro, whose name or path is the argument. An entry is
///
/// ```text
/// attributes  name: Type = default, Group, "one line", "more";
/// ```
///
/// where the last text may be missing.
#[doc(hidden)]
#[macro_export]
macro_rules! __parameters {
    ($($macro:tt)+) => {
        $($macro)+! {
            temperature: f64 = 1.0, Temperature,
                "Divides the logits: higher is more random; 0 to 10^6; below 10^-5 the draw is greedy";
            dynatemp_range: f64 = 0.0, Temperature,
                "Lets the entropy move the temperature up and down by this much; 0 turns it off",
                "The temperature lies between T − range, not below 0, and T + range: low where the entropy is low.";
            dynatemp_exponent: f64 = 1.0, Temperature,
                "The power of the entropy's share of ln(tokens left) that sets the place in that range";

            top_k: i64 = 0, Truncation,
                "Keeps exactly the k best tokens; 0 or -1 turns it off";
            top_p: f64 = 1.0, Truncation,
                "Keeps the shortest prefix whose mass reaches this share; 0 to 1; 1 turns it off",
                "The token that crosses the share is kept. 0 keeps the best token alone.";
            min_p: f64 = 0.0, Truncation,
                "Keeps tokens at least this many times as likely as the best; 0 to 1; 0 turns it off";
            typical_p: f64 = 1.0, Truncation,
                "Keeps tokens whose surprise is nearest to the entropy, up to this share; above 0, to 1; 1 turns it off",
                "Ties at the border stay. The best token may go.";
            top_n_sigma: f64 = 0.0, Truncation,
                "Keeps logits within this many standard deviations of the best; 0 turns it off";
            epsilon_cutoff: f64 = 0.0, Truncation,
                "Keeps tokens with at least this probability, and the best; 0 to 1; 0 turns it off";
            eta_cutoff: f64 = 0.0, Truncation,
                "Keeps tokens with a probability of at least min(eta, sqrt(eta)·exp(-entropy)), and the best; 0 turns it off",
                "Eta is this value, 0 to 1.";
            top_a: f64 = 0.0, Truncation,
                "Keeps tokens with a probability of at least a times the best one's square; 0 to 1; 0 turns it off";
            xtc_probability: f64 = 0.0, Truncation,
                "How often XTC removes all top choices but the least likely; 0 to 1; 0 turns it off",
                "A top choice has at least the probability `xtc_threshold`.";
            xtc_threshold: f64 = 0.1, Truncation,
                "The probability from which on XTC counts a token as a top choice; 0 to 1";
            xtc_protected_token_ids: Vec<u32> = Vec::new(), Truncation,
                "Ids that XTC never removes, such as newline and EOS";
            mirostat: u8 = 0, Truncation,
                "Steers the surprise of the text: version 1 or 2; 0 turns it off",
                "1 keeps the k best tokens, with k computed from the slope of the best logits and mu. 2 keeps tokens with a surprise of at most mu bits.";
            mirostat_tau: f64 = 5.0, Truncation,
                "The surprise that mirostat aims at, in bits";
            mirostat_eta: f64 = 0.1, Truncation,
                "Mirostat's learning rate: after each token, mu falls by eta times (its surprise - tau)";
            mirostat_mu: Option<f64> = None, Truncation,
                "Mirostat's state mu, in bits; without it, twice tau",
                "It is part of the history, as `output_token_ids` is.";

            repetition_penalty: f64 = 1.0, Edit,
                "Divides a positive logit and multiplies a negative one, once for each token seen; above 0",
                "A token counts as seen in prompt or output.";
            frequency_penalty: f64 = 0.0, Edit,
                "Subtracted from a logit once for each time the token was seen in the output";
            presence_penalty: f64 = 0.0, Edit,
                "Subtracted from a logit once if the token was seen in the output";
            penalty_window: u32 = 0, Edit,
                "The three penalties look at this many of the last tokens of prompt and output; 0 means all";
            penalty_scope: $crate::PenaltyScope = $crate::PenaltyScope::Output, Edit,
                "What frequency and presence penalty count: `output`, or `all` for the prompt too";
            dry_multiplier: f64 = 0.0, Edit,
                "The strength of DRY, which lowers a token that would continue a repetition; 0 turns it off",
                "A repetition of L tokens costs multiplier · base^(L − allowed length).";
            dry_base: f64 = 1.75, Edit,
                "How fast DRY's penalty grows with the length of the repetition; at least 1";
            dry_allowed_length: u32 = 2, Edit,
                "Repetitions shorter than this cost nothing";
            dry_penalty_last_n: u32 = 0, Edit,
                "DRY looks at this many of the last tokens of prompt and output; 0 means all";
            dry_sequence_breakers: Vec<Vec<u32>> = Vec::new(), Edit,
                "Id sequences, of 1 to 20 ids each, across which DRY sees no repetition";
            no_repeat_ngram_size: u32 = 0, Edit,
                "No sequence of this many tokens appears twice in prompt and output; 0 turns it off";
            smoothing_factor: f64 = 0.0, Edit,
                "Bends the logits around the best one; 0 turns it off",
                "With d = x − max, x becomes max + s·d²·(c·d − k), where k = (3 − curve)/2 and c = (curve − 1)/2.";
            smoothing_curve: f64 = 1.0, Edit,
                "The share of the cubic term in the smoothing, from 1 (none) to 3";
            #[serde(deserialize_with = "read::biases")]
            logit_bias: std::collections::BTreeMap<u32, f64> = std::collections::BTreeMap::new(), Edit,
                "An object {id: number}; the number is added to the logit of that token";

            allowed_token_ids: Option<Vec<u32>> = None, Ban,
                "Only these ids may be drawn";
            bad_words_ids: Vec<Vec<u32>> = Vec::new(), Ban,
                "Id sequences that must not appear in the output",
                "The last id of a sequence is banned while the output ends with the ids before it.";
            bad_words: Vec<String> = Vec::new(), Ban,
                "Words that must not appear in the output, as the tokenizer cuts them",
                "Each word is cut with and without a space before it, and becomes `bad_words_ids`. It needs a tokenizer, so a single draw refuses it.";
            min_tokens: u32 = 0, Ban,
                "EOS and stop ids are banned until this many tokens are written";
            banned_strings: Vec<String> = Vec::new(), Ban,
                "Phrases that must not appear in the text; where one does, the text goes back to before it",
                "Phrases are compared byte by byte. The token in which the phrase begins is banned there. This needs a decode loop, because a single draw does not see text.";

            max_tokens: u32 = 16, End,
                "The most tokens of a text",
                "0 writes none: the finish reason is `length`, and logprobs of the prompt are still given. 256 where a text is written: in `generate`, `compare` and `onedraw.Generator`.";
            #[serde(deserialize_with = "read::strings")]
            stop: Vec<String> = Vec::new(), End,
                "Strings that end the text; one string or a list",
                "The name of a special token, such as `</s>`, ends the text at that token.";
            stop_token_ids: Vec<u32> = Vec::new(), End,
                "Ids that end the text";
            ignore_eos: bool = false, End,
                "Goes on after EOS";
            include_stop_str_in_output: bool = false, End,
                "Leaves the stop string in the text";
            #[serde(deserialize_with = "read::ids")]
            eos_token_id: Vec<u32> = Vec::new(), End,
                "The ids that mean the end of a text; one id or a list";

            #[serde(deserialize_with = "read::seed_or_minus_one")]
            seed: Option<u64> = None, Report,
                "0 to 2^64 - 1; without it or with -1, one is taken from the system and reported";
            n: u32 = 1, Report,
                "How many texts, or draws of a row; 1 to 65,536; they share the seed and have different noise";
            logprobs: Option<i64> = None, Report,
                "Reports the drawn token and this many of the best; 0 reports the drawn token alone, -1 all";
            logprobs_mode: $crate::LogprobsMode = $crate::LogprobsMode::RawLogprobs, Report,
                "What reported numbers are: `raw_logprobs`, `raw_logits`, `processed_logprobs` or `processed_logits`";
            probability: bool = false, Report,
                "Reports the probability with which the token was drawn, also where `logprobs_mode` is raw",
                "In raw modes this takes a second sum over the row, so a batch or a device gives it only where it is asked for.";
            kept: $crate::KeptMode = $crate::KeptMode::None, Report,
                "What to report of the tokens that could have been drawn: `none`, `summary` or `ids`",
                "A summary says how many there are, the last of them in the order, and the logarithm of their mass. It needs a chain that keeps a prefix of the order; `ids` works with every chain.";
            prompt_logprobs: Option<i64> = None, Report,
                "Like `logprobs`, for the tokens of the prompt";
            prompt_token_ids: Vec<u32> = Vec::new(), Report,
                "The tokens of the prompt, which penalties, DRY and n-grams look at";
            output_token_ids: Vec<u32> = Vec::new(), Report,
                "The tokens written so far; their number is the position of the next draw";
            #[serde(skip_serializing_if = "Option::is_none")]
            order: Option<$crate::Order> = None, Report,
                "The order of the stages: `vllm`, `huggingface`, `llama.cpp`, or a list of stages",
                "A stage may appear twice. Without it, the order is vLLM's.";
        }
    };
}

macro_rules! described {
    ($($(#[$attribute:meta])* $name:ident: $type:ty = $default:expr, $group:ident, $help:literal $(, $details:literal)?;)*) => {
        /// Every parameter, in the order of the reference page.
        pub const PARAMETERS: &[Parameter] = &[$(Parameter {
            name: stringify!($name),
            group: Group::$group,
            help: $help,
            details: concat!($($details)?),
        }),*];
    };
}
__parameters!(described);
