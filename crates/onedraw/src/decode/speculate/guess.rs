//! Drawing guesses from a drafter's row, together with the law that they come from.

use super::chance::arrivals;
use super::law::Law;
use super::text::next_law;
use crate::batch::{Batch, Step};
use crate::error::RowError;
use crate::numeric::float_mode::Standard;
use crate::numeric::noise::Purpose;

impl Batch {
    /// Draws up to `count` guesses of a sequence's next token from a drafter's row, without replacement, for
    /// [`Verify::Rejection`] and [`Verify::Block`]. Returns the guesses and their law: the distribution that
    /// the sequence's chain makes of the row. There are never more guesses than that has tokens. The noise is
    /// the drafter's own, because judging guesses with the noise that drew them would be a bias.
    ///
    /// `begun` is the length of the output where the draft begins. The sequence is left unchanged: to guess
    /// further ahead, append the guess to a [fork](Batch::fork) and call this for the fork. A greedy sequence
    /// guesses the first tokens of its order, which are [given](Law::Given) and not drawn.
    ///
    /// How many guesses are drawn, and how far ahead, may depend on the tokens before them and on the law,
    /// but not on the guesses themselves, nor on a clock. A drafter that draws guesses and then drops some of
    /// them draws from another distribution than the one it reports.
    ///
    /// Errors are those of a draw from the row.
    ///
    /// ```
    /// use onedraw::speculate::{Draft, Verify};
    /// use onedraw::{Batch, Row, SamplingParams, Step};
    ///
    /// let mut batch = Batch::new();
    /// let id = batch.add(SamplingParams::builder().seed(3).build()?)?;
    /// let (drafter, target) = ([0.0_f32, 2.0, 1.0], [[1.0_f32, 2.0, 1.0]; 3]);
    ///
    /// let (begun, fork) = (0, batch.fork(id).unwrap());
    /// let mut draft = Draft::default();
    /// let mut node = None;
    /// for _ in 0..2 {
    ///     let (tokens, law) = batch.guess(&Step::new(fork, &drafter), 1, begun)?;
    ///     node = draft.grow(node, &tokens, law).pop();
    ///     batch.accept(fork, tokens[0]);
    /// }
    /// batch.remove(fork);
    ///
    /// let rows = target.each_ref().map(Row::from);
    /// let verdict = batch.verify(id, &draft, &rows, None, Verify::Block)?;
    /// for sampled in &verdict.sampled {
    ///     batch.accept_sampled(id, sampled);
    /// }
    /// assert_eq!(batch.output(id).unwrap().len(), verdict.path.len() + 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Verify::Rejection`]: super::Verify::Rejection
    /// [`Verify::Block`]: super::Verify::Block
    pub fn guess(
        &mut self,
        step: &Step<'_>,
        count: usize,
        begun: usize,
    ) -> Result<(Vec<u32>, Law), RowError> {
        let _mode = Standard::enter();
        let leaders =
            self.ask(step, |sequence, workspace| sequence.leaders(step.row, step.mask, count, workspace))?;
        if let Some(tokens) = leaders {
            return Ok((tokens, Law::Given));
        }
        let law = self.ask(step, |sequence, workspace| next_law(sequence, step.row, step.mask, workspace))?;
        let sequence = self.sequence(step.sequence)?;
        let position = sequence.position();
        let depth = (position as usize).saturating_sub(begun) as u32;
        let tokens = arrivals(&sequence.noise(position), Purpose::Draft, depth, &law, count);
        Ok((tokens, Law::Drawn(law)))
    }
}
