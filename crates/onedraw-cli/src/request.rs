//! What is asked of each row: `--params` and the flags that go before it, checked before any row is drawn.

use anyhow::{Result, anyhow, bail};
use onedraw::{ParamError, Plan, RowError, SamplingParams};
use serde_json::{Map, Value};

use crate::flags::parameters::ParameterFlags;

/// What is asked of one row.
#[derive(Clone, Debug)]
pub struct Request {
    /// The parameters, with `logprobs` and `probability` always set: the program reports the drawn token's in
    /// any case.
    pub params: SamplingParams,
    /// Whether a list of logprobs was asked for.
    pub lists_logprobs: bool,
}

/// What is asked of all rows.
#[derive(Clone, Debug)]
pub enum Requests {
    /// The same of each.
    Alike(Box<Request>),
    /// Of each its own.
    Each(Vec<Request>),
}

impl Requests {
    /// What the flags and `--params` ask for: one object for all rows, or a list of one for each row.
    pub(crate) fn new(flags: &ParameterFlags) -> Result<Self> {
        match flags.json()?.unwrap_or_else(|| Map::new().into()) {
            Value::Object(fields) => Ok(Self::Alike(Box::new(Request::new(flags, fields)?))),
            Value::Array(values) => {
                let each = |(row, value)| match value {
                    Value::Object(fields) => Request::new(flags, fields).map_err(|error| in_row(row, error)),
                    _ => bail!("params[{row}]: must be a JSON object"),
                };
                Ok(Self::Each(values.into_iter().enumerate().map(each).collect::<Result<_>>()?))
            }
            _ => bail!("params: must be a JSON object, or an array of one a row"),
        }
    }

    /// What is asked of one row.
    ///
    /// # Panics
    ///
    /// If [`Requests::check`] did not accept a number of rows above `row`.
    pub fn of(&self, row: usize) -> &Request {
        match self {
            Self::Alike(request) => request,
            Self::Each(requests) => &requests[row],
        }
    }

    /// Every different request, with the row it is named after.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<usize>, &Request)> {
        let (alike, each) = match self {
            Self::Alike(request) => (Some((None, request.as_ref())), [].as_slice()),
            Self::Each(requests) => (None, requests.as_slice()),
        };
        alike.into_iter().chain(each.iter().enumerate().map(|(row, request)| (Some(row), request)))
    }

    /// Whether more than one sequence is drawn from any row.
    pub fn has_sequences(&self) -> bool {
        self.all().any(|(_, request)| request.params.n > 1)
    }

    /// Checks everything that needs the shape of the logits and the number of draws.
    pub fn check(&self, rows: usize, vocabulary: usize, draws: u32) -> Result<()> {
        if let Self::Each(requests) = self
            && requests.len() != rows
        {
            bail!("params: an array of {} for {rows} rows; one object a row is needed", requests.len());
        }
        for (row, Request { params, .. }) in self.all() {
            let written = params.output_token_ids.len() as u64;
            if written + u64::from(draws) - 1 > u64::from(u32::MAX) {
                bail!(
                    "--draws: {draws} draws after {written} tokens of output; positions end at {}",
                    u32::MAX
                );
            }
            let plan = Plan::new(params).map_err(|error| named(row, &error))?;
            // Rows without logits are reported as the error of each row.
            if vocabulary > 0 {
                plan.check_vocabulary(vocabulary).map_err(|error| match error {
                    RowError::OutsideVocabulary { .. } => anyhow!("{}", field(row, &error.to_string())),
                    other => anyhow!("logits: {other}"),
                })?;
            }
        }
        Ok(())
    }
}

impl Request {
    fn new(flags: &ParameterFlags, fields: Map<String, Value>) -> Result<Self> {
        let mut params = flags.of_row(fields)?;
        let lists_logprobs = params.logprobs.is_some();
        params.logprobs.get_or_insert(0);
        params.probability = true;
        Ok(Self { params, lists_logprobs })
    }
}

/// The name of a parameter, with the row if each row has its own parameters.
fn field(row: Option<usize>, name: &str) -> String {
    match row {
        None => name.to_owned(),
        Some(row) => format!("params[{row}].{name}"),
    }
}

/// The error of a row's parameters. One of a flag is an error of all rows.
fn in_row(row: usize, error: anyhow::Error) -> anyhow::Error {
    let message = error.to_string();
    if message.starts_with("--") { error } else { anyhow!("params[{row}].{message}") }
}

