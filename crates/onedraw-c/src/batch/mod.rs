//! Many sequences, each with its own parameters, seed and history.

mod history;
pub(crate) mod report;

use library::{ParamError, RowError, Sampled, SequenceId, Step};

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status, status_of};
use crate::params::{onedraw_params, params_of};
use crate::rows::{Masked, Matrix, onedraw_rows, read_rows};
use crate::sampled::{check_ahead, onedraw_sampled};
use crate::table::{Handle, free, give, with};

/// Sequences that come and go, each with its own parameters, seed and history. The token of a row depends on its
/// own sequence alone. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_batch {}

/// Names a sequence of a batch. It is not used again after the sequence is removed.
pub type onedraw_sequence = u64;

pub(crate) struct Batch {
    pub batch: library::Batch,
    /// The draws of the last call, of which `verify` makes one for each token.
    pub last: Vec<std::result::Result<Sampled, RowError>>,
    /// What `onedraw_batch_json` returns.
    json: String,
    /// Memory for the steps of a call; empty between two calls.
    steps: Vec<Step<'static>>,
}

impl Handle for Batch {
    type Pointee = onedraw_batch;
    const NAME: &'static str = "batch";
}

impl Batch {
    fn last(&self, row: usize) -> Result<&std::result::Result<Sampled, RowError>> {
        self.last.get(row).ok_or_else(|| {
            Failure::nothing(format_args!("the last call drew {} rows, and no row {row}", self.last.len()))
        })
    }
}

/// The number of a sequence as the library knows it.
pub(crate) fn id(sequence: onedraw_sequence) -> SequenceId {
    SequenceId::from_bits(sequence)
}

/// The sequence is not in the batch.
pub(crate) fn unknown() -> Failure {
    Failure::from(RowError::UnknownSequence)
}

/// Makes a batch without sequences, which draws on so many threads; 0: one for each core. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_new(
    threads: usize,
    batch: *mut *mut onedraw_batch,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, batch, || {
            const MOST: usize = 1024;
            if threads > MOST {
                return Err(
                    ParamError::new("threads", format!("must be in [0, {MOST}], not {threads}")).into()
                );
            }
            let batch = library::Batch::new().threads(threads);
            Ok(Batch { batch, last: Vec::new(), json: String::new(), steps: Vec::new() })
        })
    })
}

/// Adds a sequence: the first of the `n` that the parameters ask for. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_add(
    batch: *mut onedraw_batch,
    params: *const onedraw_params,
    sequence: *mut onedraw_sequence,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(sequence, "sequence")?;
        let params = params_of(params)?;
        with(batch, |batch: &mut Batch| {
            place.write(batch.batch.add(params)?.to_bits());
            Ok(())
        })
    })
}

/// Adds all `n` sequences of the parameters, which share one seed. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_add_all(
    batch: *mut onedraw_batch,
    params: *const onedraw_params,
    sequences: *mut onedraw_sequence,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(sequences, capacity, count, "sequences")?;
        let params = params_of(params)?;
        params.validate()?;
        buffer.check(params.n as usize)?;
        with(batch, |batch: &mut Batch| {
            buffer.fill(batch.batch.add_all(params)?.into_iter().map(SequenceId::to_bits))
        })
    })
}

/// Adds a sequence with the same parameters, seed and history as another one, which goes its own way. One thread at a
/// time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_fork(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    fork: *mut onedraw_sequence,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(fork, "fork")?;
        with(batch, |batch: &mut Batch| {
            place.write(batch.batch.fork(id(sequence)).ok_or_else(unknown)?.to_bits());
            Ok(())
        })
    })
}

/// The number of sequences. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_count(
    batch: *mut onedraw_batch,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(count, "count")?;
        with(batch, |batch: &mut Batch| {
            place.write(batch.batch.len());
            Ok(())
        })
    })
}

