//! Writes the golden texts anew: `cargo run -p onedraw-lm --example golden_stories`.

#[path = "../tests/stories/cases.rs"]
mod cases;

use onedraw_lm::stories;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (model, tokenizer) = (stories::model()?, stories::tokenizer()?);
    let line = |case| serde_json::to_string(&cases::write(&model, &tokenizer, case));
    let lines = cases::CASES.into_iter().map(line).collect::<Result<Vec<_>, _>>()?;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/stories.json");
    Ok(std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n")))?)
}
