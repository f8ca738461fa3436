//! Sampling parameters: what is left of a body once OpenAI's own fields are taken.

use onedraw::{KeptMode, PARAMETERS, SamplingParams, seed};
use onedraw_lm::LanguageModel;
use onedraw_lm::settings::{Layer, Origin, Settings, check, items};
use onedraw_lm::words::to_tokens;
use serde_json::{Map, Value};

use super::Reader;
use super::fields::{Fields, unknown, wrong};
use crate::failure::Failure;

/// Parameters that a request sets by its prompt.
const FROM_THE_PROMPT: [&str; 2] = ["prompt_token_ids", "output_token_ids"];

/// A seed that the server chooses is below 2^53, so that every client reads it exactly.
const SEED_BITS: u32 = 53;

/// The parameters of texts.
pub(super) struct Parameters {
    pub params: SamplingParams,
    /// Whether the request says how long a text may be. If not, the model's own settings may limit it for each prompt.
    pub says_length: bool,
}

/// How long a text may be if the request does not say.
#[derive(Clone, Copy)]
pub(super) enum Length {
    /// So many tokens.
    Tokens(u32),
    /// As long as the model's context allows.
    Context,
}

impl Reader {
    /// The parameters of texts after prompts, the longest of which has so many tokens. As in `onedraw generate`, a field
    /// goes before the preset, that before the model's own settings, and these before the defaults.
    pub(super) fn params(
        &self,
        mut fields: Fields,
        length: Length,
        prompt: usize,
        known: &[&'static str],
    ) -> Result<Parameters, Failure> {
        let context = self.model.context();
        let preset = match fields.text("preset")? {
            Some(name) => Some(Layer::preset(&name).ok_or_else(|| wrong("preset", "the name of a preset"))?),
            None => None,
        };
        read_openai(&mut fields)?;
        let says_length = fields.has("max_tokens");
        if !says_length {
            let room = (context + 1).saturating_sub(prompt);
            let tokens = if let Length::Tokens(tokens) = length { tokens as usize } else { room };
            fields.set("max_tokens", tokens.min(self.limits.tokens));
        }
        let (rest, renamed) = fields.rest();
        let params = self.merged(&rest, preset, known).map_err(|failure| renamed.told(failure))?;
        Ok(Parameters { params, says_length })
    }

    /// The parameters of these fields.
    fn merged(
        &self,
        rest: &Map<String, Value>,
        preset: Option<Layer>,
        known: &[&'static str],
    ) -> Result<SamplingParams, Failure> {
        let model = &self.model;
        for name in rest.keys() {
            if FROM_THE_PROMPT.contains(&name.as_str()) {
                return Err(Failure::field(
                    name,
                    format!("{name}: the tokens of the text come from its prompt here"),
                ));
            }
            if !PARAMETERS.iter().any(|parameter| parameter.name == name) {
                return Err(unknown(name, known));
            }
        }
        let own = Layer::read(Origin::Argument, rest).map_err(|error| Failure::from(&error))?;
        let mut settings = Settings::default().layer(own);
        if let Some(preset) = preset {
            settings = settings.layer(preset);
        }
        let resolved = settings.layer(model.generation.layer()).resolve();
        let mut params = resolved.map_err(|error| Failure::from(&error))?.params;
        model.generation.end_texts(&mut params);
        to_tokens(&mut params, &*model.tokenizer).map_err(|error| Failure::from(&error))?;
        self.check_limits(&params)?;
        check(&params, model.llama.vocabulary()).map_err(|error| Failure::from(&error))?;
        if params.seed.is_none() {
            params.seed = Some(chosen_seed()?);
        }
        Ok(params)
    }

    fn check_limits(&self, params: &SamplingParams) -> Result<(), Failure> {
        let limits = &self.limits;
        let counts = [
            ("n", u64::from(params.n), limits.n.min(limits.running)),
            ("max_tokens", u64::from(params.max_tokens), limits.tokens),
            ("logprobs", params.logprobs.map_or(0, count), limits.logprobs),
            ("prompt_logprobs", params.prompt_logprobs.map_or(0, count), limits.logprobs),
        ];
        let lists = items(params).map(|(name, length)| (name, length as u64, limits.items));
        for (name, asked, most) in counts.into_iter().chain(lists) {
            if asked > most as u64 {
                return Err(Failure::field(name, format!("{name}: this server gives at most {most}")));
            }
        }
        Ok(())
    }
}

impl Reader {
    /// Refuses an answer that could be larger than this server gives. It is kept in memory until its client reads it.
    pub(super) fn check_size(&self, params: &SamplingParams, prompts: usize) -> Result<(), Failure> {
        let (vocabulary, context) = (self.model.llama.vocabulary() as u64, self.model.context() as u64);
        let ids = if params.kept == KeptMode::Ids { vocabulary } else { 0 };
        let each = 1 + params.logprobs.map_or(0, count).saturating_add(ids);
        let texts = (prompts as u64).saturating_mul(params.n.into());
        let all = texts.saturating_mul(u64::from(params.max_tokens).min(context)).saturating_mul(each);
        let most = self.limits.numbers;
        if all <= most {
            return Ok(());
        }
        let message =
            format!("the answer could have {all} tokens, logprobs and ids; this server gives at most {most}");
        Err(Failure::request(message))
    }
}

/// A number of logprobs; a negative one means all.
fn count(asked: i64) -> u64 {
    u64::try_from(asked).unwrap_or(u64::MAX)
}

/// What OpenAI writes in another form.
fn read_openai(fields: &mut Fields) -> Result<(), Failure> {
    match fields.take("stop") {
        Some(stop @ Value::String(_)) => fields.set("stop", vec![stop]),
        Some(other) => fields.set("stop", other),
        None => {}
    }
    // A program whose numbers are f64 cannot write every seed as one.
    match fields.take("seed") {
        Some(Value::String(digits)) => {
            fields.set("seed", seed::parse(&digits).map_err(|error| Failure::from(&error))?);
        }
        Some(other) => fields.set("seed", other),
        None => {}
    }
    Ok(())
}

fn chosen_seed() -> Result<u64, Failure> {
    let random = getrandom::u64().map_err(|error| Failure::broken(&format!("no random seed: {error}")))?;
    Ok(random >> (u64::BITS - SEED_BITS))
}
