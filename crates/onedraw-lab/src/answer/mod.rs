//! Answers, pass by pass: `write`, `look` and `beams` have a file each.

mod beams;
mod look;
mod write;

use onedraw_grammar::Grammar;
use onedraw_lm::LanguageModel;

use crate::failure::Failure;
use crate::lab::Lab;
use crate::line::{Line, Told};
use crate::question::{Look, Search};
use crate::text::Text;
use beams::Searching;
use look::Looking;
use write::Writing;

/// An answer that is being made. [`Lab::step`] goes on with it.
pub struct Answer<'a, M: LanguageModel>(State<'a, M>);

enum State<'a, M: LanguageModel> {
    /// One line, which needs no pass.
    Told(Line),
    Write(Box<Writing<'a, M>>),
    Look(Box<Looking<'a, M>>),
    Beams(Box<Searching<'a, M>>),
    Ended,
}

impl<'a, M: LanguageModel> Answer<'a, M> {
    pub(crate) fn told(line: Line) -> Self {
        Self(State::Told(line))
    }

    pub(crate) fn write(lab: &Lab<'a, M>, text: Text, grammar: Option<&Grammar>) -> Result<Self, Failure> {
        Ok(Self(State::Write(Box::new(Writing::begin(lab, text, grammar)?))))
    }

    pub(crate) fn look(look: Look, grammar: Option<Grammar>) -> Self {
        Self(State::Look(Box::new(Looking::begin(look, grammar))))
    }

    pub(crate) fn beams(
        lab: &Lab<'a, M>,
        search: Search,
        grammar: Option<&Grammar>,
    ) -> Result<Self, Failure> {
        Ok(Self(State::Beams(Box::new(Searching::begin(lab, search, grammar)?))))
    }

    pub(crate) fn step(&mut self, lab: &mut Lab<'a, M>) -> Option<Vec<Line>> {
        let told = match &mut self.0 {
            State::Ended => return None,
            State::Told(line) => Ok(Told { lines: vec![std::mem::take(line)], has_ended: true }),
            State::Write(writing) => writing.step(lab),
            State::Look(looking) => looking.step(lab),
            State::Beams(searching) => searching.step(),
        };
        let told = told.unwrap_or_else(|failure| Told { lines: vec![failure.line()], has_ended: true });
        if told.has_ended {
            self.0 = State::Ended;
        }
        Some(told.lines)
    }
}
