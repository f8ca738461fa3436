//! A program in Rust.

use std::fmt::Write;

use onedraw::beam::BeamParams;
use serde_json::Value;

use super::recipe::{Recipe, settings};

pub(super) fn of(recipe: &Recipe<'_>) -> String {
    let Recipe { text, model, beams, params, .. } = recipe;
    let params = format!("{:?}", Value::from(params.clone()).to_string());
    let writer = if beams.is_some() { "Beams" } else { "Generator" };
    let (imports, open) = match model {
        None => (
            [writer, "", "stories"],
            "    let (model, tokenizer) = (stories::model()?, Arc::new(stories::tokenizer()?));\n".to_owned(),
        ),
        Some(name) => (
            [writer, "Llama", "Tokenizer"],
            format!(
                "    let folder = std::path::Path::new({name:?});\n    \
                 let (model, tokenizer) = (Llama::open(folder)?, Arc::new(Tokenizer::open(folder)?));\n"
            ),
        ),
    };
    let mut code = String::from("use std::sync::Arc;\n\nuse onedraw::SamplingParams;\n");
    let style = |beams: &BeamParams| beams.style != BeamParams::default().style;
    code += match beams {
        None => "",
        Some(beams) if style(beams) => "use onedraw::beam::{BeamParams, BeamStyle};\n",
        Some(_) => "use onedraw::beam::BeamParams;\n",
    };
    if text.schema.is_some() {
        code += "use onedraw_grammar::{Grammar, Vocabulary};\n";
    }
    // The size of the vocabulary is the model's.
    let size = text.schema.as_ref().map(|_| "LanguageModel");
    let names: Vec<&str> = [imports[0]]
        .into_iter()
        .chain(size)
        .chain([imports[1], imports[2]])
        .filter(|name| !name.is_empty())
        .collect();
    let body = parts(recipe);
    // Writing into a string cannot fail.
    _ = write!(
        code,
        "use onedraw_lm::{{{names}}};\n\nfn main() -> Result<(), Box<dyn std::error::Error>> {{\n{open}    \
         let params = SamplingParams::from_json({params})?;\n    \
         let prompt = tokenizer.encode({words:?})?;\n{body}    Ok(())\n}}\n",
        names = names.join(", "),
        words = text.words,
    );
    code
}

/// The lines that write the text, or the texts of a search.
fn parts(recipe: &Recipe<'_>) -> String {
    let text = recipe.text;
    let mut code = String::new();
    let constraint = match &text.schema {
        None => "None",
        Some(schema) => {
            _ = write!(
                code,
                "    let (tokens, cutter) = (0..model.vocabulary() as u32, tokenizer.clone());\n    \
                 let vocabulary = Vocabulary::builder(tokens.map(|token| tokenizer.bytes(token)))\n        \
                 .eos(params.eos_token_id.clone())\n        \
                 .cut_by(move |text| cutter.encode_plain(text).ok())\n        \
                 .build()?;\n    \
                 let grammar = Grammar::compact_json_schema(&vocabulary, {schema:?})?.start();\n"
            );
            "Some(&grammar)"
        }
    };
    if let Some(beams) = recipe.beams {
        let constrained = if text.schema.is_some() { ".constrained(&grammar)" } else { "" };
        _ = write!(
            code,
            "    let beams = BeamParams {{ {}, ..BeamParams::default() }};\n    \
             let beams = Beams::new(&model, &*tokenizer){constrained}.search(&prompt, params, beams)?;\n    \
             for found in beams {{\n        println!(\"{{}}\", found.text);\n    }}\n",
            fields(beams),
        );
        return code;
    }
    code += "    let mut generator = Generator::new(&model, &*tokenizer);\n";
    let chosen: Vec<String> =
        text.chosen.iter().map(|(position, token)| format!("({position}, {token})")).collect();
    _ = write!(
        code,
        "    generator.add_chosen(&prompt, params, &[{}].into(), {constraint})?;\n    \
         print!(\"{{}}\", generator.finish()?[0].text);\n",
        chosen.join(", "),
    );
    code
}

/// The settings of a search as the fields of a struct.
fn fields(beams: &BeamParams) -> String {
    let field = |(name, value): (&str, Value)| match name {
        "style" => format!("style: BeamStyle::{:?}", beams.style),
        _ => format!("{name}: {value}"),
    };
    settings(beams).into_iter().map(field).collect::<Vec<_>>().join(", ")
}
