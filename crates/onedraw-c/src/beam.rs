//! Beam search without a model, and beams that are drawn.

use std::ffi::{c_char, c_void};

use library::beam::{
    BeamParams, BeamSearch, BeamStyle, Continuation, EarlyStopping, Expansion, StochasticBeams,
};
use library::{Finish, ParamError, Row, RowError, SamplingParams, StopConditions};
use serde::Deserialize;

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::params::{onedraw_params, params_of};
use crate::rows::{Matrix, onedraw_rows, read_rows};
use crate::stop::{ONEDRAW_GOES_ON, ONEDRAW_STOP_STRING, onedraw_finish, told};
use crate::table::{Handle, free, give, with};

/// A search for the best texts, or a drawing of different ones. One thread at a time may use it; a second one gets
/// `ONEDRAW_IN_USE`.
pub enum onedraw_beams {}

/// Where a beam of the next step comes from.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_branch {
    /// The number of the beam that it continues, among those before the step. Caches follow it.
    pub beam: u32,
    /// The token that is appended.
    pub token: u32,
}

/// A text that was found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_hypothesis {
    /// What it was ranked by: the final score, or the perturbed logprob of a drawn text.
    pub score: f64,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// The probability that a drawn text is among the draws; NaN for a search.
    pub inclusion: f64,
    /// How many tokens it has.
    pub length: usize,
    /// Why it ended; `ONEDRAW_GOES_ON` if the search ended first.
    pub finish: onedraw_finish,
    /// The id that ended it.
    pub by: u32,
}

/// What a token does to the text of a beam: `ONEDRAW_GOES_ON`, `ONEDRAW_STOP_STRING` if it ends the text, or
/// `ONEDRAW_FORBIDDEN`. It is asked about tokens that do not end the text by their ids, and no more once it has given an
/// answer that has no meaning. It cannot use the same beams. It must not throw or jump out: an exception of C++ that
/// leaves it ends the program with a message.
pub type onedraw_continuation =
    Option<extern "C-unwind" fn(context: *mut c_void, beam: usize, token: u32) -> onedraw_finish>;

/// The text must not continue with this token.
pub const ONEDRAW_FORBIDDEN: onedraw_finish = 5;

enum Search {
    Best(BeamSearch),
    Drawn(StochasticBeams),
}

/// A text that was found, with its tokens.
struct Found {
    told: onedraw_hypothesis,
    tokens: Vec<u32>,
}

/// The settings of a search, as JSON gives them.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    #[serde(rename = "beams")]
    width: usize,
    style: BeamStyle,
    length_penalty: f64,
    early_stopping: EarlyStopping,
    #[serde(rename = "beam_groups")]
    groups: usize,
    diversity_penalty: f64,
    stochastic: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let BeamParams { width, style, length_penalty, early_stopping, groups, diversity_penalty } =
            BeamParams::default();
        Self { width, style, length_penalty, early_stopping, groups, diversity_penalty, stochastic: false }
    }
}

pub(crate) struct Beams {
    /// The most beams of a step.
    width: usize,
    /// `None` after it was finished, or after a step failed.
    search: Option<Search>,
    found: Vec<Found>,
    conditions: StopConditions,
}

impl Handle for Beams {
    type Pointee = onedraw_beams;
    const NAME: &'static str = "beams";
}

impl Search {
    fn new(params: SamplingParams, settings: &Settings) -> Result<Self> {
        let &Settings { width, style, length_penalty, early_stopping, groups, diversity_penalty, stochastic } =
            settings;
        let beams = BeamParams { width, style, length_penalty, early_stopping, groups, diversity_penalty };
        if !stochastic {
            return Ok(Self::Best(BeamSearch::new(params, beams)?));
        }
        if beams != (BeamParams { width, ..BeamParams::default() }) {
            return Err(ParamError::new("stochastic", "takes no other setting than beams").into());
        }
        Ok(Self::Drawn(StochasticBeams::new(params, width)?))
    }

