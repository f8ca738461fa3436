//! What is counted, in the form of Prometheus.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram};
use metrics::{gauge, histogram};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use onedraw_lm::speculate::Guessed;

/// The upper ends of the buckets of times, in seconds: three for each power of ten, from a pass of a small model to the
/// longest request.
const SECONDS: [f64; 17] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 200.0, 600.0];

/// The upper ends of the buckets of numbers of texts and tokens.
const COUNTS: [f64; 14] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0];

/// The counters of one server. Clones count together.
#[derive(Clone)]
pub(crate) struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    waiting: Gauge,
    running: Gauge,
    batch: Histogram,
    pass: Histogram,
    queue: Histogram,
    first: Histogram,
    next: Histogram,
    request: Histogram,
    prompt_tokens: Counter,
    output_tokens: Counter,
    prompt_length: Histogram,
    cancelled: Counter,
    guesses: Counter,
    accepted: Counter,
    drafted_passes: Counter,
    trace_failures: Counter,
    connections: Gauge,
    /// Texts in the pass that comes next.
    writing: Arc<AtomicU64>,
}

/// What became of guesses so far.
pub(crate) struct Speculated {
    guesses: u64,
    accepted: u64,
    passes: u64,
}

impl Speculated {
    pub(crate) fn of(guessed: &Guessed) -> Self {
        let accepted: usize = guessed.depths.iter().map(|&(_, held)| held).sum();
        Self { guesses: guessed.guesses as u64, accepted: accepted as u64, passes: guessed.passes as u64 }
    }
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, BuildError> {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
            .set_buckets_for_metric(Matcher::Suffix("_texts".to_owned()), &COUNTS)?
            .set_buckets_for_metric(Matcher::Suffix("_length_tokens".to_owned()), &COUNTS)?;
        let recorder = Arc::new(builder.build_recorder());
        let handle = recorder.handle();
        // Not the process's recorder, which other servers in it would share.
        metrics::with_local_recorder(&*recorder, || {
            describe_counter!("onedraw_requests_total", "Requests by path and status");
            Ok(Self {
                waiting: told_gauge("onedraw_waiting", "Prompts that wait for their turn"),
                running: told_gauge("onedraw_running", "Texts that are being written"),
                batch: told("onedraw_batch_texts", "Texts in one pass of the model"),
                pass: told("onedraw_pass_seconds", "Time of one pass of the model and its draws"),
                queue: told("onedraw_queue_seconds", "Time that a prompt waited for its turn"),
                first: told(
                    "onedraw_first_token_seconds",
                    "Time from a request to the first token of a text",
                ),
                next: told("onedraw_next_token_seconds", "Time between two tokens of a text"),
                request: told("onedraw_request_seconds", "Time from a request to the end of its answer"),
                prompt_tokens: counted("onedraw_prompt_tokens_total", "Tokens of prompts"),
                output_tokens: counted("onedraw_output_tokens_total", "Tokens that were written"),
                prompt_length: told("onedraw_prompt_length_tokens", "Tokens of a prompt"),
                cancelled: counted(
                    "onedraw_cancelled_texts_total",
                    "Texts whose client left, or whose time was over",
                ),
                guesses: counted("onedraw_speculation_guesses_total", "Guesses that were verified"),
                accepted: counted("onedraw_speculation_accepted_total", "Guesses that were right"),
                drafted_passes: counted("onedraw_speculation_passes_total", "Passes with guesses"),
                trace_failures: counted(
                    "onedraw_trace_failures_total",
                    "Times that the trace could not be written",
                ),
                connections: told_gauge("onedraw_connections", "Open connections"),
                writing: Arc::default(),
                recorder: recorder.clone(),
                handle,
            })
        })
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        self.tidy();
        self.handle.render()
    }

    /// Puts what was recorded into its buckets. Until then every number is kept, so this must be called now and then.
    pub(crate) fn tidy(&self) {
        self.handle.run_upkeep();
    }

    /// A prompt has its turn.
    pub(crate) fn begun(&self, tokens: usize, waited: Duration) {
        self.queue.record(waited);
        self.prompt_tokens.increment(tokens as u64);
        self.prompt_length.record(tokens as f64);
    }

    /// How many wait and how many are written.
    pub(crate) fn load(&self, waiting: usize, writing: usize) {
        self.waiting.set(waiting as f64);
        self.running.set(writing as f64);
        self.writing.store(writing as u64, Ordering::Relaxed);
    }

    pub(crate) fn passed(&self, time: Duration) {
        self.pass.record(time);
        self.batch.record(self.writing.load(Ordering::Relaxed) as f64);
    }

    pub(crate) fn first_token(&self, time: Duration) {
        self.output_tokens.increment(1);
        self.first.record(time);
    }

    pub(crate) fn next_token(&self, time: Duration) {
        self.output_tokens.increment(1);
        self.next.record(time);
    }

    pub(crate) fn cancelled(&self, texts: usize) {
        self.cancelled.increment(texts as u64);
    }

    pub(crate) fn speculated(&self, so_far: &Speculated) {
        self.guesses.absolute(so_far.guesses);
        self.accepted.absolute(so_far.accepted);
        self.drafted_passes.absolute(so_far.passes);
    }

    pub(crate) fn trace_failed(&self) {
        self.trace_failures.increment(1);
    }

    pub(crate) fn connected(&self, change: f64) {
        self.connections.increment(change);
    }

    /// An answer has ended. `path` is one of the server's routes.
    pub(crate) fn answered(&self, path: &'static str, status: u16, time: Duration) {
        self.request.record(time);
        let status = status.to_string();
        metrics::with_local_recorder(&*self.recorder, || {
            counter!("onedraw_requests_total", "path" => path, "status" => status).increment(1);
        });
    }
}

fn counted(name: &'static str, help: &'static str) -> Counter {
    describe_counter!(name, help);
    counter!(name)
}

fn told_gauge(name: &'static str, help: &'static str) -> Gauge {
    describe_gauge!(name, help);
    gauge!(name)
}

fn told(name: &'static str, help: &'static str) -> Histogram {
    describe_histogram!(name, help);
    histogram!(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_help_and_type() {
        let metrics = Metrics::new().expect("metrics");
        metrics.begun(5, Duration::from_millis(3));
        metrics.load(2, 3);
        metrics.first_token(Duration::from_millis(40));
        metrics.answered("/v1/completions", 200, Duration::from_millis(70));
        let text = metrics.text();
        for line in [
            "# HELP onedraw_waiting Prompts that wait for their turn",
            "# TYPE onedraw_waiting gauge",
            "onedraw_waiting 2",
            "onedraw_running 3",
            "# TYPE onedraw_first_token_seconds histogram",
            "onedraw_first_token_seconds_bucket{le=\"0.05\"} 1",
            "onedraw_prompt_tokens_total 5",
            "# TYPE onedraw_requests_total counter",
            "onedraw_requests_total{path=\"/v1/completions\",status=\"200\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
