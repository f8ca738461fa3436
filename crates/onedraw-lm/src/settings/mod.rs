//! The parameters of a text, merged from everything that sets some of them.
//!
//! Each [`Layer`] has the settings of one [`Origin`]. The strongest layer comes first: a flag or keyword
//! argument goes before parameters given as JSON, these before a preset, a preset before the model's
//! generation_config.json, and that before the defaults. A parameter takes its value from the first layer that sets it.
//!
//! The makers of a model did not know what a user would ask for, so some of their settings cannot stand
//! beside it: their top-k beside mirostat, or their order of the stages where a stage is asked for that it
//! does not name. Such a setting of the model gives way and is reported with its [`Reason`]. What a user
//! asked for never gives way. Two settings of the user's own that refuse each other are an error.
//!
//! ```
//! use onedraw_lm::settings::{Layer, Origin, Settings};
//! use serde_json::{Map, json};
//!
//! let map = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
//! let flags = map(json!({ "mirostat": 2 }));
//! let model = map(json!({ "temperature": 0.6, "top_k": 50 }));
//! let flags = Layer::read(Origin::Argument, &flags)?;
//! let resolved = Settings::default().layer(flags).layer(Layer::model(&model)).resolve()?;
//! assert_eq!((resolved.params.mirostat, resolved.params.temperature, resolved.params.top_k), (2, 0.6, 0));
//! let dropped = &resolved.dropped[0];
//! assert_eq!(dropped.field, "top_k");
//! assert_eq!(dropped.reason.to_string(), "it cannot be combined with mirostat, which was asked for");
//! # Ok::<(), onedraw::ParamError>(())
//! ```

mod bounds;
mod conflict;
mod dropped;
mod layer;
#[cfg(test)]
mod tests;

use onedraw::{ParamError, SamplingParams};

use conflict::{Conflict, conflicts};

pub use bounds::{check, items};
pub use dropped::{Dropped, Origin, Reason};
pub use layer::{Layer, PRESET_FIELDS};

/// The most tokens of a text if no layer says how many. The library's own default is 16, which is too short
/// for a text.
pub const MAX_TOKENS: u32 = 256;

/// What a preset decides beside its own settings: a model's values of these would change what the preset is
/// meant to do.
const DECIDED_BY_PRESET: [&str; 8] = [
    "order",
    "min_p",
    "typical_p",
    "top_n_sigma",
    "epsilon_cutoff",
    "eta_cutoff",
    "frequency_penalty",
    "presence_penalty",
];

/// Layers of settings, the strongest first. [`Default`] has the defaults of a text: the library's, and
/// [`MAX_TOKENS`].
#[derive(Clone, Debug)]
pub struct Settings {
    layers: Vec<Layer>,
    /// What holds where no layer says anything.
    defaults: SamplingParams,
}

impl Default for Settings {
    fn default() -> Self {
        Self::over(SamplingParams { max_tokens: MAX_TOKENS, ..SamplingParams::default() })
    }
}

/// The parameters that settings make, and which settings were not used.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The parameters. They are valid.
    pub params: SamplingParams,
    /// The settings that gave way, in the order in which that was decided.
    pub dropped: Vec<Dropped>,
}

impl Settings {
    /// No layers yet; these parameters hold where no layer says anything.
    pub fn over(defaults: SamplingParams) -> Self {
        Self { layers: Vec::new(), defaults }
    }

    /// Adds a layer that is weaker than those added before.
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Merges the layers. The error is that of the settings that do not give way.
    pub fn resolve(mut self) -> Result<Resolved, ParamError> {
        let mut dropped = self.take_unusable();
        dropped.extend(self.leave_to_preset());
        // Each round takes out one setting, so this ends.
        while let Some(next) = self.give_way() {
            dropped.push(next);
        }
        let params = self.merged();
        match params.validate() {
            Ok(()) => Ok(Resolved { params, dropped }),
            Err(error) => Err(self.asked().validate().err().unwrap_or(error)),
        }
    }

    /// Takes out what cannot be used, and reports it unless a stronger layer sets the same parameter.
    fn take_unusable(&mut self) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for place in 0..self.layers.len() {
            let unusable = self.layers[place].take_unusable();
            let is_missed =
                |dropped: &Dropped| !self.layers[..place].iter().any(|layer| layer.sets(&dropped.field));
            dropped.extend(unusable.into_iter().filter(is_missed));
        }
        dropped
    }

    /// Takes out what a preset decides, if there is one.
    fn leave_to_preset(&mut self) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        if self.layers.iter().any(|layer| layer.origin() == Origin::Preset) {
            for field in DECIDED_BY_PRESET {
                while let Some(place) = self.owner(field).filter(|&place| self.gives_way(place)) {
                    dropped.extend(self.layers[place].remove(field, Reason::DecidedByPreset));
                }
            }
        }
        dropped
    }

    /// Takes out one setting that cannot stand beside another one, if there is such a setting in a layer that
    /// gives way.
    ///
    /// Conflicts with a setting that does not give way are settled first. What they leave may have no
    /// conflict left: if the model's order gives way because of a stage that was asked for, the model's own
    /// settings can stay.
    fn give_way(&mut self) -> Option<Dropped> {
        let all = conflicts(&self.merged());
        let weak = |field| self.owner(field).filter(|&place| self.gives_way(place));
        let against_firm =
            all.iter().find_map(|&Conflict { named, other }| match (weak(named), weak(other)) {
                (Some(place), None) => Some((place, named, other)),
                (None, Some(place)) => Some((place, other, named)),
                _ => None,
            });
        // Of two that give way, the weaker one does; of one layer's, the one that validation names.
        let among_weak = || {
            all.iter().find_map(|&Conflict { named, other }| {
                let (first, second) = (weak(named)?, weak(other)?);
                Some(if first < second { (second, other, named) } else { (first, named, other) })
            })
        };
        let (place, field, stays) = against_firm.or_else(among_weak)?;
        let origin = self.owner(stays).map(|place| self.layers[place].origin());
        self.layers[place].remove(field, Reason::Beside { field: stays, origin })
    }

    /// The layer that a parameter has its value from; `None`: it has its default.
    fn owner(&self, field: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.sets(field))
    }

    fn gives_way(&self, place: usize) -> bool {
        self.layers[place].origin().gives_way()
    }

    /// All layers over the defaults.
    fn merged(&self) -> SamplingParams {
        self.with(self.layers.iter())
    }

    /// What does not give way, alone.
    fn asked(&self) -> SamplingParams {
        let firm = self.layers.iter().filter(|layer| !layer.origin().gives_way());
        self.with(firm)
    }

    /// Some of the layers over the defaults.
    fn with<'a>(&self, layers: impl DoubleEndedIterator<Item = &'a Layer>) -> SamplingParams {
        let mut params = self.defaults.clone();
        layers.rev().for_each(|layer| layer.lay_over(&mut params));
        params
    }
}
