use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw_lm::{Generator, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"max_tokens\":24,\"order\":[\"logit_bias\",\"penalties\",\"no_repeat_ngram\",\"bad_words\",\"min_tokens\",\"allowed\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typical\",\"epsilon\",\"eta\"],\"seed\":18446744073709551615,\"temperature\":0.7,\"top_k\":50,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("Tom's \"big\" dog")?;
    let mut generator = Generator::new(&model, &*tokenizer);
    generator.add_chosen(&prompt, params, &[].into(), None)?;
    print!("{}", generator.finish()?[0].text);
    Ok(())
}
