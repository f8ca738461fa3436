//! A decode loop that takes text back: `cargo run -p onedraw --example banned_strings`.
//!
//! The "model" is a table of which word may follow which. A [`StopMatcher`] reads the text as it grows. When
//! a banned string is completed, it says how many tokens to keep, and [`Sampler::take_back`] bans the token
//! that began the phrase. Text that was shown is never taken back.

use onedraw::{RowError, Sampler, SamplingParams, StopConditions, StopMatcher, Utf8Stream};

const WORDS: [&str; 10] =
    ["The", " cat", " fox", " sat", " ran", " on", " into", " the mat", " the wood", "."];

const BANNED: [&str; 3] = ["fox ran into", "sat into", "the wood"];

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
    let logit = |id: u32| if id.is_multiple_of(2) { 1.0 } else { 0.0 };
    (0..10).map(|id| if next.contains(&id) { logit(id) } else { f32::NEG_INFINITY }).collect()
}

/// Returns the text, and how often some of it was taken back.
fn write(seed: u64, banned: &[&str]) -> Result<(String, usize), Box<dyn std::error::Error>> {
    let params = SamplingParams::builder()
        .banned_strings(banned.iter().map(|&phrase| phrase.to_owned()).collect::<Vec<_>>())
        .stop(["."].map(str::to_owned))
        .seed(seed)
        .build()?;
    let mut matcher = StopMatcher::new(StopConditions::new(&params)?);
    let mut sampler = Sampler::new(params)?;
    // Tokens may end inside a character; this waits for its other half.
    let mut stream = Utf8Stream::default();
    let (mut text, mut rewinds) = (String::new(), 0);
    loop {
        let token = match sampler.sample(&logits(sampler.output().last().copied())) {
            Ok(sampled) => sampled.token,
            // Every token that could come here was taken back, so the text ends.
            Err(RowError::NothingLeft { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        let progress = matcher.push(token, WORDS[token as usize].as_bytes());
        text.push_str(stream.push(progress.text));
        if let Some(rewind) = progress.rewind {
            sampler.take_back(&rewind);
            rewinds += 1;
        }
        if progress.finish.is_some() {
            break;
        }
    }
    text.push_str(stream.push(matcher.finish()));
    text.push_str(stream.finish());
    Ok((text, rewinds))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:<28}without {BANNED:?}", "as it comes");
    for seed in 0..6 {
        let (free, _) = write(seed, &[])?;
        let (guarded, rewinds) = write(seed, &BANNED)?;
        println!("{free:<28}{guarded:<28}{rewinds} taken back");
        assert!(BANNED.iter().all(|phrase| !guarded.contains(phrase)));
    }
    Ok(())
}
