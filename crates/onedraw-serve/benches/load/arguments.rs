//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;

const USAGE: &str = "\
load soak|throughput --program PATH [--server-flags \"FLAGS\"] [--report FILE]
  soak: [--seconds 600] [--clients 64] [--again 180] [--seed 1]
  throughput: [--rounds 5]";

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    Soak,
    Throughput,
}

/// The arguments.
#[derive(Debug)]
pub struct Arguments {
    pub command: Command,
    /// The program `onedraw`.
    pub program: PathBuf,
    /// Further flags of `onedraw serve`.
    pub server_flags: Vec<String>,
    /// Where to write the table too.
    pub report: Option<PathBuf>,
    /// How long requests are sent.
    pub time: Duration,
    pub clients: usize,
    /// How long requests may be asked again.
    pub again: Duration,
    /// Names the requests.
    pub seed: u64,
    pub rounds: usize,
    /// The arguments as they were given.
    pub line: String,
}

impl Arguments {
    /// Reads the arguments; `None` if nothing is to be measured.
    pub fn read(given: impl Iterator<Item = String>) -> Result<Option<Self>> {
        // `cargo bench` adds the flag.
        let given: Vec<String> = given.filter(|argument| argument != "--bench").collect();
        let command = match given.first().map(String::as_str) {
            None | Some("--test") => return Ok(None),
            Some("soak") => Command::Soak,
            Some("throughput") => Command::Throughput,
            Some(_) => return Err(USAGE.into()),
        };
        let mut arguments = Self {
            command,
            program: PathBuf::new(),
            server_flags: Vec::new(),
            report: None,
            time: Duration::from_secs(600),
            clients: 64,
            again: Duration::from_secs(180),
            seed: 1,
            rounds: 5,
            line: given.join(" "),
        };
        let mut rest = given.into_iter().skip(1);
        while let Some(flag) = rest.next() {
            let value = rest.next().ok_or(USAGE)?;
            let seconds = || value.parse().map(Duration::from_secs_f64);
            match flag.as_str() {
                // Cargo runs benchmarks in the folder of their package.
                "--program" => arguments.program = from_the_root(&value),
                "--report" => arguments.report = Some(from_the_root(&value)),
                "--server-flags" => {
                    arguments.server_flags = value.split_whitespace().map(str::to_owned).collect();
                }
                "--seconds" => arguments.time = seconds()?,
                "--again" => arguments.again = seconds()?,
                "--clients" => arguments.clients = value.parse()?,
                "--seed" => arguments.seed = value.parse()?,
                "--rounds" => arguments.rounds = value.parse()?,
                _ => return Err(USAGE.into()),
            }
        }
        if arguments.program.as_os_str().is_empty() || arguments.clients == 0 || arguments.rounds == 0 {
            return Err(USAGE.into());
        }
        Ok(Some(arguments))
    }
}

/// A path as seen from the root of the workspace.
fn from_the_root(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}
