//! The command line of `onedraw serve`.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use onedraw_serve::{Limits, LogFormat, Settings};

use crate::flags::speculation::SpeculationFlags;
use crate::model::ModelFlags;

/// The arguments of `onedraw serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
The address is printed once the server listens. A request that does not say otherwise is answered as `onedraw generate`
would: the same parameters and seed give the same text, whoever else is being served. SIGTERM and Ctrl-C let texts end;
a second Ctrl-C does not.

Example:
  onedraw serve
  curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' \\
    -d '{\"prompt\": \"Once upon a time\", \"seed\": 7, \"max_tokens\": 40}'")]
pub struct Arguments {
    #[command(flatten)]
    pub(super) model: ModelFlags,
    /// The address to listen on; anything but loopback can be reached by others
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0: one that is free
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// A key that requests must have; may be given several times, and as ONEDRAW_API_KEY
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// A page of this origin may call the server; * for all; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Append what each text was drawn with to this file: `onedraw audit` reads it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How lines of the log look
    #[arg(long, value_enum, default_value_t = Log::Text)]
    log_format: Log,
    /// Write prompts into the log
    #[arg(long)]
    log_prompts: bool,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    pub(super) speculation: SpeculationFlags,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Log {
    /// For people
    Text,
    /// A JSON object for each line
    Json,
}

/// What is refused because it is too much.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitFlags {
    /// Texts that are written at the same time
    #[arg(long, value_name = "N", default_value = "64")]
    max_running: NonZeroUsize,
    /// Prompts that wait for their turn; one more is refused
    #[arg(long, value_name = "N", default_value = "1024")]
    max_waiting: NonZeroUsize,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value = "1048576")]
    max_body: NonZeroUsize,
    /// Prompts of a request
    #[arg(long, value_name = "N", default_value = "128")]
    max_prompts: NonZeroUsize,
    /// Tokens of a prompt [default: the model's context]
    #[arg(long, value_name = "N")]
    max_prompt_tokens: Option<NonZeroUsize>,
    /// Tokens of a text [default: the model's context]
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<NonZeroUsize>,
    /// Texts after a prompt
    #[arg(long, value_name = "N", default_value = "64")]
    max_n: NonZeroUsize,
    /// Logprobs for each token
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_logprobs: usize,
    /// Stop strings, banned strings and words, and biases, of each so many
    #[arg(long, value_name = "N", default_value_t = 1024)]
    max_items: usize,
    /// Tokens, logprobs and kept ids that an answer may have
    #[arg(long, value_name = "N", default_value_t = 1 << 21)]
    max_numbers: u64,
    /// Bytes of a schema, an expression or a grammar
    #[arg(long, value_name = "BYTES", default_value_t = 65536)]
    max_grammar: usize,
    /// Connections
    #[arg(long, value_name = "N", default_value = "4096")]
    max_connections: NonZeroUsize,
    /// Seconds that a schema, an expression or a grammar may take to compile
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    compile_timeout: Duration,
    /// Seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
    /// Seconds that the head of a request may take, and a connection may be idle
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = seconds)]
    header_timeout: Duration,
    /// Seconds that the body of a request may take
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    body_timeout: Duration,
    /// Seconds that a client may read nothing of its answer
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    stall_timeout: Duration,
    /// Seconds that texts may go on once the server is told to end
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    grace: Duration,
    /// Threads for connections. The model has its own
    #[arg(long, value_name = "N", default_value = "1")]
    http_threads: NonZeroUsize,
}

/// A time in seconds, such as 0.5.
fn seconds(text: &str) -> Result<Duration, String> {
    /// A month. Clocks cannot add times without end.
    const MOST: f64 = 30.0 * 24.0 * 3600.0;
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=MOST).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("must be a number of seconds, at most {MOST}"))
}

impl Arguments {
    pub(super) fn log_format(&self) -> LogFormat {
        match self.log_format {
            Log::Text => LogFormat::Text,
            Log::Json => LogFormat::Json,
        }
    }

    pub(super) fn http_threads(&self) -> usize {
        self.limits.http_threads.get()
    }

    pub(super) fn settings(&self) -> Settings {
        let flags = &self.limits;
        let or_context = |most: Option<NonZeroUsize>| most.map_or(usize::MAX, NonZeroUsize::get);
        let limits = Limits {
            running: flags.max_running.get(),
            waiting: flags.max_waiting.get(),
            body: flags.max_body.get(),
            prompts: flags.max_prompts.get(),
            prompt: or_context(flags.max_prompt_tokens),
            tokens: or_context(flags.max_output_tokens),
            n: flags.max_n.get(),
            logprobs: flags.max_logprobs,
            items: flags.max_items,
            numbers: flags.max_numbers,
            grammar: flags.max_grammar,
            compile: flags.compile_timeout,
            connections: flags.max_connections.get(),
            time: flags.timeout,
            head: flags.header_timeout,
            upload: flags.body_timeout,
            stall: flags.stall_timeout,
            grace: flags.grace,
        };
        Settings {
            host: self.host,
            port: self.port,
            keys: self.api_key.clone(),
            cors: self.cors.clone(),
            trace: self.trace.clone(),
            logs_prompts: self.log_prompts,
            limits,
        }
    }
}
