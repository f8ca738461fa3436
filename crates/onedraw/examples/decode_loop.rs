//! onedraw in a decode loop of your own: `cargo run --example decode_loop`.

use onedraw::{Sampler, SamplingParams, StopConditions, StopMatcher, Utf8Stream};

/// A stand-in for your model: the logits of the 128 letters of ASCII after some tokens.
fn logits(tokens: &[u32]) -> Vec<f32> {
    const TEXT: &[u8] = b"the cat sat on the mat and the dog sat on the log and the rat ate the hat.\n";
    let mut row = vec![-40.0f32; 128];
    for three in TEXT.windows(3) {
        let before = [u32::from(three[0]), u32::from(three[1])];
        if tokens.ends_with(&before) {
            let logit = &mut row[usize::from(three[2])];
            *logit = logit.max(0.0) + 0.2;
        }
    }
    row
}

/// A stand-in for your tokenizer: the bytes of a token.
fn bytes(token: u32) -> [u8; 1] {
    [token as u8]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut tokens = vec![u32::from(b't'), u32::from(b'h')];
    let params = SamplingParams::builder()
        .temperature(0.8)
        .top_p(0.95)
        .max_tokens(80u32)
        .stop(vec![".".to_owned()])
        .prompt_token_ids(tokens.clone())
        .seed(7);
    let params = params.build()?;

    // The decode loop: ten lines.
    let mut sampler = Sampler::new(params.clone())?;
    let mut stop = StopMatcher::new(StopConditions::new(&params)?);
    let mut text = Utf8Stream::default();
    loop {
        let token = sampler.sample(&logits(&tokens))?.token;
        tokens.push(token);
        let progress = stop.push(token, &bytes(token));
        print!("{}", text.push(progress.text));
        if let Some(finish) = progress.finish {
            println!("{}\n({finish:?})", text.finish());
            return Ok(());
        }
    }
}
