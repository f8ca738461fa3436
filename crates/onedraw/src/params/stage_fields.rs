//! Which parameters belong to which stage.
//!
//! The merging of settings and the headings of pictures read this table. The tests below hold validation to
//! it.

use crate::params::SamplingParams;
use crate::params::chain::Stage;

/// One parameter of a stage.
#[derive(Clone, Debug)]
pub struct StageField {
    /// Its name, in JSON and in Rust.
    pub name: &'static str,
    /// The stage that reads it.
    pub stage: Stage,
    /// Whether the first parameters have another value of it than the second.
    differs: fn(&SamplingParams, &SamplingParams) -> bool,
}

macro_rules! stage_fields {
    ($($stage:ident: $($field:ident),+;)+) => {
        /// Every parameter that belongs to a stage, in the default order of the stages.
        pub static STAGE_FIELDS: [StageField; 36] = [$($(StageField {
            name: stringify!($field),
            stage: Stage::$stage,
            differs: |params, other| params.$field != other.$field,
        }),+),+];
    };
}

stage_fields! {
    Allowed: allowed_token_ids;
    BadWords: bad_words_ids, bad_words;
    MinTokens: min_tokens;
    LogitBias: logit_bias;
    Penalties: repetition_penalty, frequency_penalty, presence_penalty, penalty_window, penalty_scope;
    Dry: dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers;
    NoRepeatNgram: no_repeat_ngram_size;
    Smoothing: smoothing_factor, smoothing_curve;
    Temperature: temperature, dynatemp_range, dynatemp_exponent;
    MinP: min_p;
    TopK: top_k;
    TopP: top_p;
    Typical: typical_p;
    TopNSigma: top_n_sigma;
    Epsilon: epsilon_cutoff;
    Eta: eta_cutoff;
    TopA: top_a;
    Xtc: xtc_probability, xtc_threshold, xtc_protected_token_ids;
    Mirostat: mirostat, mirostat_tau, mirostat_eta, mirostat_mu;
}

impl StageField {
    /// Whether the parameters set it away from its default. A `top_k` of −1 is off, as 0 is.
    pub fn is_set(&self, params: &SamplingParams) -> bool {
        match self.name {
            "top_k" => params.top_k > 0,
            _ => (self.differs)(params, &SamplingParams::default()),
        }
    }

    /// Whether setting it makes a truncation other than mirostat act. XTC acts if its probability is set; its
    /// other parameters do nothing alone.
    pub fn truncates(&self) -> bool {
        use Stage::*;
        match self.stage {
            MinP | TopK | TopP | Typical | TopNSigma | Epsilon | Eta | TopA => true,
            Xtc => self.name == "xtc_probability",
            _ => false,
        }
    }
}

impl Stage {
    /// The parameters of the stage. A user's own stage has none.
    pub fn fields(&self) -> impl Iterator<Item = &'static StageField> {
        STAGE_FIELDS.iter().filter(move |field| field.stage == *self)
    }

    /// The parameter whose number stands for the stage where there is room for one, as in a heading: `top_p`
    /// for `top_p`, `xtc_threshold` for `xtc`. `None` for stages that no single number describes.
    pub fn headline_field(&self) -> Option<&'static str> {
        use Stage::*;
        match self {
            Xtc => Some("xtc_threshold"),
            MinTokens | Temperature | MinP | TopK | TopP | Typical | TopNSigma | Epsilon | Eta | TopA
            | Mirostat => self.fields().next().map(|field| field.name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::chain::Order;

    /// A value of each parameter that is not its default.
    const VALUES: [(&str, &str); 36] = [
        ("allowed_token_ids", "[1]"),
        ("bad_words_ids", "[[1]]"),
        ("bad_words", r#"["no"]"#),
        ("min_tokens", "1"),
        ("logit_bias", r#"{"1": 1.0}"#),
        ("repetition_penalty", "1.5"),
        ("frequency_penalty", "0.5"),
        ("presence_penalty", "0.5"),
        ("penalty_window", "8"),
        ("penalty_scope", r#""all""#),
        ("dry_multiplier", "0.5"),
        ("dry_base", "2.0"),
        ("dry_allowed_length", "3"),
        ("dry_penalty_last_n", "8"),
        ("dry_sequence_breakers", "[[1]]"),
        ("no_repeat_ngram_size", "3"),
        ("smoothing_factor", "0.5"),
        ("smoothing_curve", "2.0"),
        ("temperature", "0.5"),
        ("dynatemp_range", "0.5"),
        ("dynatemp_exponent", "2.0"),
        ("min_p", "0.5"),
        ("top_k", "5"),
        ("top_p", "0.5"),
        ("typical_p", "0.5"),
        ("top_n_sigma", "2.0"),
        ("epsilon_cutoff", "0.001"),
        ("eta_cutoff", "0.001"),
        ("top_a", "0.5"),
        ("xtc_probability", "0.5"),
        ("xtc_threshold", "0.2"),
        ("xtc_protected_token_ids", "[1]"),
        ("mirostat", "2"),
        ("mirostat_tau", "3.0"),
        ("mirostat_eta", "0.5"),
        ("mirostat_mu", "3.0"),
    ];

    fn with(name: &str, value: &str) -> SamplingParams {
        SamplingParams::from_json(&format!("{{\"{name}\": {value}}}")).unwrap()
    }

    #[test]
    fn validation_refuses_each_field_whose_stage_the_order_leaves_out() {
        for (field, (name, value)) in STAGE_FIELDS.iter().zip(VALUES) {
            assert_eq!(field.name, name);
            let params = with(name, value);
            let set: Vec<_> = STAGE_FIELDS.iter().filter(|field| field.is_set(&params)).collect();
            assert_eq!(set.len(), 1, "{name}");
            assert_eq!(set[0].name, name);
            let others: Vec<_> = Stage::ALL.into_iter().filter(|stage| *stage != field.stage).collect();
            let params = SamplingParams { order: Some(Order::of(others)), ..params };
            let error = params.validate().unwrap_err();
            let message = format!("is set, but the order does not name its stage {}", field.stage.name());
            assert_eq!((error.field(), error.message()), (name, message.as_str()));
        }
    }

    #[test]
    fn validation_refuses_each_truncation_beside_mirostat() {
        for (field, (name, value)) in STAGE_FIELDS.iter().zip(VALUES) {
            let params = SamplingParams { mirostat: 2, ..with(name, value) };
            let refused = params.validate().err().map(|error| error.field().to_owned());
            assert_eq!(refused, field.truncates().then(|| name.to_owned()));
        }
    }

    #[test]
    fn every_stage_has_fields_and_a_negative_top_k_is_off() {
        assert!(Stage::ALL.iter().all(|stage| stage.fields().next().is_some()));
        let top_k = Stage::TopK.fields().next().unwrap();
        assert!(!top_k.is_set(&with("top_k", "-1")));
    }

    #[test]
    fn a_stage_has_one_number_or_none_for_a_heading() {
        let fields: Vec<_> = Stage::ALL.iter().filter_map(Stage::headline_field).collect();
        let expected = [
            "min_tokens",
            "temperature",
            "min_p",
            "top_k",
            "top_p",
            "typical_p",
            "top_n_sigma",
            "epsilon_cutoff",
            "eta_cutoff",
            "top_a",
            "xtc_threshold",
            "mirostat",
        ];
        assert_eq!(fields, expected);
    }
}
