//! `beams`: a search for the best texts, as the tree of what it compared.

use std::collections::BTreeMap;

use onedraw::beam::{Candidate, Expansion, Fate};
use onedraw_grammar::Grammar;
use onedraw_lm::{Beams, Found, LanguageModel};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::lab::Lab;
use crate::line::{Line, Told};
use crate::question::Search;
use crate::subject::Subject;

/// The most continuations that are compared in one search: each is a line in the memory of who asked.
const MOST_NODES: usize = 1 << 16;

/// A search under way.
pub(crate) struct Searching<'a, M: LanguageModel> {
    /// `None` once it has ended.
    search: Option<onedraw_lm::Search<'a, M>>,
    subject: &'a Subject,
    nodes: Vec<Value>,
    /// The node of each beam; `None`: the prompt.
    beams: Vec<Option<usize>>,
    /// The node of a token after another node.
    children: BTreeMap<(Option<usize>, u32), usize>,
}

impl<'a, M: LanguageModel> Searching<'a, M> {
    pub(crate) fn begin(
        lab: &Lab<'a, M>,
        search: Search,
        grammar: Option<&Grammar>,
    ) -> Result<Self, Failure> {
        let Search { text, beams: settings } = search;
        let most = settings.width.saturating_mul(2).saturating_mul(text.params.max_tokens as usize);
        if most > MOST_NODES {
            let message = format!(
                "{} beams of {} tokens are too many to show; take fewer of either",
                settings.width, text.params.max_tokens
            );
            return Err(Failure::field("parameter", "beams", message));
        }
        let mut beams = Beams::new(lab.model, &*lab.subject.tokenizer).kernel(lab.kernel);
        if let Some(grammar) = grammar {
            beams = beams.constrained(&grammar.start());
        }
        let width = settings.width;
        let search = beams.begin(&text.prompt, text.params, settings)?;
        let (nodes, children) = (Vec::new(), BTreeMap::new());
        Ok(Self { search: Some(search), subject: lab.subject, nodes, beams: vec![None; width], children })
    }

    pub(crate) fn step(&mut self) -> Result<Told, Failure> {
        if let Some(expansion) = self.search.as_mut().map(|search| search.step()).transpose()?.flatten() {
            self.take(&expansion);
        }
        match self.search.take_if(|search| search.is_done()) {
            Some(search) => Ok(Told { lines: vec![self.told(search.finish())], has_ended: true }),
            None => Ok(Told { lines: Vec::new(), has_ended: false }),
        }
    }

    /// Adds the continuations of a step to the tree.
    fn take(&mut self, expansion: &Expansion) {
        for &Candidate { beam, token, logprob, fate, .. } in &expansion.candidates {
            let (node, parent) = (self.nodes.len(), self.beams.get(beam).copied().flatten());
            let mut named = self.subject.piece(token);
            let about = json!({
                "node": node,
                "parent": parent,
                "logprob": logprob,
                "kept": fate != Fate::Dropped,
            });
            named.extend(if let Value::Object(about) = about { about } else { Map::new() });
            self.nodes.push(named.into());
            self.children.insert((parent, token), node);
        }
        let after = |branch: &onedraw::beam::Branch| {
            let parent = self.beams.get(branch.beam).copied().flatten();
            self.children.get(&(parent, branch.token)).copied()
        };
        self.beams = expansion.branches.iter().map(after).collect();
    }

    /// The tree, and the texts that were found, the best first.
    fn told(&mut self, found: Vec<Found>) -> Line {
        let texts = found.into_iter().map(|found| {
            let mut node = None;
            for &token in &found.hypothesis.tokens {
                node = self.children.get(&(node, token)).copied();
            }
            json!({
                "node": node,
                "text": found.text,
                "logprob": found.hypothesis.logprob,
                "score": found.hypothesis.score,
            })
        });
        let texts: Vec<Value> = texts.collect();
        json!({"nodes": std::mem::take(&mut self.nodes), "found": texts})
    }
}
