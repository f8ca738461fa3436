//! The decode loop as a whole: to the end of all texts, or one request event by event.

use onedraw::SamplingParams;

use crate::generate::error::GenerateError;
use crate::generate::event::{Event, RequestId};
use crate::generate::generator::Generator;
use crate::generate::text::{Generated, Texts};
use crate::model::LanguageModel;

impl<'a, M: LanguageModel> Generator<'a, M> {
    /// Writes all texts to their end. Returns them request by request, in the order in which these were
    /// added.
    pub fn finish(&mut self) -> Result<Vec<Generated>, GenerateError> {
        // Each step enters the model's threads by itself, so that others can use them between two steps.
        let mut texts = Texts::default();
        while !self.is_done() {
            self.step()?.into_iter().for_each(|event| texts.push(event));
        }
        Ok(texts.into_generated())
    }

    /// The events of one request as they come. Other requests go on beside it until it ends; their events are
    /// dropped.
    pub fn stream(mut self, prompt: &[u32], params: SamplingParams) -> Result<Stream<'a, M>, GenerateError> {
        let request = self.add(prompt, params)?;
        Ok(Stream { generator: self, request, events: Vec::new().into_iter() })
    }
}

/// The events of one request.
pub struct Stream<'a, M: LanguageModel> {
    generator: Generator<'a, M>,
    request: RequestId,
    events: std::vec::IntoIter<Event>,
}

impl<'a, M: LanguageModel> Stream<'a, M> {
    /// The request.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// The generator, for its timings and for what it still has to read.
    pub fn generator(&self) -> &Generator<'a, M> {
        &self.generator
    }
}

impl<M: LanguageModel> Iterator for Stream<'_, M> {
    type Item = Result<Event, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.find(|event| event.request == self.request) {
                return Some(Ok(event));
            }
            if !self.generator.writers.iter().any(|writer| writer.request == self.request) {
                return None;
            }
            match self.generator.step() {
                Ok(events) => self.events = events.into_iter(),
                Err(error) => {
                    self.generator.cancel(self.request);
                    return Some(Err(error));
                }
            }
        }
    }
}