/// The error of a plan.
fn named(row: Option<usize>, error: &ParamError) -> anyhow::Error {
    anyhow!("{}: {}", field(row, error.field()), error.message())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use onedraw::{LogprobsMode, Order, Stage};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ParameterFlags,
    }

    fn with(flags: &[&str], params: &str) -> Result<Requests, String> {
        let line = [&["x", "--params", params], flags].concat();
        let line = Line::try_parse_from(line).expect("flags");
        Requests::new(&line.flags).map_err(|error| error.to_string())
    }

    fn parse(params: &str) -> Result<Requests, String> {
        with(&[], params)
    }

    #[test]
    fn the_drawn_tokens_logprob_is_always_asked_for() {
        let logprobs = |text| {
            parse(text).map(|requests| (requests.of(0).params.logprobs, requests.of(0).lists_logprobs))
        };
        assert_eq!(logprobs("{}"), Ok((Some(0), false)));
        assert_eq!(logprobs(r#"{"logprobs": null}"#), Ok((Some(0), false)));
        assert_eq!(logprobs(r#"{"logprobs": 0}"#), Ok((Some(0), true)));
        assert_eq!(logprobs(r#"{"logprobs": 5}"#), Ok((Some(5), true)));
        assert_eq!(logprobs(r#"[{"logprobs": -1}]"#), Ok((Some(-1), true)));
    }

    #[test]
    fn the_probability_is_always_asked_for() {
        assert_eq!(parse("[{}]").map(|requests| requests.of(0).params.probability), Ok(true));
    }

    #[test]
    fn flags_go_before_parameters_and_these_before_a_preset() {
        let text = r#"{"logprobs": "x", "logprobs_mode": "raw_logits", "order": "top_p", "top_k": 2}"#;
        let flags =
            ["--logprobs", "3", "--logprobs-mode", "processed_logits", "--order", "top_k,temperature"];
        let requests = with(&flags, text).expect("what is replaced is not checked");
        let params = &requests.of(0).params;
        assert_eq!(params.logprobs, Some(3));
        assert_eq!(params.logprobs_mode, LogprobsMode::ProcessedLogits);
        assert_eq!(params.order, Some(Order::of([Stage::TopK, Stage::Temperature])));
        let error = with(&flags, r#"{"top_p": 0.5}"#).expect_err("top_p has no stage");
        assert_eq!(error, "top_p: is set, but the order does not name its stage top_p");
        let requests =
            with(&["--preset", "creative", "--top-k", "7"], r#"[{"top_p": 0.5}, {}]"#).expect("two");
        let of = |row| {
            let SamplingParams { temperature, top_p, top_k, .. } = requests.of(row).params;
            (temperature, top_p, top_k)
        };
        assert_eq!((of(0), of(1)), ((1.2, 0.5, 7), (1.2, 0.95, 7)));
        assert_eq!(
            with(&["--top-p", "2"], "[{}, {}]").expect_err("a flag's error"),
            "--top-p: must be in [0, 1], not 2"
        );
    }

    #[test]
    fn errors_name_the_field_and_the_row() {
        let error = |text| parse(text).expect_err("an error");
        assert_eq!(error(r#"{"top_p": 2}"#), "top_p: must be in [0, 1], not 2");
        assert_eq!(error(r#"[{}, {}, {}, {"top_p": 2}]"#), "params[3].top_p: must be in [0, 1], not 2");
        assert_eq!(error("[{}, 7]"), "params[1]: must be a JSON object");
        assert_eq!(error("7"), "params: must be a JSON object, or an array of one a row");
        assert!(error("{").starts_with("params: cannot be read as JSON: EOF"), "{}", error("{"));
        assert!(error("@/nowhere/at/all").starts_with("params: the file /nowhere/at/all cannot be read: "));
    }

    #[test]
    fn numbers_that_need_the_shape() {
        let check = |text, rows, draws| {
            parse(text).expect("good so far").check(rows, 0, draws).map_err(|error| error.to_string())
        };
        assert_eq!(check("[{}, {}]", 2, 1), Ok(()));
        assert_eq!(
            check("[{}, {}]", 3, 1),
            Err("params: an array of 2 for 3 rows; one object a row is needed".to_owned())
        );
        assert_eq!(check("[]", 0, 1), Ok(()));
        assert_eq!(check(r#"{"output_token_ids": [1]}"#, 1, u32::MAX), Ok(()));
        assert_eq!(
            check(r#"{"output_token_ids": [1, 2]}"#, 1, u32::MAX),
            Err("--draws: 4294967295 draws after 2 tokens of output; positions end at 4294967295".to_owned())
        );
    }
}
