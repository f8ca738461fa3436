use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw::beam::{BeamParams, BeamStyle};
use onedraw_grammar::{Grammar, Vocabulary};
use onedraw_lm::{Beams, LanguageModel, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"max_tokens\":12,\"n\":2,\"order\":[\"logit_bias\",\"penalties\",\"no_repeat_ngram\",\"bad_words\",\"min_tokens\",\"allowed\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typical\",\"epsilon\",\"eta\"],\"repetition_penalty\":1.1,\"temperature\":0.7,\"top_k\":50,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("Is it? ")?;
    let (tokens, cutter) = (0..model.vocabulary() as u32, tokenizer.clone());
    let vocabulary = Vocabulary::builder(tokens.map(|token| tokenizer.bytes(token)))
        .eos(params.eos_token_id.clone())
        .cut_by(move |text| cutter.encode_plain(text).ok())
        .build()?;
    let grammar = Grammar::compact_json_schema(&vocabulary, "{\"enum\":[\"yes\",\"no\",\"maybe\"]}")?.start();
    let beams = BeamParams { width: 2, style: BeamStyle::Gnmt, length_penalty: 0.5, ..BeamParams::default() };
    let beams = Beams::new(&model, &*tokenizer).constrained(&grammar).search(&prompt, params, beams)?;
    for found in beams {
        println!("{}", found.text);
    }
    Ok(())
}
