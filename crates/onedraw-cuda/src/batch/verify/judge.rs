//! The launches of a verification, and the verdicts that follow from them.

use onedraw::RowError;
use onedraw::speculate::{DraftTree, Verdict, Verify};

use super::drafts::DraftTurn;
use super::paths::Paths;
use super::trials::Trials;
use crate::batch::member::Member;
use crate::batch::sequences::Batch;
use crate::error::CudaError;
use crate::form::Form;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::Matrix;
use crate::memory::Array;
use crate::record::layout::Task;
use crate::stream::Stream;

/// What a launch of all rows is for.
#[derive(Clone, Copy, Debug)]
enum Pass<'a> {
    /// Each row draws.
    Draw,
    /// Each row writes its law.
    Laws(&'a Trials),
    /// Each row reports the token that was chosen for it, or draws if none was.
    Report,
}

impl Batch {
    /// Judges drafts, each as [`onedraw::Batch::verify`] does without a constraint, and waits for the
    /// verdicts. Sequences stay as they were: the caller must [accept](Batch::accept_sampled) what it takes of
    /// a verdict. A sequence may have several drafts. It happens on the legacy default stream, and turns that
    /// were prepared before are no longer prepared.
    ///
    /// All modes but [`Verify::Exact`] need memory for one law per row, which is allocated here: 8 bytes per
    /// logit, and for rejection and blocks as much for each law that guesses were drawn from. Where a sequence
    /// has mirostat, the rows after a guess wait for those before it, so that a draft takes one launch for
    /// each token of its longest way.
    ///
    /// ```no_run
    /// use onedraw::SamplingParams;
    /// use onedraw::speculate::{Draft, Verify};
    /// use onedraw_cuda::{Batch, Capacity, Copied, Device, DraftTurn};
    ///
    /// let device = Device::new(0)?;
    /// let mut batch = Batch::new(&device, Capacity { sequences: 1, rows: 3, vocabulary: 3, logprobs: 0 })?;
    /// let sequence = batch.add(&SamplingParams::builder().temperature(0.0).build()?)?;
    /// let logits = [0.0_f32, 2.0, 1.0, 3.0, 0.0, 1.0, 0.0, 0.0, 5.0];
    /// let logits = Copied::new(&device, (&logits[..]).into())?;
    /// let turn = DraftTurn { sequence, draft: &Draft::chain(&[1, 1]) };
    /// let verdicts = batch.verify(&[turn], &logits.matrix(3, 3, 3)?, Verify::Exact)?;
    /// assert_eq!(verdicts[0].as_ref().unwrap().path, [0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(
        &mut self,
        drafts: &[DraftTurn<'_>],
        matrix: &Matrix<'_>,
        verify: Verify,
    ) -> Result<Vec<Result<Verdict, RowError>>, CudaError> {
        if !matches!(verify, Verify::Exact | Verify::Rejection | Verify::Block | Verify::Typical(_)) {
            return Err(CudaError::unsupported(format!("{verify} verification")));
        }
        let (given, capacity) = (drafts.iter().map(DraftTurn::rows).sum(), self.rows.capacity.rows);
        if given > capacity {
            return Err(CudaError::TooMany { what: "rows", given, capacity });
        }
        self.rows.check_matrix(matrix, given)?;
        self.forget_turns();
        self.last_rows = 0;
        let verdicts = self.judged(drafts, matrix, verify);
        // The tasks are not turns: no later launch may use them.
        self.rows.form = Form::default();
        verdicts
    }

    /// [`Batch::verify`], once the arguments are checked. It changes the form, which the caller resets.
    fn judged(
        &mut self,
        drafts: &[DraftTurn<'_>],
        matrix: &Matrix<'_>,
        verify: Verify,
    ) -> Result<Vec<Result<Verdict, RowError>>, CudaError> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let stream = Stream::default();
        self.read_positions(stream, drafts.iter().map(|turn| turn.sequence))?;
        let admitted: Vec<Result<(), RowError>> =
            drafts.iter().map(|turn| self.admit_draft(turn, verify)).collect();
        // The memory of the paths is freed after the answers were waited for.
        let (mut tasks, _paths) = self.tasks_of(drafts, &admitted)?;
        self.rows.point_repeats(&mut tasks);
        self.rows.tasks.post(stream, &tasks)?;
        // How many guesses of each draft hold, where the tokens of its rows do not say it.
        let mut lengths = None;
        if verify == Verify::Exact {
            self.pass(stream, matrix, Pass::Draw)?;
        } else {
            let is_typical = matches!(verify, Verify::Typical(_));
            let trials = Trials::new(
                self.rows.device.context(),
                stream,
                drafts,
                &admitted,
                verify,
                self.rows.capacity.vocabulary,
            )?;
            self.pass(stream, matrix, Pass::Laws(&trials))?;
            if is_typical || self.rows.form.has_reports() {
                self.pass(stream, matrix, Pass::Report)?;
            }
            if is_typical || verify == Verify::Block {
                lengths = Some(trials.lengths(stream)?);
            }
        }
        self.read_answers(stream, tasks.len())?;
        let mut first = 0;
        let mut verdicts = Vec::with_capacity(drafts.len());
        for (i, (turn, admitted)) in drafts.iter().zip(admitted).enumerate() {
            let verdict = match (admitted, self.members.get(turn.sequence)) {
                (Err(error), _) => Err(error),
                (Ok(()), None) => Err(RowError::UnknownSequence),
                (Ok(()), Some(member)) => {
                    let most = lengths.as_ref().map_or(usize::MAX, |lengths| lengths[i]);
                    Ok(self.down(member, first, &turn.draft.tree, most)?)
                }
            };
            verdicts.push(verdict);
            first += turn.rows();
        }
        Ok(verdicts)
    }

