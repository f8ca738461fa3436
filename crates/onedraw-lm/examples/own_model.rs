//! A language model of your own under the decode loop: `cargo run -p onedraw-lm --example own_model`.
//!
//! This one knows which letter followed which three in a text. It gets batches, streams, stop strings and the
//! rest from [`Generator`].

use onedraw::SamplingParams;
use onedraw_lm::{Answer, Generator, LanguageModel, ModelError, Run, Sequence, Vocabulary};

const TEXT: &str = "One day a small bear went to the lake. The bear saw a small boat on the lake. \
    One day the boat went to the sea. The sea was big and the bear was small. The bear was happy on the boat. ";

struct Letters {
    bytes: Vec<u8>,
}

/// What this model remembers is the text itself.
#[derive(Clone)]
struct Line(Vec<u32>);

impl Sequence for Line {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn cut(&mut self, length: usize) {
        self.0.truncate(length);
    }

    fn keep(&mut self, _path: &[usize]) -> Result<(), ModelError> {
        Err(ModelError::Request("this model takes no trees".to_owned()))
    }
}

impl LanguageModel for Letters {
    type Sequence = Line;

    fn vocabulary(&self) -> usize {
        256
    }

    fn context(&self) -> usize {
        1000
    }

    fn start(&self) -> Line {
        Line(Vec::new())
    }

    fn forward(&self, runs: &mut [Run<'_, Line>]) -> Result<Vec<Answer>, ModelError> {
        if runs.iter().any(|run| run.parents.is_some()) {
            return Err(ModelError::Request("this model takes no trees".to_owned()));
        }
        let mut answers = Vec::new();
        for run in runs {
            let mut answer = Answer::default();
            for (place, &token) in run.tokens.iter().enumerate() {
                run.sequence.0.push(token);
                if place + run.asks.logits.rows(run.tokens.len()) >= run.tokens.len() {
                    answer.logits.extend(self.logits(&run.sequence.0));
                }
            }
            answers.push(answer);
        }
        Ok(answers)
    }
}

impl Letters {
    /// What followed the last three letters is likely, the more often it did; everything else all but
    /// impossible.
    fn logits(&self, tokens: &[u32]) -> Vec<f32> {
        let last = &tokens[tokens.len().saturating_sub(3)..];
        let mut row = vec![-40.0f32; 256];
        for window in TEXT.as_bytes().windows(last.len() + 1) {
            let (before, next) = (&window[..last.len()], window[last.len()]);
            if before.iter().zip(last).all(|(&byte, &token)| u32::from(byte) == token) {
                let logit = &mut row[usize::from(next)];
                *logit = logit.max(0.0) + 0.5;
            }
        }
        row
    }
}

/// Every token is a byte.
impl Vocabulary for Letters {
    fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize..token as usize + 1).unwrap_or_default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Letters { bytes: (0..=255).collect() };
    let prompt: Vec<u32> = "One".bytes().map(u32::from).collect();
    let params =
        SamplingParams::builder().max_tokens(200u32).stop(vec![". ".to_owned()]).seed(3).n(3u32).build()?;
    let mut generator = Generator::new(&model, &model);
    generator.add(&prompt, params)?;
    for text in generator.finish()? {
        println!("One{}.", text.text);
    }
    Ok(())
}
