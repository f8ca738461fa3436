//! `/v1/completions`.

use super::fields::Fields;
use super::params::{Length, Parameters};
use super::{Asked, Interface, Reader};
use crate::failure::Failure;

/// OpenAI's length of a completion.
const MAX_TOKENS: u32 = 16;

/// The fields that are read here.
const KNOWN: [&str; 10] = [
    "model",
    "prompt",
    "stream",
    "stream_options",
    "echo",
    "response_format",
    "structured_outputs",
    "preset",
    "return_token_ids",
    "max_completion_tokens",
];

impl Reader {
    pub(super) fn completion(&self, body: &[u8]) -> Result<Asked, Failure> {
        let mut fields = Fields::read(body)?;
        fields.model(&self.model)?;
        fields.treat(Interface::Completions)?;
        let prompts = fields.take("prompt");
        let prompts = self.prompts("prompt", prompts)?;
        let (streams, tells_usage) = streaming(&mut fields)?;
        let (echoes, tells_ids) = (fields.flag("echo")?, fields.flag("return_token_ids")?);
        let format = fields.object("response_format")?;
        let form = self.form(&mut fields, "response_format", format)?;
        fields.rename("max_completion_tokens", "max_tokens")?;
        let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or_default();
        let Parameters { mut params, says_length } =
            self.params(fields, Length::Tokens(MAX_TOKENS), longest, &KNOWN)?;
        // An echo with logprobs has those of the prompt too.
        if echoes && params.prompt_logprobs.is_none() {
            params.prompt_logprobs = params.logprobs;
        }
        self.check_size(&params, prompts.len())?;
        let form = form.map(|form| form.ended_by(&params.eos_token_id));
        let repeated = serde_json::Map::new();
        Ok(Asked { prompts, params, says_length, form, streams, tells_usage, echoes, tells_ids, repeated })
    }
}

/// Whether the answer is a stream, and whether that ends with the numbers of tokens.
pub(super) fn streaming(fields: &mut Fields) -> Result<(bool, bool), Failure> {
    let streams = fields.flag("stream")?;
    let Some(options) = fields.object("stream_options")? else { return Ok((streams, false)) };
    if !streams {
        return Err(Failure::field("stream_options", "stream_options: goes with stream"));
    }
    let mut options = Fields::of("stream_options.", options);
    let tells_usage = options.flag("include_usage")?;
    // It pads events, so that their length tells nothing about their text; here nothing is padded.
    options.flag("include_obfuscation")?;
    options.finish(&["include_usage"])?;
    Ok((streams, tells_usage))
}