    fn count(&self) -> usize {
        match self {
            Self::Best(search) => search.beams().len(),
            Self::Drawn(search) => search.len(),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Best(search) => search.is_done(),
            Self::Drawn(search) => search.is_done(),
        }
    }

    fn tokens(&self, beam: usize) -> &[u32] {
        match self {
            Self::Best(search) => search.tokens(beam),
            Self::Drawn(search) => search.tokens(beam),
        }
    }

    fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        continuation: impl FnMut(usize, u32) -> Continuation,
    ) -> std::result::Result<Expansion, RowError> {
        match self {
            Self::Best(search) => search.step(rows, masks, continuation),
            Self::Drawn(search) => search.step(rows, masks, continuation),
        }
    }

    fn finish(self) -> Vec<Found> {
        let found = |score, logprob, inclusion, finish, tokens: Vec<u32>| {
            let (finish, by) = told(finish);
            let told = onedraw_hypothesis { score, logprob, inclusion, length: tokens.len(), finish, by };
            Found { told, tokens }
        };
        match self {
            Self::Best(search) => search
                .finish()
                .into_iter()
                .map(|text| found(text.score, text.logprob, f64::NAN, text.finish, text.tokens))
                .collect(),
            Self::Drawn(search) => search
                .finish()
                .into_iter()
                .map(|text| found(text.perturbed, text.logprob, text.inclusion, text.finish, text.tokens))
                .collect(),
        }
    }
}

impl Beams {
    fn search(&self) -> Result<&Search> {
        self.search.as_ref().ok_or_else(over)
    }

    /// Takes a step. If it fails, the search is over.
    fn step(
        &mut self,
        matrix: &Matrix<'_>,
        mut ask: impl FnMut(usize, u32) -> onedraw_finish,
    ) -> Result<Expansion> {
        let (needed, given) = (self.search()?.count(), matrix.len());
        if given != needed {
            return Err(Failure::argument("rows", format_args!("there are {given} rows for {needed} beams")));
        }
        let rows = (0..given).map(|index| matrix.row(index)).collect::<Result<Vec<_>>>()?;
        let masks: Vec<Option<&[u32]>> = rows.iter().map(|row| row.mask).collect();
        let rows: Vec<Row<'_>> = rows.iter().map(|row| row.row).collect();
        let mut search = self.search.take().ok_or_else(over)?;
        let mut answer = Ok(());
        let expansion =
            search.step(&rows, &masks, |beam, token| match self.conditions.finish_by_id(token) {
                Some(finish) => Continuation::Ends(finish),
                None if answer.is_err() => Continuation::Goes,
                None => match ask(beam, token) {
                    ONEDRAW_GOES_ON => Continuation::Goes,
                    ONEDRAW_STOP_STRING => Continuation::Ends(Finish::StopString { index: 0 }),
                    ONEDRAW_FORBIDDEN => Continuation::Forbidden,
                    other => {
                        let message = format!("said {other}, which is no answer about a token");
                        answer = Err(Failure::argument("continuation", message));
                        Continuation::Goes
                    }
                },
            })?;
        answer?;
        self.search = Some(search);
        Ok(expansion)
    }
}

fn over() -> Failure {
    Failure::nothing("the search is over: it was finished, or a step of it failed")
}

/// Begins a search. `settings` is a JSON object with what is not its default: {"beams": 4, "style": "hf" (or "vllm",
/// "gnmt"), "length_penalty": 1, "early_stopping": "heuristic" (or "full", "never"), "beam_groups": 1,
/// "diversity_penalty": 0, "stochastic": false}; NULL: all defaults. Of the parameters the edits act, `max_tokens`, the
/// ids that end a text, and `n`, the number of texts to return. With "stochastic" texts are drawn without replacement
/// instead, and temperature and truncations act too. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_new(
    params: *const onedraw_params,
    settings: *const c_char,
    beams: *mut *mut onedraw_beams,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, beams, || {
            let settings = match settings.is_null() {
                true => Settings::default(),
                false => {
                    let value = library::json::parse(memory.text(settings, "settings")?)?;
                    serde_json::from_value(value).map_err(|error| Failure::argument("settings", error))?
                }
            };
            let params = params_of(params)?;
            let conditions = StopConditions::new(&params)?;
            let search = Some(Search::new(params, &settings)?);
            Ok(Beams { width: settings.width, search, found: Vec::new(), conditions })
        })
    })
}

