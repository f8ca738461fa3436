//! Sequences on the device that follow those of a batch on the host. Before each step they are brought to
//! where the host's stand: tokens that the host has more are appended, and a sequence that went another way,
//! because it was taken back for example, is made anew.

use std::sync::{Mutex, PoisonError};

use onedraw::{Batch, RowError, SamplingParams, SequenceId, Standing};

use super::opening::{Appending, Openings};
use super::sequence::Shard;
use crate::device::Device;
use crate::error::CudaError;
use crate::record::chain::Record;
use crate::stream::Stream;

/// One sequence on the device.
#[derive(Debug)]
struct Follower {
    id: SequenceId,
    shard: Mutex<Shard>,
    vocabulary: usize,
    /// The tokens that it has written.
    output: Vec<u32>,
}

/// The sequences of a rank on a device, by their slots in the batch.
#[derive(Debug)]
pub(super) struct Followers {
    device: Device,
    followers: Vec<Option<Follower>>,
    /// Tokens that the device does not have yet: the first of each sequence, then the second, and so on.
    missing: Vec<Vec<Appending>>,
}

impl Followers {
    pub(super) fn new(device: &Device) -> Self {
        Self { device: device.clone(), followers: Vec::new(), missing: Vec::new() }
    }

    /// The shard of a sequence that was followed.
    pub(super) fn shard(&self, id: SequenceId) -> Option<&Mutex<Shard>> {
        let follower = self.followers.get(id.slot() as usize)?.as_ref();
        follower.filter(|follower| follower.id == id).map(|follower| &follower.shard)
    }

    /// An error if the device cannot follow a sequence of the batch.
    pub(super) fn check(&self, batch: &Batch, id: SequenceId) -> Result<(), CudaError> {
        let Some(standing) = batch.standing(id) else { return Ok(()) };
        if standing.is_taken_back {
            return Err(CudaError::unsupported("text that was taken back"));
        }
        // The others were followed before.
        if self.shard(id).is_none() {
            Record::new(standing.params)?;
        }
        Ok(())
    }

    /// Follows a sequence to where it stands, over rows of `vocabulary` logits, if it can be followed. The inner
    /// error is that of its row. After the outer one [`Followers::forget`] must be called.
    pub(super) fn follow(
        &mut self,
        batch: &Batch,
        id: SequenceId,
        vocabulary: usize,
    ) -> Result<Result<(), RowError>, CudaError> {
        let Some(standing) = batch.standing(id) else { return Ok(Err(RowError::UnknownSequence)) };
        if let Err(error) = batch.check_vocabulary(id, vocabulary) {
            return Ok(Err(error));
        }
        let slot = id.slot() as usize;
        if slot >= self.followers.len() {
            self.followers.resize_with(slot + 1, || None);
        }
        match &mut self.followers[slot] {
            Some(follower) if follower.is_before(&standing, id, vocabulary) => {
                let shard = follower.shard.get_mut().unwrap_or_else(PoisonError::into_inner);
                for (turn, &token) in standing.output[follower.output.len()..].iter().enumerate() {
                    if turn == self.missing.len() {
                        self.missing.push(Vec::new());
                    }
                    self.missing[turn].push(Appending { sequence: shard.address(), token, reserved: 0 });
                    shard.move_on();
                }
                follower.output.extend_from_slice(&standing.output[follower.output.len()..]);
            }
            place => {
                let output = standing.output.to_vec();
                let shard = match Shard::standing(&self.device, &standing, vocabulary) {
                    Ok(shard) => Mutex::new(shard),
                    Err(CudaError::Row(error)) => return Ok(Err(error)),
                    Err(error) => return Err(error),
                };
                *place = Some(Follower { id, shard, vocabulary, output });
            }
        }
        Ok(Ok(()))
    }

    /// Appends the missing tokens, in the stream's order. After an error [`Followers::forget`] must be called.
    pub(super) fn move_on(&mut self, stream: Stream<'_>, openings: &mut Openings) -> Result<(), CudaError> {
        for list in std::mem::take(&mut self.missing) {
            openings.append(stream, &list)?;
        }
        Ok(())
    }

    /// Forgets all sequences, because it is not known where they stand on the device.
    pub(super) fn forget(&mut self) {
        self.followers.clear();
        self.missing.clear();
    }
}

impl Follower {
    /// Whether it is that sequence, and has written what that one has, or the beginning of it.
    fn is_before(&self, standing: &Standing<'_>, id: SequenceId, vocabulary: usize) -> bool {
        self.id == id && self.vocabulary == vocabulary && standing.output.starts_with(&self.output)
    }
}

impl Shard {
    /// A sequence of the host, where it stands.
    fn standing(device: &Device, standing: &Standing<'_>, vocabulary: usize) -> Result<Self, CudaError> {
        let Standing { params, seed, sequence, prompt, output, .. } = *standing;
        let params = SamplingParams {
            seed: Some(seed),
            prompt_token_ids: prompt.to_vec(),
            output_token_ids: output.to_vec(),
            ..params.clone()
        };
        Self::number(device, &params, sequence, vocabulary)
    }
}
