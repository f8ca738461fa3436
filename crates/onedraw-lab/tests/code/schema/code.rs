use std::sync::Arc;

use onedraw::SamplingParams;
use onedraw_grammar::{Grammar, Vocabulary};
use onedraw_lm::{Generator, LanguageModel, stories};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));
    let params = SamplingParams::from_json("{\"eos_token_id\":[0],\"max_tokens\":60,\"order\":[\"logit_bias\",\"penalties\",\"no_repeat_ngram\",\"bad_words\",\"min_tokens\",\"allowed\",\"temperature\",\"top_k\",\"top_p\",\"min_p\",\"typical\",\"epsilon\",\"eta\"],\"seed\":7,\"temperature\":0.7,\"top_k\":50,\"top_p\":0.9}")?;
    let prompt = tokenizer.encode("The dog is ")?;
    let (tokens, cutter) = (0..model.vocabulary() as u32, tokenizer.clone());
    let vocabulary = Vocabulary::builder(tokens.map(|token| tokenizer.bytes(token)))
        .eos(params.eos_token_id.clone())
        .cut_by(move |text| cutter.encode_plain(text).ok())
        .build()?;
    let grammar = Grammar::compact_json_schema(&vocabulary, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}")?.start();
    let mut generator = Generator::new(&model, &*tokenizer);
    generator.add_chosen(&prompt, params, &[].into(), Some(&grammar))?;
    print!("{}", generator.finish()?[0].text);
    Ok(())
}
