use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw_lm::{Generator, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"max_tokens\":24,\"min_p\":0.05,\"order\":[\"min_p\",\"temperature\",\"top_k\",\"top_p\",\"penalties\"],\"seed\":7,\"temperature\":1.3,\"top_k\":20,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("Tom saw a big")?;
    let mut generator = Generator::new(&model, &*tokenizer);
    generator.add_chosen(&prompt, params, &[].into(), None)?;
    print!("{}", generator.finish()?[0].text);
    Ok(())
}