/// Draws a token from each row for the sequence of that number, and appends it. `sequences` and `sampled` have as many
/// entries as there are rows. A bad row spoils no other: its `status` is not `ONEDRAW_OK`, and the function returns the
/// first such status, with its row's words. Where one thread draws, it allocates memory as `onedraw_sampler_sample` does.
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_sample(
    batch: *mut onedraw_batch,
    sequences: *const onedraw_sequence,
    rows: *const onedraw_rows,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    draw(batch, sequences, rows, 0, sampled, error, |batch, steps, results| batch.sample_into(steps, results))
}

/// As `onedraw_batch_sample`, `ahead` positions after each sequence's next one. The histories stay as they are. One
/// thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_peek(
    batch: *mut onedraw_batch,
    sequences: *const onedraw_sequence,
    rows: *const onedraw_rows,
    ahead: u32,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    draw(batch, sequences, rows, ahead, sampled, error, |batch, steps, results| {
        *results = batch.peek(steps, ahead)
    })
}

fn draw(
    batch: *mut onedraw_batch,
    sequences: *const onedraw_sequence,
    rows: *const onedraw_rows,
    ahead: u32,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
    draw: impl FnOnce(&mut library::Batch, &[Step<'_>], &mut Vec<std::result::Result<Sampled, RowError>>),
) -> onedraw_status {
    call(error, |memory| {
        let matrix = read_rows(memory, rows)?;
        let count = matrix.len();
        let sequences = memory.array(sequences, count, "sequences")?;
        let places = memory.room(sampled, count, "sampled")?;
        with(batch, |batch: &mut Batch| {
            for output in sequences.iter().filter_map(|&sequence| batch.batch.output(id(sequence))) {
                check_ahead(output.len(), ahead)?;
            }
            let mut steps = emptied(std::mem::take(&mut batch.steps));
            fill_steps(&mut steps, sequences, &matrix)?;
            draw(&mut batch.batch, &steps, &mut batch.last);
            batch.steps = emptied(steps);
            let mut failure = None;
            for (row, (place, result)) in places.iter_mut().zip(&batch.last).enumerate() {
                place.write(match result {
                    Ok(sampled) => onedraw_sampled::from(sampled),
                    Err(error) => onedraw_sampled::failed(status_of(error)),
                });
                if let (Err(error), None) = (result, &failure) {
                    failure = Some(Failure::of_row(row, error));
                }
            }
            failure.map_or(Ok(()), Err)
        })
    })
}

fn fill_steps<'a>(
    steps: &mut Vec<Step<'a>>,
    sequences: &[onedraw_sequence],
    matrix: &Matrix<'a>,
) -> Result<()> {
    for (index, &sequence) in sequences.iter().enumerate() {
        let Masked { row, mask } = matrix.row(index)?;
        steps.push(Step { sequence: id(sequence), row, mask });
    }
    Ok(())
}

/// The memory of steps, without what was in it, for steps that borrow from another call.
fn emptied<'a>(mut steps: Vec<Step<'_>>) -> Vec<Step<'a>> {
    steps.clear();
    // Nothing is left to be changed. A vector that is collected from one of the same layout keeps its memory.
    steps.into_iter().map(|_| unreachable!("there are no steps")).collect()
}

/// The words for a row that the last call could not draw from, in `*of_row`. Its status is `ONEDRAW_OK` if the row
/// was drawn from. After `onedraw_batch_verify` a row is a token that it drew. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_row_error(
    batch: *mut onedraw_batch,
    row: usize,
    of_row: *mut onedraw_error,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(of_row, "of_row")?;
        with(batch, |batch: &mut Batch| {
            place.write(match batch.last(row)? {
                Ok(_) => onedraw_error::NONE,
                Err(error) => onedraw_error::from(&Failure::from(error.clone())),
            });
            Ok(())
        })
    })
}

/// Frees a batch and all of its sequences; NULL is nothing. Any thread may call it. A call that another thread is in
/// comes to its end.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_free(batch: *mut onedraw_batch, error: *mut onedraw_error) -> onedraw_status {
    call(error, |_| free::<Batch>(batch))
}
