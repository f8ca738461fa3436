//! Questions of the laboratory. Between two passes for the texts, one of them goes on by one pass of its own, each in
//! turn; so neither a look nor a text that is shown holds up the others for longer than that.

use std::collections::VecDeque;
use std::time::Instant;

use onedraw_lab::{Answer, Lab};
use onedraw_lm::{Llama, ModelError};
use tokio::sync::mpsc::UnboundedSender;

use super::job::{Deadline, Inquiry, Reply};
use crate::failure::Failure;
use crate::model::Model;

/// The laboratory, and the questions to it.
pub(super) struct Labs<'a> {
    lab: Lab<'a, Llama>,
    /// Answers that are made at the same time: each has the model's memory of a text.
    most: usize,
    waiting: VecDeque<(Inquiry, UnboundedSender<Reply>)>,
    answering: VecDeque<Answering<'a>>,
}

/// A question that is being answered.
struct Answering<'a> {
    answer: Answer<'a, Llama>,
    replies: UnboundedSender<Reply>,
    deadline: Deadline,
}

impl<'a> Labs<'a> {
    pub(super) fn new(model: &'a Model, most: usize) -> Result<Self, ModelError> {
        let mut lab = Lab::new(&model.llama, &model.subject).kernel(model.kernel).with_own_drafters()?;
        for offer in &model.offers {
            if let Some(drafter) = offer.guesser.drafter(&model.llama)? {
                lab.add_drafter(&offer.name, drafter);
            }
        }
        Ok(Self { lab, most, waiting: VecDeque::new(), answering: VecDeque::new() })
    }

    pub(super) fn take(&mut self, inquiry: Inquiry, replies: UnboundedSender<Reply>) {
        self.waiting.push_back((inquiry, replies));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.answering.is_empty()
    }

    /// How many questions wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Lets go of questions whose client is gone or whose time is over, and, at the end, of all that have not begun. Says
    /// how many of them were waiting.
    pub(super) fn let_go(&mut self, is_ending: bool, is_over: bool) -> usize {
        let now = Instant::now();
        let stays = |replies: &UnboundedSender<Reply>, deadline: &Deadline, is_ending: bool| {
            let failure = match () {
                () if replies.is_closed() => return false,
                () if is_ending => Failure::ending(),
                () if now > deadline.at => deadline.failure(),
                () => return true,
            };
            // Nobody listens any more.
            let _ = replies.send(Err(failure));
            false
        };
        self.answering.retain(|answering| stays(&answering.replies, &answering.deadline, is_over));
        let before = self.waiting.len();
        self.waiting.retain(|(inquiry, replies)| stays(replies, &inquiry.deadline, is_ending));
        before - self.waiting.len()
    }

    /// Goes on with one answer by one pass. Says how many questions have begun.
    pub(super) fn step(&mut self) -> usize {
        let mut begun = 0;
        while self.answering.len() < self.most
            && let Some((Inquiry { question, grammar, deadline }, replies)) = self.waiting.pop_front()
        {
            begun += 1;
            let answer = self.lab.begin(question, grammar);
            self.answering.push_back(Answering { answer, replies, deadline });
        }
        if let Some(mut answering) = self.answering.pop_front()
            && let Some(lines) = self.lab.step(&mut answering.answer)
        {
            // Whoever has left is let go of before the next pass.
            let _ = answering.replies.send(Ok(lines));
            self.answering.push_back(answering);
        }
        begun
    }
}
