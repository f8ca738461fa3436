//! A decode loop that takes text back: `cargo run -p onedraw --example banned_strings`.
//!
//! The "model" is a table of which word may follow which. A [`StopMatcher`] reads the text as it grows; when a banned string is
//! completed it says how many tokens to keep, and [`Sampler::take_back`] bans the token that began the phrase. What is shown was
//! never taken back.

use onedraw::{Sampler, SamplingParams, StopConditions, StopMatcher};

const WORDS: [&str; 10] =
    ["The", " cat", " fox", " sat", " ran", " on", " into", " the mat", " the wood", "."];

/// Words go from left to right; the likelier of two is the one with the even id.
fn logits(last: Option<u32>) -> Vec<f32> {
    let next = match last {
        None => 0..1,
        Some(0) => 1..3,
        Some(1 | 2) => 3..5,
        Some(3 | 4) => 5..7,
        Some(5 | 6) => 7..9,
        Some(_) => 9..10,
    };
    (0..10)
        .map(|id| if next.contains(&id) { if id % 2 == 0 { 1.0 } else { 0.0 } } else { f32::NEG_INFINITY })
        .collect()
}

fn write(seed: u64, banned: &[&str]) -> Result<(String, usize), Box<dyn std::error::Error>> {
    let banned: Vec<String> = banned.iter().map(|&phrase| phrase.to_owned()).collect();
    let params =
        SamplingParams::builder().banned_strings(banned).stop(["."].map(str::to_owned)).seed(seed).build()?;
    let mut matcher = StopMatcher::new(StopConditions::new(&params)?);
    let mut sampler = Sampler::new(params)?;
    let (mut text, mut rewinds) = (String::new(), 0);
    loop {
        let token = sampler.sample(&logits(sampler.output().last().copied()))?.token;
        let progress = matcher.push(token, WORDS[token as usize].as_bytes());
        text.push_str(std::str::from_utf8(progress.text)?);
        if let Some(rewind) = progress.rewind {
            sampler.take_back(&rewind);
            rewinds += 1;
        }
        if progress.finish.is_some() {
            return Ok((text, rewinds));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for seed in 0..5 {
        let (free, _) = write(seed, &[])?;
        let (guarded, rewinds) = write(seed, &["fox ran into", "sat into", "the wood"])?;
        println!(
            "{free:<32} without \"fox ran into\", \"sat into\", \"the wood\": {guarded} ({rewinds} taken back)"
        );
        assert!(!guarded.contains("the wood") && !guarded.contains("fox ran into"));
    }
    Ok(())
}
