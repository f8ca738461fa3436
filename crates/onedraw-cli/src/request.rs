//! What is asked of each row: `--params` and the flags that override it, checked before any row is drawn.

use std::fs;

use anyhow::{Result, anyhow, bail};
use onedraw::{Order, ParamError, Plan, RowError, SamplingParams};
use serde_json::Value;

/// Flags that override the parameters of every row.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// In place of `logprobs`.
    pub logprobs: Option<i64>,
    /// In place of `logprobs_mode`; a name of [`LogprobsMode`](onedraw::LogprobsMode).
    pub logprobs_mode: Option<String>,
    /// In place of `order`.
    pub order: Option<Order>,
}

/// What is asked of one row.
#[derive(Clone, Debug)]
pub struct Request {
    /// The parameters, with `logprobs` always set: the program reports the drawn token's in any case.
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
    /// Reads the argument of `--params`: JSON, or `@` and the name of a file of it. `None`: the defaults.
    pub fn parse(argument: Option<&str>, overrides: &Overrides) -> Result<Self> {
        let from_file;
        let text = match argument {
            None => "{}",
            Some(argument) => match argument.strip_prefix('@') {
                None => argument,
                Some(path) => {
                    from_file = fs::read_to_string(path)
                        .map_err(|error| anyhow!("params: the file {path} cannot be read: {error}"))?;
                    &from_file
                }
            },
        };
        let value = onedraw::json::parse(text)?;
        match value {
            Value::Object(_) => {
                let request = Request::new(value, overrides).map_err(|error| named(None, &error))?;
                Ok(Self::Alike(Box::new(request)))
            }
            Value::Array(values) => {
                let each =
                    |(row, value)| Request::new(value, overrides).map_err(|error| named(Some(row), &error));
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
    fn new(mut value: Value, overrides: &Overrides) -> Result<Self, ParamError> {
        // Flags replace values before the check, so that a replaced value cannot be an error.
        if let Value::Object(fields) = &mut value {
            let Overrides { logprobs, logprobs_mode, order } = overrides;
            let mut replace = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    fields.insert(name.to_owned(), value);
                }
            };
            replace("logprobs", logprobs.map(Value::from));
            replace("logprobs_mode", logprobs_mode.clone().map(Value::from));
            let stages =
                |order: &Order| order.stages().iter().map(|stage| Value::from(stage.name())).collect();
            replace("order", order.as_ref().map(stages));
        }
        let mut params = SamplingParams::from_value(value)?;
        let lists_logprobs = params.logprobs.is_some();
        params.logprobs.get_or_insert(0);
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

/// The error of one parameter set. The field `params` is the set as a whole.
fn named(row: Option<usize>, error: &ParamError) -> anyhow::Error {
    match (row, error.field()) {
        (Some(row), "params") => anyhow!("params[{row}]: {}", error.message()),
        (_, name) => anyhow!("{}: {}", field(row, name), error.message()),
    }
}

#[cfg(test)]
mod tests {
    use onedraw::{LogprobsMode, Stage};

    use super::*;

    fn parse(text: &str) -> Result<Requests, String> {
        Requests::parse(Some(text), &Overrides::default()).map_err(|error| error.to_string())
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
    fn flags_go_before_parameters() {
        let overrides = Overrides {
            logprobs: Some(3),
            logprobs_mode: Some("processed_logits".to_owned()),
            order: Some(Order::of([Stage::TopK, Stage::Temperature])),
        };
        let text = r#"{"logprobs": -7, "logprobs_mode": "raw_logits", "order": "top_p", "top_k": 2}"#;
        let requests = Requests::parse(Some(text), &overrides).expect("what is replaced is not checked");
        let params = &requests.of(0).params;
        assert_eq!(params.logprobs, Some(3));
        assert_eq!(params.logprobs_mode, LogprobsMode::ProcessedLogits);
        assert_eq!(params.order, overrides.order);
        let left_out =
            Requests::parse(Some(r#"{"top_p": 0.5}"#), &overrides).expect_err("top_p has no stage");
        assert_eq!(left_out.to_string(), "top_p: is set, but the order does not name its stage top_p");
    }

    #[test]
    fn errors_name_the_field_and_the_row() {
        let error = |text| parse(text).expect_err("an error");
        assert_eq!(error(r#"{"top_p": 2}"#), "top_p: must be in (0, 1], not 2");
        assert_eq!(error(r#"[{}, {}, {}, {"top_p": 2}]"#), "params[3].top_p: must be in (0, 1], not 2");
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
