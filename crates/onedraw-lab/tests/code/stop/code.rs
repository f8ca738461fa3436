use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw_lm::{Generator, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"include_stop_str_in_output\":true,\"max_tokens\":60,\"order\":[\"logit_bias\",\"penalties\",\"no_repeat_ngram\",\"bad_words\",\"min_tokens\",\"allowed\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typical\",\"epsilon\",\"eta\"],\"seed\":7,\"stop\":[\"named\",\".\"],\"temperature\":0.7,\"top_k\":50,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("Once upon a time")?;
    let mut generator = Generator::new(&model, &*tokenizer);
    generator.add_chosen(&prompt, params, &[].into(), None)?;
    print!("{}", generator.finish()?[0].text);
    Ok(())
}
