//! Questions get their answers.

use onedraw_grammar::Grammar;
use onedraw_lm::LanguageModel;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::lab::Lab;
use crate::line::Line;
use crate::question::{Kind, Question};

impl<'a, M: LanguageModel> Lab<'a, M> {
    /// Begins an answer. `grammar` is the [form](Question::form) of the question, compiled. No pass is made yet.
    pub fn begin(&self, question: Question, grammar: Option<Grammar>) -> Answer<'a, M> {
        let begun = match question.0 {
            Kind::Told(line) => Ok(Answer::told(line)),
            Kind::Write(text) => Answer::write(self, text, grammar.as_ref()),
            Kind::Look(look) => Ok(Answer::look(look, grammar)),
            Kind::Beams(search) => Answer::beams(self, search, grammar.as_ref()),
        };
        begun.unwrap_or_else(|failure| Answer::told(failure.line()))
    }

    /// Goes on with an answer: makes at most one pass of the model, over at most 128 tokens and its guesses, and gives
    /// the lines that follow from it, which may be none. `None`: the answer has ended.
    pub fn step(&mut self, answer: &mut Answer<'a, M>) -> Option<Vec<Line>> {
        answer.step(self)
    }

    /// Reads a question and begins its answer. One that cannot be read has the line of its error alone.
    pub fn asked(&self, name: &str, body: &[u8]) -> Answer<'a, M> {
        match self.read(name, body) {
            Ok((question, grammar)) => self.begin(question, grammar),
            Err(failure) => Answer::told(failure.line()),
        }
    }

    /// A whole answer, line by line.
    pub fn ask(&mut self, name: &str, body: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut answer = self.asked(name, body);
        while let Some(more) = self.step(&mut answer) {
            lines.extend(more);
        }
        lines
    }

    fn read(&self, name: &str, body: &[u8]) -> Result<(Question, Option<Grammar>), Failure> {
        let question = self.subject.read(name, body)?;
        let grammar = question.form().map(|form| self.subject.compile(&form)).transpose()?;
        Ok((question, grammar))
    }
}
