//! Every instruction set against the scalar reference, on one row after another.

use onedraw::noise::Noise;
use onedraw::reference;
use onedraw::{
    Distribution, Kernel, LogprobsMode, ParamError, Row, RowError, Sampled, Sampler, SamplingParams,
};

/// A sampler for each instruction set of this machine. They go from row to row, so what one row leaves in
/// their memory meets the next, of another length.
pub struct Kernels {
    params: SamplingParams,
    samplers: Vec<(Kernel, Sampler)>,
}

/// All that is asked of a row, floating-point numbers as bits.
#[derive(Debug, PartialEq)]
struct Answer {
    token: u32,
    /// Each token that could be drawn, with its probability and logprob.
    distribution: Vec<(u32, u64, u64)>,
    /// The probability with which the token was drawn, where the parameters ask for logprobs.
    probability: Option<u64>,
    /// The drawn token and the best others with logprob and rank, where the parameters ask for logprobs.
    listed: Vec<(u32, u64, u32)>,
}

fn bits(distribution: &Distribution) -> Vec<(u32, u64, u64)> {
    let Distribution { tokens, probabilities, logprobs } = distribution;
    let numbers = probabilities.iter().zip(logprobs).map(|(p, l)| (p.to_bits(), l.to_bits()));
    tokens.iter().zip(numbers).map(|(&token, (probability, logprob))| (token, probability, logprob)).collect()
}

impl Kernels {
    /// The parameters name a seed, and no ids outside of the shortest row. Logprobs are raw or processed
    /// ones, not logits.
    pub fn new(params: SamplingParams) -> Result<Self, ParamError> {
        // `Auto` is one of the others.
        let kernels =
            Kernel::ALL.into_iter().filter(|&kernel| kernel != Kernel::Auto && kernel.is_supported());
        let sampler = |kernel| Ok((kernel, Sampler::new(params.clone())?.kernel(kernel)));
        Ok(Self { samplers: kernels.map(sampler).collect::<Result<_, _>>()?, params })
    }

    /// Panics unless all answer as the reference does: the same token, the same numbers to the bit, or the
    /// same error.
    pub fn check(&mut self, row: Row<'_>, mask: Option<&[u32]>) {
        let expected = self.by_reference(row, mask);
        for (kernel, sampler) in &mut self.samplers {
            let found = by_engine(sampler, row, mask);
            // Thousands of numbers: the place where they part says more than all of them.
            if let (Ok(found), Ok(expected)) = (&found, &expected) {
                let mut pairs = found.distribution.iter().zip(&expected.distribution);
                if let Some(pair) = pairs.find(|(found, expected)| found != expected) {
                    panic!("{kernel}, {} logits, {:?}: {pair:?}", row.len(), self.params);
                }
            }
            assert_eq!(found, expected, "{kernel}, {} logits, {:?}", row.len(), self.params);
        }
    }

    fn by_reference(&self, row: Row<'_>, mask: Option<&[u32]>) -> Result<Answer, RowError> {
        let params = &self.params;
        let position = params.output_token_ids.len() as u32;
        let noise = Noise { seed: params.seed.unwrap_or(0), position, sequence: 0, round: 0 };
        let left = reference::left(row, mask, params, &noise)?;
        let (token, distribution) = (left.draw(&noise), bits(&left.distribution()));
        let mut answer = Answer { token, distribution, probability: None, listed: Vec::new() };
        if let Some(count) = params.logprobs {
            let reported = match params.logprobs_mode {
                LogprobsMode::RawLogprobs => {
                    bits(&reference::left(row, None, &SamplingParams::default(), &noise)?.distribution())
                }
                _ => answer.distribution.clone(),
            };
            let (drawn, others): (Vec<_>, Vec<_>) =
                reported.into_iter().zip(1u32..).partition(|((id, ..), _)| *id == token);
            let best = others.iter().filter(|(_, rank)| count < 0 || i64::from(*rank) <= count);
            let listed = drawn.iter().chain(best).map(|&((token, _, logprob), rank)| (token, logprob, rank));
            answer.listed = listed.collect();
            let drawn_from = answer.distribution.iter().find(|(id, ..)| *id == token);
            answer.probability = drawn_from.map(|&(_, probability, _)| probability);
        }
        Ok(answer)
    }
}

fn by_engine(sampler: &mut Sampler, row: Row<'_>, mask: Option<&[u32]>) -> Result<Answer, RowError> {
    let before = sampler.output().len();
    let (distribution, sampled) = match mask {
        None => (sampler.distribution(row), sampler.sample(row)),
        Some(mask) => (sampler.distribution_masked(row, mask), sampler.sample_masked(row, mask)),
    };
    sampler.rewind(before);
    let Sampled { token, probability, logprobs, .. } = sampled?;
    Ok(Answer {
        token,
        distribution: bits(&distribution?),
        probability: probability.map(f64::to_bits),
        listed: logprobs.iter().map(|listed| (listed.token, listed.logprob.to_bits(), listed.rank)).collect(),
    })
}