/// The number of beams, which is the number of rows that the next step needs; 0 once the search is over. `*is_done` is 1
/// if it has come to its end, else 0. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_count(
    beams: *mut onedraw_beams,
    count: *mut usize,
    is_done: *mut i32,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let (count, is_done) = (memory.place(count, "count")?, memory.place(is_done, "is_done")?);
        with(beams, |beams: &mut Beams| {
            count.write(beams.search.as_ref().map_or(0, Search::count));
            is_done.write(beams.search.as_ref().is_none_or(Search::is_done).into());
            Ok(())
        })
    })
}

/// The tokens that a beam has written. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_tokens(
    beams: *mut onedraw_beams,
    beam: usize,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(tokens, capacity, count, "tokens")?;
        with(beams, |beams: &mut Beams| {
            let search = beams.search()?;
            if beam >= search.count() {
                let message = format!("there are {} beams, and no number {beam}", search.count());
                return Err(Failure::argument("beam", message));
            }
            buffer.fill(search.tokens(beam).iter().copied())
        })
    })
}

/// Adds one token to every beam. Row i is the row after beam i. Ids of `eos_token_id` and `stop_token_ids` end a text;
/// `continuation` (NULL: nothing else does) is asked about the other tokens, with `context`. `branches` has room for
/// `capacity` entries, at least as many as the setting `beams`; `*count` of them say where the beams of the next step come
/// from. If a row cannot be used, or an answer has no meaning, the search is over. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_step(
    beams: *mut onedraw_beams,
    rows: *const onedraw_rows,
    continuation: onedraw_continuation,
    context: *mut c_void,
    branches: *mut onedraw_branch,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(branches, capacity, count, "branches")?;
        let matrix = read_rows(memory, rows)?;
        with(beams, |beams: &mut Beams| {
            buffer.check(beams.width)?;
            let expansion = beams.step(&matrix, |beam, token| {
                continuation.map_or(ONEDRAW_GOES_ON, |continuation| continuation(context, beam, token))
            })?;
            let branches = expansion.branches.iter();
            buffer
                .fill(branches.map(|branch| onedraw_branch { beam: branch.beam as u32, token: branch.token }))
        })
    })
}

/// Ends the search. `*count` texts were found, which `onedraw_beams_text` returns, the best first. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_finish(
    beams: *mut onedraw_beams,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(count, "count")?;
        with(beams, |beams: &mut Beams| {
            beams.found = beams.search.take().ok_or_else(over)?.finish();
            place.write(beams.found.len());
            Ok(())
        })
    })
}

/// A text that was found, and its tokens after the prompt. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_text(
    beams: *mut onedraw_beams,
    number: usize,
    text: *mut onedraw_hypothesis,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(text, "text")?;
        let mut buffer = memory.buffer(tokens, capacity, count, "tokens")?;
        with(beams, |beams: &mut Beams| {
            let found = beams.found.get(number).ok_or_else(|| {
                Failure::nothing(format_args!(
                    "{} texts were found, and no number {number}",
                    beams.found.len()
                ))
            })?;
            buffer.fill(found.tokens.iter().copied())?;
            place.write(found.told);
            Ok(())
        })
    })
}

/// Frees beams; NULL is nothing. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_beams_free(beams: *mut onedraw_beams, error: *mut onedraw_error) -> onedraw_status {
    call(error, |_| free::<Beams>(beams))
}
