//! Which values a parameter may have, alone and together with the others.

use super::{GREEDY_BELOW, MAX_BREAKER, MAX_SEQUENCES, MAX_TEMPERATURE, SamplingParams};
use crate::numeric::float_mode::Standard;
use crate::params::chain::{Order, Stage};
use crate::params::error::ParamError;
use crate::params::stage_fields::STAGE_FIELDS;

impl SamplingParams {
    /// Checks every value that can be checked without a row. The error names the field, the value and what is
    /// allowed.
    pub fn validate(&self) -> Result<(), ParamError> {
        let _mode = Standard::enter();
        number("temperature", self.temperature, 0.0, MAX_TEMPERATURE)?;
        if self.top_k < -1 {
            return Err(ParamError::new(
                "top_k",
                format!("must be at least 1, or 0 or -1 for off, not {}", self.top_k),
            ));
        }
        number("top_p", self.top_p, 0.0, 1.0)?;
        number("min_p", self.min_p, 0.0, 1.0)?;
        finite("repetition_penalty", self.repetition_penalty)?;
        if self.repetition_penalty as f32 <= 0.0 {
            let message = format!("must be above 0, not {}", self.repetition_penalty);
            return Err(ParamError::new("repetition_penalty", message));
        }
        finite("frequency_penalty", self.frequency_penalty)?;
        finite("presence_penalty", self.presence_penalty)?;
        for (token, &bias) in &self.logit_bias {
            finite(&format!("logit_bias.{token}"), bias)?;
        }
        if self.allowed_token_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(ParamError::new("allowed_token_ids", "must not be empty; leave it out to allow all"));
        }
        if let Some(i) = self.bad_words_ids.iter().position(Vec::is_empty) {
            return Err(ParamError::new(format!("bad_words_ids[{i}]"), "must hold at least one token id"));
        }
        if self.min_tokens > self.max_tokens {
            let message =
                format!("must be at most max_tokens ({}), not {}", self.max_tokens, self.min_tokens);
            return Err(ParamError::new("min_tokens", message));
        }
        for (field, strings) in
            [("stop", &self.stop), ("banned_strings", &self.banned_strings), ("bad_words", &self.bad_words)]
        {
            if let Some(i) = strings.iter().position(String::is_empty) {
                return Err(ParamError::new(format!("{field}[{i}]"), "must not be an empty string"));
            }
        }
        if !(1..=MAX_SEQUENCES).contains(&self.n) {
            return Err(ParamError::new("n", format!("must be in [1, {MAX_SEQUENCES}], not {}", self.n)));
        }
        for (field, count) in [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)] {
            if let Some(count) = count.filter(|&count| count < -1) {
                return Err(ParamError::new(
                    field,
                    format!("must be at least 0, or -1 for all, not {count}"),
                ));
            }
        }
        self.validate_extended()?;
        self.validate_order()
    }

    /// Checks the parameters of the stages beyond temperature, top-k, top-p and min-p.
    fn validate_extended(&self) -> Result<(), ParamError> {
        if !(self.typical_p > 0.0 && self.typical_p <= 1.0) {
            return Err(ParamError::new("typical_p", format!("must be in (0, 1], not {}", self.typical_p)));
        }
        for (field, share) in [
            ("epsilon_cutoff", self.epsilon_cutoff),
            ("eta_cutoff", self.eta_cutoff),
            ("top_a", self.top_a),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
        ] {
            number(field, share, 0.0, 1.0)?;
        }
        for (field, value) in [
            ("top_n_sigma", self.top_n_sigma),
            ("mirostat_tau", self.mirostat_tau),
            ("mirostat_eta", self.mirostat_eta),
            ("dynatemp_exponent", self.dynatemp_exponent),
            ("smoothing_factor", self.smoothing_factor),
            ("dry_multiplier", self.dry_multiplier),
        ] {
            number(field, value, 0.0, 1e6)?;
        }
        if self.mirostat > 2 {
            let message = format!("must be 1 or 2, or 0 for off, not {}", self.mirostat);
            return Err(ParamError::new("mirostat", message));
        }
        if let Some(mu) = self.mirostat_mu.filter(|mu| !mu.is_finite()) {
            return Err(ParamError::new("mirostat_mu", format!("must be a finite number, not {mu}")));
        }
        number("dynatemp_range", self.dynatemp_range, 0.0, MAX_TEMPERATURE)?;
        if self.temperature + self.dynatemp_range > MAX_TEMPERATURE {
            let message =
                format!("goes {} above the temperature, past {MAX_TEMPERATURE}", self.dynatemp_range);
            return Err(ParamError::new("dynatemp_range", message));
        }
        number("smoothing_curve", self.smoothing_curve, 1.0, 3.0)?;
        number("dry_base", self.dry_base, 1.0, 1e6)?;
        for (i, breaker) in self.dry_sequence_breakers.iter().enumerate() {
            if breaker.is_empty() || breaker.len() > MAX_BREAKER {
                let message = format!("must hold 1 to {MAX_BREAKER} token ids, not {}", breaker.len());
                return Err(ParamError::new(format!("dry_sequence_breakers[{i}]"), message));
            }
        }
        Ok(())
    }

    /// Checks the parameters against the order. A parameter whose stage the order does not name would be
    /// ignored silently, so it is an error.
    fn validate_order(&self) -> Result<(), ParamError> {
        let named = Order::vllm();
        let order = self.order.as_ref().unwrap_or(&named);
        let mut set = STAGE_FIELDS.iter().filter(|field| field.is_set(self));
        if let Some(field) = set.clone().find(|field| !order.names(&field.stage)) {
            let message = format!("is set, but the order does not name its stage {}", field.stage.name());
            return Err(ParamError::new(field.name, message));
        }
        if self.mirostat > 0
            && *order == named
            && let Some(field) = set.find(|field| field.truncates())
        {
            let message = "is set beside mirostat, which takes the place of every other truncation and would ignore it; unset one of the two, or name an order of your own that says where each stands";
            return Err(ParamError::new(field.name, message));
        }
        // A temperature stage that appears twice divides twice. The product of all must be a number to divide
        // by.
        let times = order.stages().iter().filter(|&stage| *stage == Stage::Temperature).count();
        let least = (self.temperature - self.dynatemp_range).max(GREEDY_BELOW);
        let most = self.temperature + self.dynatemp_range;
        let product = |temperature: f64| (0..times).fold(1.0, |product, _| product * temperature);
        if most >= GREEDY_BELOW && !(product(least.min(most)) >= 1e-30 && product(most) <= 1e30) {
            let message =
                format!("names temperature {times} times; together they may divide by 1e-30 to 1e30");
            return Err(ParamError::new("order", message));
        }
        Ok(())
    }
}

/// Checks that a value lies in [low, high].
fn number(field: &str, value: f64, low: f64, high: f64) -> Result<(), ParamError> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(ParamError::new(field, format!("must be in [{low}, {high}], not {value}")))
}

/// Checks that a value is finite after rounding to f32, because edits are f32 operations.
fn finite(field: &str, value: f64) -> Result<(), ParamError> {
    if (value as f32).is_finite() {
        return Ok(());
    }
    Err(ParamError::new(field, format!("must be a finite 32-bit number, not {value:?}")))
}