    /// Checks whether a draft can be judged, in the order in which the CPU checks it.
    fn admit_draft(&self, turn: &DraftTurn<'_>, verify: Verify) -> Result<(), RowError> {
        self.members.get(turn.sequence).ok_or(RowError::UnknownSequence)?;
        if matches!(verify, Verify::Rejection | Verify::Block) {
            turn.draft.check_laws(self.rows.capacity.vocabulary)?;
        }
        match verify {
            Verify::Block if !turn.draft.tree.is_chain() => Err(RowError::DraftNotChain),
            _ => Ok(()),
        }
    }

    /// Makes a task for every row, the memory of their paths, and the form. Rows of drafts that are not
    /// judged are given the sequence after the last slot.
    fn tasks_of(
        &mut self,
        drafts: &[DraftTurn<'_>],
        admitted: &[Result<(), RowError>],
    ) -> Result<(Vec<Task>, Array<u32>), CudaError> {
        let (mut paths, mut tasks) = (Paths::default(), Vec::new());
        let mut form = Form::default();
        for (turn, admitted) in drafts.iter().zip(admitted) {
            let member = self.members.get(turn.sequence).filter(|_| admitted.is_ok());
            let Some(member) = member else {
                let nobody = Task { slot: self.rows.capacity.sequences as u32, ..Task::default() };
                tasks.extend(std::iter::repeat_n(nobody, turn.rows()));
                continue;
            };
            form.add(&member.record, false);
            form.add_guesses(&member.record, turn.draft.tree.depth());
            let first = tasks.len();
            // `path` is a place in the list for now; below it becomes an address.
            let task = |(start, depth): (usize, usize)| Task {
                path: start as u64,
                depth: depth as u32,
                ..Task::of(turn.sequence.slot(), &member.record)
            };
            tasks.extend(paths.add(&turn.draft.tree).into_iter().map(task));
            link(&mut tasks, first, &turn.draft.tree);
        }
        let memory = Array::uninitialised(self.rows.device.context(), paths.tokens().len())?;
        memory.write(Stream::default(), 0, paths.tokens())?;
        for task in &mut tasks {
            let is_on_its_way = task.depth > 0;
            task.path =
                if is_on_its_way { memory.address() + size_of::<u32>() as u64 * task.path } else { 0 };
        }
        self.rows.form = Form { rows: tasks.len(), ..form };
        Ok((tasks, memory))
    }

    /// Launches all rows, and does not wait.
    #[allow(unsafe_code)]
    fn pass(&self, stream: Stream<'_>, matrix: &Matrix<'_>, pass: Pass<'_>) -> Result<(), CudaError> {
        let skyline = launch::skyline(self.rows.form, matrix.dtype, matrix.vocabulary, matrix.is_aligned());
        let mut arguments = self.rows.arguments(matrix, &skyline);
        match pass {
            Pass::Draw => {}
            Pass::Laws(trials) => {
                (arguments.laws, arguments.trials) = trials.addresses();
                arguments.weighs = 0;
            }
            Pass::Report => arguments.is_chosen = 1,
        }
        let draw = match pass {
            Pass::Draw => self.rows.form.draw(matrix.dtype),
            Pass::Laws(_) | Pass::Report => Kernel::Draw(matrix.dtype),
        };
        // SAFETY: the arrays have room for the rows. Tasks name slots of the array, and paths that live until
        // the answers are read, as the matrix and the laws do. Where tokens are only reported, `results`
        // holds what the judge wrote.
        unsafe {
            self.rows.launch(stream, matrix, &skyline, &arguments, draw)?;
            match pass {
                Pass::Laws(trials) if trials.count() > 0 => {
                    self.rows.device.launch(stream, Kernel::Judge, launch::judge(trials.count()), &arguments)
                }
                Pass::Laws(_) | Pass::Draw | Pass::Report => Ok(()),
            }
        }
    }

    /// Goes down a tree while the token of a row is one of its guesses, and no farther than `most` guesses: the
    /// token after these ends the verdict, even if it is a guess too.
    fn down(
        &self,
        member: &Member,
        first: usize,
        tree: &DraftTree,
        most: usize,
    ) -> Result<Verdict, CudaError> {
        let mut verdict = Verdict::default();
        loop {
            let node = verdict.path.last().copied();
            let row = first + node.map_or(0, |node| node + 1);
            let sampled = match self.answer(member, verdict.path.len(), row)? {
                Ok(sampled) => sampled,
                Err(error) => return Ok(Verdict { error: Some(error), ..verdict }),
            };
            let child = tree.child(node, sampled.token).filter(|_| verdict.path.len() < most);
            verdict.sampled.push(sampled);
            match child {
                Some(child) => verdict.path.push(child),
                None => return Ok(verdict),
            }
        }
    }
}

/// Links every row of a tree, of which the task of the text is at `first`, to the rows that follow it.
fn link(tasks: &mut [Task], first: usize, tree: &DraftTree) {
    for (node, parent) in tree.parents().iter().enumerate().rev() {
        let (row, parent) = (first + 1 + node, first + parent.map_or(0, |parent| parent + 1));
        tasks[row].next_sibling = std::mem::replace(&mut tasks[parent].first_child, row as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_linked_to_those_that_follow_them() {
        let mut tree = DraftTree::new();
        let a = tree.push(None, 5);
        tree.push(Some(a), 8);
        tree.push(None, 7);
        tree.push(Some(a), 9);
        let mut tasks = [Task::default(); 7];
        link(&mut tasks, 2, &tree);
        let links = tasks.map(|task| (task.first_child, task.next_sibling));
        assert_eq!(links, [(0, 0), (0, 0), (3, 0), (4, 5), (0, 6), (0, 0), (0, 0)]);
    }
}
