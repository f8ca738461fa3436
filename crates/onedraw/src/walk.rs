//! The way through the chain, up to the draw: temperatures add up, prefixes are left pending, and what hangs on the whole row is done.

use crate::chain::Stage;
use crate::custom::{Custom, View};
use crate::draw::{Draw, DrawMemory, Pending, summit};
use crate::edit::temperature::{Heat, Temperature};
use crate::error::RowError;
use crate::history::History;
use crate::mass::relative;
use crate::noise::Noise;
use crate::order::Key;
use crate::params::GREEDY_BELOW;
use crate::plan::{Segment, Step};
use crate::question::{Answers, Question};
use crate::truncate::{Prefix, Truncation};

/// What a token depends on beside the row and the chain.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub noise: Noise,
    pub history: &'a History,
    /// The number of logits in the row.
    pub vocabulary: usize,
    /// Where mirostat stands.
    pub mu: f64,
}

/// What a watched draw has just gone through.
pub(crate) enum Passed<'a> {
    /// The edits a segment begins with.
    Edits(&'a Segment),
    Step(&'a Step),
}

impl<'a> Draw<'a> {
    /// Goes through the chain.
    pub(crate) fn new(
        row: &'a mut dyn Answers,
        segments: &[Segment],
        is_greedy: bool,
        moment: &Moment<'_>,
        memory: &'a mut DrawMemory,
    ) -> Result<Self, RowError> {
        Self::watched(row, segments, is_greedy, moment, memory, |_, _| ())
    }

    /// As [`Draw::new`]; `watch` sees the draw after every segment's edits and every step.
    pub(crate) fn watched(
        row: &'a mut dyn Answers,
        segments: &[Segment],
        is_greedy: bool,
        moment: &Moment<'_>,
        memory: &'a mut DrawMemory,
        mut watch: impl FnMut(&mut Self, Passed<'_>),
    ) -> Result<Self, RowError> {
        let mut draw = Self::open(row, memory, Question::Summit, segments.first())?;
        draw.is_greedy = is_greedy;
        for (i, segment) in segments.iter().enumerate() {
            if i > 0 {
                draw.begin(i, segment)?;
            }
            watch(&mut draw, Passed::Edits(segment));
            for (j, step) in segment.steps.iter().enumerate() {
                draw.take(step, (i as u32, j as u32), moment)?;
                watch(&mut draw, Passed::Step(step));
            }
        }
        Ok(draw)
    }

    /// Makes what the steps so far left part of the row, then has the edits of segment number `index` made.
    fn begin(&mut self, index: usize, segment: &Segment) -> Result<(), RowError> {
        let last = self.cut();
        let question = Question::Narrow { last, temperature: self.temperature, segment: index as u32 };
        self.summit = summit(&mut self.row, question, Some(segment))?;
        self.temperature = Temperature::ONE;
        self.pending.clear();
        Ok(())
    }

    fn take(&mut self, step: &Step, place: (u32, u32), moment: &Moment<'_>) -> Result<(), RowError> {
        match step {
            Step::Heat(heat) => self.heat(*heat),
            Step::Truncate(_, truncation) => self.truncate(truncation, place, moment),
            Step::Smooth(smoothing) => {
                let question = Question::Smooth { smoothing: *smoothing, x_max: self.x_max() };
                self.summit = summit(&mut self.row, question, None)?;
            }
            Step::Custom(custom) => self.custom(custom, moment)?,
        }
        Ok(())
    }

    fn heat(&mut self, heat: Heat) {
        let temperature = match heat {
            Heat::Fixed(temperature) => temperature,
            Heat::Dynamic { low, high, exponent } => {
                let last = self.cut();
                let spread = self.row.spread(last, self.softmax());
                Heat::dynamic(low, high, exponent, &spread)
            }
        };
        if temperature < GREEDY_BELOW {
            self.is_greedy = true;
        } else {
            self.temperature = self.temperature.then(temperature);
        }
    }

    fn truncate(&mut self, truncation: &Truncation, place: (u32, u32), moment: &Moment<'_>) {
        match truncation {
            Truncation::Prefix(prefix) => self.leave_pending(*prefix),
            Truncation::Mirostat(mirostat) => {
                let last = self.cut();
                let Moment { vocabulary, mu, .. } = *moment;
                let prefix = mirostat.prefix(&mut self.row, mu, self.temperature, vocabulary, last);
                self.leave_pending(prefix);
            }
            Truncation::Typical(typical) => {
                let last = self.cut();
                let x_max = self.x_max();
                let window = typical.window(&mut self.row, x_max, self.temperature, last);
                if let Some(head) = window.head {
                    self.behead(head, None);
                }
                self.leave_pending(Prefix::UpTo(window.last));
            }
            Truncation::Xtc(xtc) if xtc.acts(&moment.noise) => {
                let last = self.cut();
                let stays = xtc.last_top_choice(&mut self.row, self.summit, self.temperature, last);
                if let Some(stays) = stays {
                    self.behead(stays.previous(), Some(place));
                }
            }
            Truncation::Xtc(_) => {}
        }
    }

    fn leave_pending(&mut self, prefix: Prefix) {
        self.pending.push(Pending { prefix, temperature: self.temperature, cut: None, mass_before: None });
    }

    /// Masks the tokens up to `head`. Something stays after it, and every pending cut is known.
    fn behead(&mut self, head: Key, xtc: Option<(u32, u32)>) {
        if let Ok(first) = summit(&mut self.row, Question::Behead { head, xtc }, None) {
            self.summit = first;
        }
    }

    /// Shows the row to a user's stage and does what it says.
    fn custom(&mut self, custom: &Custom, moment: &Moment<'_>) -> Result<(), RowError> {
        let stage = || Stage::Custom(custom.clone());
        let (last, x_max, temperature) = (self.cut(), self.x_max(), self.temperature);
        let mass = relative(self.row.total(last, temperature.softmax(x_max)));
        self.row.ask(Question::Kept { last });
        let logits = &mut vec![f32::NEG_INFINITY; moment.vocabulary][..];
        for key in self.row.keys().iter() {
            // Ranks may hold more than the asker was told.
            if let Some(logit) = logits.get_mut(key.token() as usize) {
                *logit = key.logit();
            }
        }
        let Moment { noise: Noise { position, .. }, history, .. } = *moment;
        let view = View { logits, history, position, temperature, x_max, mass };
        let question =
            custom.question(&view).map_err(|message| RowError::CustomStage { stage: stage(), message })?;
        self.summit = match summit(&mut self.row, question, None) {
            Err(RowError::NothingLeft { .. }) => Err(RowError::NothingLeft { stage: Some(stage()) }),
            other => other,
        }?;
        // The first token may be one that a prefix before this stage dropped.
        if self.summit > last {
            return Err(RowError::NothingLeft { stage: Some(stage()) });
        }
        Ok(())
    }
}
