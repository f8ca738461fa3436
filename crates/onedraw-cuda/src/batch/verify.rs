//! Verification of drafts, with the verdicts of [`onedraw::Batch::verify`].
//!
//! All rows of all drafts are launched at once: a row's task names the tokens on the way to its node, and the kernels edit and draw as if the text went on
//! with them. Nothing is appended. In exact mode the host then goes down each tree from what was drawn; by rejection and by blocks the device first
//! writes each row's law and then judges, and the rows are launched once more if anybody wants logprobs of the tokens that are taken.

mod paths;
mod trials;

use onedraw::RowError;
use onedraw::speculate::{Draft, DraftTree, Verdict, Verify};

use super::{Batch, Form, Member};
use crate::device::Kernel;
use crate::error::CudaError;
use crate::launch;
use crate::matrix::Matrix;
use crate::memory::Array;
use crate::record::{Step, Task};
use crate::slots::SequenceId;
use crate::stream::Stream;
use paths::Paths;
use trials::Trials;

/// A sequence's draft. The matrix has a row for the text and one after every node of the tree, in their order, one draft after the other.
#[derive(Clone, Copy, Debug)]
pub struct DraftTurn<'a> {
    /// Whose draft it is.
    pub sequence: SequenceId,
    /// What was guessed.
    pub draft: &'a Draft,
}

impl DraftTurn<'_> {
    fn rows(&self) -> usize {
        self.draft.tree.len() + 1
    }
}

/// What a launch of all rows is for.
#[derive(Clone, Copy, Debug)]
enum Pass<'a> {
    /// Each row draws.
    Draw,
    /// Each row writes its law.
    Laws(&'a Trials),
    /// Each row reports the token that was chosen for it.
    Report,
}

