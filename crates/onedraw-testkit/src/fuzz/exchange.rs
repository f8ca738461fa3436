//! A draw over ranks, some of whose messages are changed on the way or are no messages at all.

use onedraw::{Batch, Exchange, Rank, RankMemory, RowError, Sampled, SamplingParams, Step};

use super::Bytes;
use super::chain::Case;
use super::messages::Change;

/// More rounds than any draw over so few tokens takes: a rejected token takes a few, and is not drawn again.
const MOST_ROUNDS: usize = 4000;

/// What happens to the messages of one rank.
enum Fault {
    /// Some of them arrive in another form, or not at all.
    Changed { change: Change, rank: usize, round: Option<usize> },
    /// One of them has these bytes from some place on.
    Overwritten { bytes: Vec<u8>, place: usize, rank: usize, round: usize },
}

impl Fault {
    fn read(bytes: &mut Bytes<'_>) -> Self {
        let (rank, round) = (bytes.below(3), bytes.below(8));
        if bytes.below(3) == 0 {
            let place = usize::from(bytes.u16()) % (2 * Exchange::SLOT);
            return Self::Overwritten { bytes: bytes.list(64, Bytes::u8), place, rank, round };
        }
        let round = Some(round).filter(|&round| round < 7);
        Self::Changed { change: Change::read(bytes), rank, round }
    }

    /// The message as it arrives; `None` if it does not.
    fn of(&self, mut message: Vec<u8>, sender: usize, number: usize) -> Option<Vec<u8>> {
        match self {
            Self::Changed { change, rank, round } => {
                let concerns = *rank == sender && round.is_none_or(|round| round == number);
                if concerns { change.of(message) } else { Some(message) }
            }
            Self::Overwritten { bytes, place, rank, round } => {
                if *rank == sender && *round == number {
                    message.iter_mut().skip(*place).zip(bytes).for_each(|(old, new)| *old = *new);
                }
                Some(message)
            }
        }
    }
}

/// A draw of one row, twice in a step, over three ranks. If every message arrives as it was sent, the results
/// are those of the whole row. Else each is an error or a token of the vocabulary. Either way all ranks come to
/// the same, and no message is longer than was said.
pub fn exchange(data: &[u8]) {
    let mut bytes = Bytes(data);
    let faults = bytes.list(4, Fault::read);
    let edges = [usize::from(bytes.u16()), usize::from(bytes.u16())];
    let case = Case::read(&mut bytes);
    let (row, mask) = (case.logits.row(), case.mask.as_deref());
    let params = SamplingParams { seed: case.params.seed.or(Some(7)), n: 1, ..case.params };
    let add = || {
        let mut batch = Batch::new();
        let ids = [batch.add(params.clone()), batch.add(params.clone())];
        (batch, ids)
    };
    let (mut whole, [Ok(first), Ok(second)]) = add() else { return };
    let step = |row| [first, second].map(|sequence| Step { sequence, row, mask });
    let expected = whole.peek(&step(row), 0);

    let vocabulary = row.len();
    let [a, b] = edges.map(|edge| edge % (vocabulary + 1));
    let parts = [0..a.min(b), a.min(b)..a.max(b), a.max(b)..vocabulary];
    let batches = [add().0, add().0, add().0];
    let mut memories = [RankMemory::default(), RankMemory::default(), RankMemory::default()];
    let mut exchanges: Vec<Exchange<'_>> = Vec::new();
    for ((batch, memory), part) in batches.iter().zip(&mut memories).zip(&parts) {
        let rank = Rank { count: parts.len(), vocabulary, start: part.start };
        exchanges.push(batch.exchange(&step(row.part(part.clone())), &rank, 0, memory));
    }
    let (mut is_changed, mut round) = (false, 0);
    while exchanges[0].message().is_some() {
        let room = exchanges[0].room();
        let mut messages = Vec::new();
        for (rank, exchange) in exchanges.iter().enumerate() {
            let sent = exchange.message().expect("all ranks go on");
            assert!(sent.len() <= room && exchange.room() == room, "{} bytes of {room}", sent.len());
            let arrives =
                faults.iter().try_fold(sent.to_vec(), |message, fault| fault.of(message, rank, round));
            is_changed |= arrives.as_deref() != Some(sent);
            messages.extend(arrives);
        }
        exchanges.iter_mut().for_each(|exchange| exchange.receive(&messages));
        round += 1;
        assert!(round < MOST_ROUNDS, "no end");
    }
    assert!(exchanges.iter().all(|exchange| exchange.message().is_none()), "all ranks end together");
    let results: Vec<_> = exchanges.into_iter().map(Exchange::results).collect();
    if !is_changed {
        results.iter().for_each(|results| assert_eq!(*results, expected));
    }
    for result in &results[0] {
        match result {
            Ok(Sampled { token, .. }) => assert!((*token as usize) < vocabulary, "token {token}"),
            Err(
                RowError::Shard(_)
                | RowError::NanLogit { .. }
                | RowError::InfiniteLogit { .. }
                | RowError::NothingLeft { .. },
            ) => {}
            Err(error) => assert!(expected.contains(&Err(error.clone())), "{error} of a changed message"),
        }
    }
    assert!(results.iter().all(|own| same(own, &results[0])), "all ranks say the same");
}

/// Whether two ranks say the same. A rank that cannot take part knows the reason; the others know who it is, and
/// name the same one.
fn same(one: &[Result<Sampled, RowError>], other: &[Result<Sampled, RowError>]) -> bool {
    let knows = |result: &Result<Sampled, RowError>| !matches!(result, Ok(_) | Err(RowError::Shard(_)));
    let is_same = |(a, b): (&Result<Sampled, RowError>, &Result<Sampled, RowError>)| {
        a == b || (a.is_err() && b.is_err() && (knows(a) || knows(b)))
    };
    one.iter().zip(other).all(is_same)
}
