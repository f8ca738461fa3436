//! A draw over shards whose messages are changed on the way.

use onedraw::{RowError, Sampled, Sampler, ShardMemory};

use super::Bytes;
use super::chain::Case;

/// What happens to one message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Byte { place: usize, value: u8 },
    Cut { length: usize },
    Append { bytes: usize },
    Lose,
}

impl Change {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let place = usize::from(bytes.u16());
        match bytes.below(8) {
            0 => Self::Cut { length: place },
            1 => Self::Append { bytes: place },
            2 => Self::Lose,
            _ => Self::Byte { place, value: bytes.u8() },
        }
    }

    /// The message as it arrives; `None` if it does not.
    pub(super) fn of(self, mut message: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Byte { place, value } => {
                let place = place % message.len().max(1);
                message.iter_mut().skip(place).take(1).for_each(|byte| *byte = value);
            }
            Self::Cut { length } => message.truncate(length),
            Self::Append { bytes } => message.resize(message.len() + bytes, 0),
            Self::Lose => return None,
        }
        Some(message)
    }
}

/// A change and the messages that it happens to.
struct Fault {
    change: Change,
    shard: usize,
    is_question: bool,
    /// The number of the question; `None`: all of them.
    at: Option<usize>,
}

impl Fault {
    fn read(bytes: &mut Bytes<'_>) -> Self {
        let (shard, is_question) = (bytes.below(2), bytes.below(4) == 3);
        let at = Some(bytes.below(16)).filter(|&at| at < 15);
        Self { change: Change::read(bytes), shard, is_question, at }
    }
}

/// A message after all faults that concern it.
fn arrived(
    faults: &[Fault],
    message: &[u8],
    (shard, number, is_question): (usize, usize, bool),
) -> Option<Vec<u8>> {
    let concerns = |fault: &&Fault| {
        fault.shard == shard && fault.is_question == is_question && fault.at.is_none_or(|at| at == number)
    };
    let mut faults = faults.iter().filter(concerns);
    faults.try_fold(message.to_vec(), |message, fault| fault.change.of(message))
}

/// A draw over two shards: the token of the whole row if every message arrives as it was sent. If some are
/// lost, cut or longer, an error; if bytes are changed, an error or a token of the vocabulary. An error leaves
/// the history as it was.
pub fn messages(data: &[u8]) {
    let mut bytes = Bytes(data);
    let faults = bytes.list(4, Fault::read);
    let edge = usize::from(bytes.u16());
    let case = Case::read(&mut bytes);
    let (row, mask) = (case.logits.row(), case.mask.as_deref());
    let Ok(mut sampler) = Sampler::new(case.params) else { return };
    let (holder, mut whole) = (sampler.clone(), sampler.clone());
    let expected = match mask {
        None => whole.sample(row),
        Some(mask) => whole.sample_masked(row, mask),
    };
    let edge = edge % (row.len() + 1);
    let (mut low, mut high) = (ShardMemory::default(), ShardMemory::default());
    let parts = [
        holder.shard(row.part(0..edge), 0, mask, &mut low),
        holder.shard(row.part(edge..row.len()), edge, mask, &mut high),
    ];
    let mut shards = match parts {
        [Ok(low), Ok(high)] => [low, high],
        // A shard needs the mask up to its own last token.
        [Err(RowError::MaskTooShort { .. }), _] | [_, Err(RowError::MaskTooShort { .. })] => {
            return assert!(matches!(expected, Err(RowError::MaskTooShort { .. })), "{expected:?}");
        }
        [Err(error), _] | [_, Err(error)] => return assert_eq!(Err(error), expected),
    };
    let position = sampler.position();
    let (mut is_changed, mut number) = (false, 0);
    let drawn = sampler.sample_over(row.len(), 2, mask.is_some(), |question| {
        let mut replies = Vec::new();
        for (i, shard) in shards.iter_mut().enumerate() {
            let asked = arrived(&faults, question, (i, number, true));
            is_changed |= asked.as_deref() != Some(question);
            let Some(reply) = asked.map(|asked| shard.reply(&asked)) else { continue };
            let answered = arrived(&faults, &reply, (i, number, false));
            is_changed |= answered.as_ref() != Some(&reply);
            replies.extend(answered.map(|answered| (i, answered)));
        }
        number += 1;
        replies
    });
    match drawn {
        drawn if !is_changed => assert_eq!(drawn, expected),
        Ok(Sampled { token, .. }) => {
            let are_bytes_changed = faults.iter().any(|fault| matches!(fault.change, Change::Byte { .. }));
            assert!(are_bytes_changed, "a token, though a message did not arrive whole");
            assert!((token as usize) < row.len(), "token {token}");
        }
        Err(RowError::Shard(_) | RowError::NanLogit { .. } | RowError::InfiniteLogit { .. })
        | Err(RowError::NothingLeft { .. }) => assert_eq!(sampler.position(), position),
        Err(error) => panic!("{error} of a changed message"),
    }
}
