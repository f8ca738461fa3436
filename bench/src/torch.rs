//! PyTorch on the CPU, in a process of its own that is given the rows in a file. Billed: the sampling steps
//! as `torch/sampler.py` has them, timed over there.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result};
use onedraw::SamplingParams;
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::Contender;
use onedraw_bench::stopwatch::{Stopwatch, Times};
use onedraw_bench::strategies::Strategy;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::engine::{Answer, Engine};

/// The process, which answers one question at a time.
pub struct Server {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Server {
    /// Starts it with that Python.
    pub fn start(python: &Path) -> Result<Rc<RefCell<Self>>> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("torch/serve.py");
        let mut process = Command::new(python)
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", python.display()))?;
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("the process has no output")?);
        let folder = tempfile::tempdir()?;
        Ok(Rc::new(RefCell::new(Self { process, questions, answers, folder })))
    }

    /// Asks one question.
    pub fn ask(&mut self, question: Value) -> Value {
        let mut line = String::new();
        let questions = self.questions.as_mut().expect("open until it is dropped");
        writeln!(questions, "{question}").expect("PyTorch's process is there");
        self.answers.read_line(&mut line).expect("PyTorch's process is there");
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("PyTorch's process has no answer to {question}"))
    }

    fn load(&mut self, rows: &[Aligned<f32>]) {
        let path = self.folder.path().join("rows");
        let bytes: Vec<u8> =
            rows.iter().flat_map(|row| row.row()).flat_map(|logit| logit.to_le_bytes()).collect();
        std::fs::write(&path, bytes).expect("the rows can be written");
        self.ask(json!({"ask": "load", "path": path, "vocabulary": rows[0].row().len()}));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without questions it ends by itself.
        self.questions = None;
        let _ = self.process.wait();
    }
}

/// PyTorch over a set of rows.
pub struct Torch {
    server: Rc<RefCell<Server>>,
    vocabulary: usize,
}

impl Torch {
    /// Draws from these rows.
    pub fn new(server: &Rc<RefCell<Server>>, rows: &[Aligned<f32>]) -> Self {
        server.borrow_mut().load(rows);
        Self { server: Rc::clone(server), vocabulary: rows[0].row().len() }
    }

    /// The parameters that are not at their defaults, if it knows them all.
    fn params(&self, strategy: &Strategy) -> Option<Value> {
        let params = changed(&strategy.params(1, self.vocabulary));
        let known = self.server.borrow_mut().ask(json!({"ask": "known", "params": params}));
        (known == json!(true)).then_some(params)
    }

    /// Batches of so many rows on so many threads.
    pub fn batches(
        &mut self,
        strategy: &Strategy,
        batch: usize,
        threads: usize,
    ) -> Option<impl Contender + use<>> {
        let params = self.params(strategy)?;
        Some(Draws { server: Rc::clone(&self.server), params, batch, threads })
    }
}

fn changed(params: &SamplingParams) -> Value {
    let default = serde_json::to_value(SamplingParams::default()).expect("JSON");
    let mut fields = serde_json::to_value(params).expect("JSON");
    if let Value::Object(fields) = &mut fields {
        fields.retain(|name, value| default.get(name) != Some(value));
    }
    fields
}

struct Draws {
    server: Rc<RefCell<Server>>,
    params: Value,
    batch: usize,
    threads: usize,
}

impl Contender for Draws {
    fn times(&mut self, rows: &[usize], position: u32, watch: &Stopwatch) -> Times {
        let Self { server, params, batch, threads } = self;
        let times = server.borrow_mut().ask(json!({
            "ask": "times", "params": params, "rows": rows, "position": position, "warm_up": watch.warm_up,
            "draws": watch.draws, "at_most": watch.at_most.as_secs_f64(), "batch": batch, "threads": threads,
        }));
        Times(serde_json::from_value(times).expect("a list of times"))
    }
}

impl Engine for Torch {
    fn name(&self) -> &'static str {
        "PyTorch"
    }

    fn contender(&mut self, strategy: &Strategy) -> Option<Box<dyn Contender + '_>> {
        Some(Box::new(self.batches(strategy, 1, 1)?))
    }

    fn answer(&mut self, strategy: &Strategy, row: usize) -> Option<Answer> {
        let params = self.params(strategy)?;
        let mut server = self.server.borrow_mut();
        let path = server.folder.path().join("answer");
        server.ask(json!({"ask": "answer", "params": params, "row": row, "path": path}));
        let bytes = std::fs::read(&path).expect("the answer can be read");
        let numbers: Vec<f64> = bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let (tokens, probabilities) = numbers.split_at(numbers.len() / 2);
        let tokens = tokens.iter().map(|&token| token as u32).collect();
        Some(Answer::Distribution { tokens, probabilities: probabilities.to_vec() })
    }

    fn logprobs(&mut self, strategy: &Strategy, row: usize) -> Option<Vec<(u32, f64)>> {
        let params = self.params(strategy)?;
        let listed = self.server.borrow_mut().ask(json!({"ask": "logprobs", "params": params, "row": row}));
        serde_json::from_value(listed).ok()
    }
}
