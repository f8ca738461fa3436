use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw::beam::BeamParams;
use onedraw_lm::{Beams, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"max_tokens\":8,\"n\":3,\"order\":[\"logit_bias\",\"penalties\",\"no_repeat_ngram\",\"bad_words\",\"min_tokens\",\"allowed\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typical\",\"epsilon\",\"eta\"],\"temperature\":0.7,\"top_k\":50,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("Tom saw a big")?;
    let beams = BeamParams { width: 3, ..BeamParams::default() };
    let beams = Beams::new(&model, &*tokenizer).search(&prompt, params, beams)?;
    for found in beams {
        println!("{}", found.text);
    }
    Ok(())
}
