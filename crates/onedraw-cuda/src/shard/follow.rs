//! Sequences on the device that follow those of a batch on the host. Before each step they are brought to
//! where the host's stand: tokens that the host has more are appended, and a sequence that went another way,
//! because it was taken back for example, is made anew.

use std::sync::{Mutex, PoisonError};

use onedraw::{Batch, RowError, SamplingParams, SequenceId, Standing};

use super::desks::Desks;
use super::opening::{Appending, Openings};
use super::sequence::{Shard, TakenBack};
use crate::device::Device;
use crate::error::CudaError;
use crate::stream::Stream;

/// One sequence on the device.
#[derive(Debug)]
struct Follower {
    id: SequenceId,
    shard: Mutex<Shard>,
    vocabulary: usize,
    /// The tokens that it has written.
    output: Vec<u32>,
    taken_back: TakenBack,
}

/// The sequences of a rank on a device, by their slots in the batch.
#[derive(Debug)]
pub(super) struct Followers {
    device: Device,
    followers: Vec<Option<Follower>>,
    /// Where changed rows of all sequences lie.
    desks: Desks,
    /// Tokens that the device does not have yet: the first of each sequence, then the second, and so on.
    missing: Vec<Vec<Appending>>,
}

impl Followers {
    pub(super) fn new(device: &Device) -> Self {
        Self { device: device.clone(), followers: Vec::new(), desks: Desks::default(), missing: Vec::new() }
    }

    /// The shard of a sequence that was followed.
    pub(super) fn shard(&self, id: SequenceId) -> Option<&Mutex<Shard>> {
        let follower = self.followers.get(id.slot() as usize)?.as_ref();
        follower.filter(|follower| follower.id == id).map(|follower| &follower.shard)
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
                shard.make_room(standing.output.len() - follower.output.len())?;
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
                let (params, taken_back) = (params_of(&standing), taken_back(&standing));
                let made = taken_back.clone();
                let shard =
                    Shard::standing(&self.device, &params, standing.sequence, made, vocabulary, &self.desks);
                let shard = match shard {
                    Ok(shard) => Mutex::new(shard),
                    Err(CudaError::Row(error)) => return Ok(Err(error)),
                    Err(error) => return Err(error),
                };
                *place = Some(Follower { id, shard, vocabulary, output, taken_back });
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
        let is_followed = self.id == id && self.vocabulary == vocabulary;
        let has_same_bans = standing.banned.is_empty() || standing.banned == self.taken_back.banned;
        is_followed
            && standing.output.starts_with(&self.output)
            && standing.round == self.taken_back.round
            && has_same_bans
    }
}

/// How a sequence of the host was taken back.
fn taken_back(standing: &Standing<'_>) -> TakenBack {
    TakenBack { round: standing.round, banned: standing.banned.clone() }
}

/// The parameters of a sequence of the host, where it stands.
fn params_of(standing: &Standing<'_>) -> SamplingParams {
    SamplingParams {
        seed: Some(standing.seed),
        prompt_token_ids: standing.prompt.to_vec(),
        output_token_ids: standing.output.to_vec(),
        ..standing.params.clone()
    }
}