impl Batch {
    /// Judges drafts, each as [`onedraw::Batch::verify`] does without a constraint, and waits. Sequences stay as they were: what is taken of a verdict must be
    /// [accepted](Batch::accept). A sequence may have several drafts. It happens on the legacy default stream, and the turns that were
    /// prepared before are prepared no more.
    ///
    /// Rejection and blocks need memory for a law a row, which is allocated here: 8 bytes a logit, and as much for each law that guesses were drawn from.
    /// [`Verify::Typical`] is not on the device yet.
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
        if !matches!(verify, Verify::Exact | Verify::Rejection | Verify::Block) {
            return Err(CudaError::unsupported(format!("{verify} verification")));
        }
        let (given, capacity) = (drafts.iter().map(DraftTurn::rows).sum(), self.capacity.rows);
        if given > capacity {
            return Err(CudaError::TooMany { what: "rows", given, capacity });
        }
        self.check_matrix(matrix, given)?;
        self.forget_turns();
        self.last_rows = 0;
        let verdicts = self.judged(drafts, matrix, verify);
        // The tasks are no turns: nobody may launch them again.
        self.form = Form::default();
        verdicts
    }

    /// [`Batch::verify`] once the arguments fit. The form is left behind.
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
        // Its memory is freed after the answers were waited for.
        let (tasks, _paths) = self.tasks_of(drafts, &admitted)?;
        self.tasks.post(stream, &tasks)?;
        let mut lengths = None;
        if verify == Verify::Exact {
            self.pass(stream, matrix, Pass::Draw)?;
        } else {
            let trials = Trials::new(
                self.device.context(),
                stream,
                drafts,
                &admitted,
                verify == Verify::Block,
                self.capacity.vocabulary,
            )?;
            self.pass(stream, matrix, Pass::Laws(&trials))?;
            if self.form.has_reports() {
                self.pass(stream, matrix, Pass::Report)?;
            }
            lengths = Some(trials.lengths(stream)?);
        }
        self.read_answers(stream, tasks.len())?;
        let mut first = 0;
        let mut verdicts = Vec::with_capacity(drafts.len());
        for (i, (turn, admitted)) in drafts.iter().zip(admitted).enumerate() {
            let verdict = match (admitted, self.members.get(turn.sequence)) {
                (Err(error), _) => Err(error),
                (Ok(()), None) => Err(RowError::UnknownSequence),
                (Ok(()), Some(member)) => Ok(match (verify, &lengths) {
                    (Verify::Block, Some(lengths)) => self.along(member, first, lengths[i])?,
                    _ => self.down(member, first, &turn.draft.tree)?,
                }),
            };
            verdicts.push(verdict);
            first += turn.rows();
        }
        Ok(verdicts)
    }

    /// Whether a draft can be judged, in the order in which the CPU asks.
    fn admit_draft(&self, turn: &DraftTurn<'_>, verify: Verify) -> Result<(), RowError> {
        self.members.get(turn.sequence).ok_or(RowError::UnknownSequence)?;
        if verify != Verify::Exact {
            turn.draft.check_laws(self.capacity.vocabulary)?;
        }
        match verify {
            Verify::Block if !turn.draft.tree.is_chain() => Err(RowError::DraftNotChain),
            _ => Ok(()),
        }
    }

    /// A task for every row, the memory of their paths, and the form. Rows of drafts that are not judged go to the sequence after the last.
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
                let nobody = Task { slot: self.capacity.sequences as u32, ..Task::default() };
                tasks.extend(std::iter::repeat_n(nobody, turn.rows()));
                continue;
            };
            form.add(&member.record, false);
            // For now the place in the list; below an address.
            let task = |(start, depth): (usize, usize)| Task {
                path: start as u64,
                depth: depth as u32,
                ..Task::of(turn.sequence.slot(), &member.record)
            };
            tasks.extend(paths.add(&turn.draft.tree).into_iter().map(task));
        }
        let memory = Array::uninitialised(self.device.context(), paths.tokens().len())?;
        memory.write(Stream::default(), 0, paths.tokens())?;
        for task in &mut tasks {
            let is_on_its_way = task.depth > 0;
            task.path =
                if is_on_its_way { memory.address() + size_of::<u32>() as u64 * task.path } else { 0 };
        }
        self.form = Form { rows: tasks.len(), ..form };
        Ok((tasks, memory))
    }

    /// Launches all rows, and goes on.
    #[allow(unsafe_code)]
    fn pass(&self, stream: Stream<'_>, matrix: &Matrix<'_>, pass: Pass<'_>) -> Result<(), CudaError> {
        let skyline = launch::skyline(self.form, matrix.dtype, matrix.vocabulary, matrix.is_aligned());
        let mut step = Step { advances: 0, ..self.step(matrix, &skyline) };
        match pass {
            Pass::Draw => {}
            Pass::Laws(trials) => {
                (step.laws, step.trials) = trials.addresses();
                step.parts = 0;
            }
            Pass::Report => step.is_chosen = 1,
        }
        let draw = match pass {
            Pass::Draw => self.form.kernel(matrix.dtype),
            Pass::Laws(_) | Pass::Report => Kernel::Draw(matrix.dtype),
        };
        // SAFETY: the arrays have room for the rows, tasks name slots of the array and paths that live until the answers are read, as the matrix and the
        // laws do. The first tokens of `results` are what the judge wrote, where they are to be reported.
        unsafe {
            self.launch_rows(stream, matrix, &skyline, &step, draw)?;
            match pass {
                Pass::Laws(trials) if trials.count() > 0 => {
                    self.device.launch(stream, Kernel::Judge, launch::judge(trials.count()), &step)
                }
                Pass::Laws(_) | Pass::Draw | Pass::Report => Ok(()),
            }
        }
    }

    /// Goes down a tree while the token of a row is one of its guesses.
    fn down(&self, member: &Member, first: usize, tree: &DraftTree) -> Result<Verdict, CudaError> {
        let mut verdict = Verdict::default();
        loop {
            let node = verdict.path.last().copied();
            let row = first + node.map_or(0, |node| node + 1);
            let sampled = match self.answer(member, verdict.path.len(), row)? {
                Ok(sampled) => sampled,
                Err(error) => return Ok(Verdict { error: Some(error), ..verdict }),
            };
            let child = tree.child(node, sampled.token);
            verdict.sampled.push(sampled);
            match child {
                Some(child) => verdict.path.push(child),
                None => return Ok(verdict),
            }
        }
    }

    /// A chain of which so many guesses hold. The token after them may be the next guess, and ends the verdict all the same.
    fn along(&self, member: &Member, first: usize, length: usize) -> Result<Verdict, CudaError> {
        let mut verdict = Verdict { path: (0..length).collect(), ..Verdict::default() };
        for depth in 0..=length {
            match self.answer(member, depth, first + depth)? {
                Ok(sampled) => verdict.sampled.push(sampled),
                Err(error) => {
                    verdict.error = Some(error);
                    break;
                }
            }
        }
        Ok(verdict)
    }
}
