//! What a server is told when it starts.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// What a server is told when it starts.
#[derive(Clone)]
pub struct Settings {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port; 0: one that is free.
    pub port: u16,
    /// The keys that are accepted; empty: nobody is asked for one.
    pub keys: Vec<String>,
    /// The origins of pages that may call the server (`*`: all); empty: none.
    pub cors: Vec<String>,
    /// Where to append a trace of each text.
    pub trace: Option<PathBuf>,
    /// Whether prompts are written into the log.
    pub logs_prompts: bool,
    /// What is refused because it is too much.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            keys: Vec::new(),
            cors: Vec::new(),
            trace: None,
            logs_prompts: false,
            limits: Limits::default(),
        }
    }
}

/// What is refused because it is too much.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Texts that are written at the same time.
    pub running: usize,
    /// Prompts that wait for their turn.
    pub waiting: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Prompts of one request.
    pub prompts: usize,
    /// Tokens of a prompt; the model's context is a limit too.
    pub prompt: usize,
    /// Tokens of a text; the model's context is a limit too.
    pub tokens: usize,
    /// Texts after one prompt.
    pub n: usize,
    /// Logprobs for each token.
    pub logprobs: usize,
    /// Stop strings, banned strings and words, biases: of each so many.
    pub items: usize,
    /// Tokens, logprobs and kept ids that an answer may have.
    pub numbers: u64,
    /// Bytes of a schema, an expression or a grammar.
    pub grammar: usize,
    /// How long a schema, an expression or a grammar may take to compile.
    pub compile: Duration,
    /// Connections.
    pub connections: usize,
    /// How long a request may take, from its body to the end of its texts, and then how long a client may be behind with
    /// reading its answer.
    pub time: Duration,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head: Duration,
    /// How long a body may take.
    pub upload: Duration,
    /// How long a client may read nothing of its answer.
    pub stall: Duration,
    /// How long texts may go on once the server is told to end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 64,
            waiting: 1024,
            body: 1 << 20,
            prompts: 128,
            prompt: usize::MAX,
            tokens: usize::MAX,
            n: 64,
            logprobs: 20,
            items: 1024,
            numbers: 1 << 21,
            grammar: 64 << 10,
            compile: Duration::from_secs(5),
            connections: 4096,
            time: Duration::from_secs(600),
            head: Duration::from_secs(15),
            upload: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}
