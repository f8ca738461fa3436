//! Load on a server: whether its answers stay right, and how fast they come.
//!
//! ```text
//! cargo build --release
//! cargo bench -p onedraw-serve --bench load -- soak --program target/release/onedraw --seconds 600 --clients 64
//! cargo bench -p onedraw-serve --bench load -- throughput --program target/release/onedraw
//! ```
//!
//! Both start the program themselves and end it with SIGTERM. They print a table in Markdown, and write it to
//! `--report FILE` too. The exit code is not 0 if an answer was wrong, lost, or there twice.
//!
//! - `soak`: clients send mixed requests, one after the other, and leave some of them. Later, with nobody else being
//!   served, as many as fit into `--again` seconds are asked again, and must give the same texts.
//! - `throughput`: 64 texts by `onedraw generate`, by 64 requests at the same time, and by one request, in turns.
//!
//! # The files, in the order to read them
//!
//! | file | what it is for |
//! |---|---|
//! | `arguments` | the command line |
//! | `program` | the server's process: its start, its end, its memory |
//! | `client` | one connection to it |
//! | `request` | requests with mixed parameters, each named by a client and a number |
//! | `answer` | answers, whole or as a stream, in one form, and what must be true of each |
//! | `soak`, `tally`, `again` | the clients, what is counted, and the comparison |
//! | `throughput` | the other measurement |
//! | `report` | percentiles, and what the tables say of the machine |

mod again;
mod answer;
mod arguments;
mod client;
mod program;
mod report;
mod request;
mod soak;
mod tally;
mod throughput;

use std::process::ExitCode;

/// Nothing here is caught: a measurement ends with the first thing that goes wrong around it.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::read(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        // `cargo test` and a bare `cargo bench` measure nothing.
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match measure(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures what is asked, and says whether all answers were right.
fn measure(arguments: &arguments::Arguments) -> Result<bool> {
    // One thread: the server has the rest of the machine.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, is_right) = runtime.block_on(async {
        match arguments.command {
            arguments::Command::Soak => soak::soak(arguments).await,
            arguments::Command::Throughput => throughput::throughput(arguments).await,
        }
    })?;
    println!("{report}");
    if let Some(file) = &arguments.report {
        std::fs::write(file, report)?;
    }
    Ok(is_right)
}
