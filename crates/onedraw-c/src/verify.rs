//! Exact speculation: which guesses of a drafter the target draws itself.

use library::speculate::{Draft, DraftTree, Verdict, Verify};
use library::{Constraint, Row};
use onedraw_grammar::Matcher;

use crate::batch::{Batch, id, onedraw_batch, onedraw_sequence};
use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::grammar::onedraw_matcher;
use crate::memory::{Memory, Plain};
use crate::rows::{onedraw_rows, read_rows};
use crate::sampled::onedraw_sampled;
use crate::sampler::{Sampler, onedraw_sampler};
use crate::table::with;

/// The parent of a guess that follows the text itself.
pub const ONEDRAW_ROOT: i32 = -1;

/// Guesses after a text: a chain, or a tree.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_draft {
    /// The guessed tokens, parents before their children.
    pub tokens: *const u32,
    /// The guess that each of them follows, or `ONEDRAW_ROOT`; NULL: each follows the one before it.
    pub parents: *const i32,
    /// How many there are.
    pub count: usize,
}

impl Plain for onedraw_draft {}

/// Verifies guesses exactly: at each of them the target makes its own draw, with the noise of that position, and goes
/// on where a guess is the drawn token. So the text is that of plain decoding, whatever is guessed.
///
/// Row 0 has the target's logits after the text, row i + 1 those after guess i. `sampled` and `path` have room for
/// `capacity` entries each, at least one more than there are guesses. `*drawn` tokens were drawn: those of the
/// accepted guesses, whose numbers `path` receives, and the one after them; so there are `*drawn` - 1 accepted ones.
/// If a row cannot be drawn from, `ONEDRAW_BAD_ROW` is returned, and `*drawn` tokens before it were accepted.
/// `onedraw_sampler_logprobs` and `onedraw_sampler_kept` have each of the tokens.
///
/// The sampler and the matcher (NULL: no grammar) are left as they are. Append the tokens that you use with
/// `onedraw_sampler_accept_sampled`. One thread at a time may use the sampler and the matcher.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_verify(
    sampler: *mut onedraw_sampler,
    draft: *const onedraw_draft,
    rows: *const onedraw_rows,
    matcher: *mut onedraw_matcher,
    sampled: *mut onedraw_sampled,
    path: *mut usize,
    capacity: usize,
    drawn: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    let places = Places { sampled, path, capacity, drawn };
    verify(draft, rows, matcher, places, error, |draft, rows, constraint| {
        with(sampler, |sampler: &mut Sampler| {
            sampler.last.clear();
            let verdict = sampler.sampler.verify(draft, rows, constraint, Verify::Exact)?;
            sampler.last.clone_from(&verdict.sampled);
            Ok(verdict)
        })
    })
}

/// As `onedraw_sampler_verify`, for a sequence of a batch. To `onedraw_batch_logprobs`, `onedraw_batch_kept` and
/// `onedraw_batch_row_error` the tokens are rows, and the one that cannot be drawn is row `*drawn`. Append the tokens that
/// you use with `onedraw_batch_accept_sampled`. One thread at a time may use the batch and the matcher.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_verify(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    draft: *const onedraw_draft,
    rows: *const onedraw_rows,
    matcher: *mut onedraw_matcher,
    sampled: *mut onedraw_sampled,
    path: *mut usize,
    capacity: usize,
    drawn: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    let places = Places { sampled, path, capacity, drawn };
    verify(draft, rows, matcher, places, error, |draft, rows, constraint| {
        with(batch, |batch: &mut Batch| {
            batch.last.clear();
            let verdict = batch.batch.verify(id(sequence), draft, rows, constraint, Verify::Exact)?;
            batch.last.extend(verdict.sampled.iter().cloned().map(Ok));
            batch.last.extend(verdict.error.clone().map(Err));
            Ok(verdict)
        })
    })
}

/// Where a verdict is returned.
struct Places {
    sampled: *mut onedraw_sampled,
    path: *mut usize,
    capacity: usize,
    drawn: *mut usize,
}

fn verify(
    draft: *const onedraw_draft,
    rows: *const onedraw_rows,
    matcher: *mut onedraw_matcher,
    Places { sampled, path, capacity, drawn }: Places,
    error: *mut onedraw_error,
    verify: impl FnOnce(&Draft, &[Row<'_>], Option<&mut dyn Constraint>) -> Result<Verdict>,
) -> onedraw_status {
    call(error, |memory| {
        let mut sampled = memory.buffer(sampled, capacity, drawn, "sampled")?;
        let path = memory.room(path, capacity, "path")?;
        let draft = read_draft(memory, draft)?;
        // Before anything is drawn: a walk may go on to the last guess.
        sampled.check(draft.tree.len() + 1)?;
        let rows = read_rows(memory, rows)?.unmasked("the matcher has them")?;
        let (given, needed) = (rows.len(), draft.tree.len() + 1);
        if given != needed {
            let message = format!("there are {given} rows, and {needed} are needed");
            return Err(Failure::argument("rows", message));
        }
        let verdict = match matcher.is_null() {
            true => verify(&draft, &rows, None),
            false => with(matcher, |matcher: &mut Matcher| verify(&draft, &rows, Some(matcher))),
        }?;
        path.iter_mut().zip(&verdict.path).for_each(|(place, &node)| _ = place.write(node));
        sampled.fill(verdict.sampled.iter().map(onedraw_sampled::from))?;
        match verdict.error {
            None => Ok(()),
            Some(error) => Err(error.into()),
        }
    })
}

fn read_draft(memory: Memory<'_>, draft: *const onedraw_draft) -> Result<Draft> {
    let onedraw_draft { tokens, parents, count } = memory.value(draft, "draft")?;
    let tokens = memory.array(tokens, count, "tokens")?;
    if parents.is_null() {
        return Ok(Draft::chain(tokens));
    }
    let mut tree = DraftTree::new();
    for (node, (&token, &parent)) in tokens.iter().zip(memory.array(parents, count, "parents")?).enumerate() {
        let parent = match usize::try_from(parent) {
            Ok(parent) if parent < node => Some(parent),
            Err(_) if parent == ONEDRAW_ROOT => None,
            _ => {
                let message = format!("guess {node} follows {parent}, which is no guess before it");
                return Err(Failure::argument("parents", message));
            }
        };
        tree.push(parent, token);
    }
    Ok(Draft::given(tree))
}
