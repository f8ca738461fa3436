//! onedraw beside other samplers: the same logits in the same run, every answer checked. See README.md.

// The workspace beside bans the platform's exp and log because drawn tokens would differ between platforms.
// Nothing here is drawn from.
#![allow(clippy::disallowed_methods)]

mod candle;
mod comparison;
mod engine;
mod llama;
mod llm_samplers;
mod real;
mod report;
mod torch;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use onedraw::Kernel;
use onedraw_bench::machine::Machine;
use onedraw_bench::strategies;
use serde_json::json;

use crate::comparison::Comparison;
use crate::report::{Report, Version};
use crate::torch::Server;

/// onedraw beside other samplers.
#[derive(Debug, Parser)]
struct Arguments {
    /// A few draws each: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Only the strategies that have this in their names
    #[arg(long, default_value = "", hide_default_value = true)]
    strategy: String,
    /// A Python that has torch and numpy; without it PyTorch is left out
    #[arg(long)]
    python: Option<PathBuf>,
    /// Where to write the day's table and JSON
    #[arg(long)]
    results: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Arguments { quick, strategy, python, results } = Arguments::parse();
    ensure!(strategies::named(&strategy).next().is_some(), "no strategy has `{strategy}` in its name");
    let torch = python.as_deref().map(Server::start).transpose()?;
    let version = |name, version: &str| Version { name, version: version.to_owned() };
    let mut engines = vec![
        version("onedraw", env!("CARGO_PKG_VERSION")),
        version("llama.cpp", "0.6.0-dev (llama-cpp-sys-2 0.1.160)"),
        version("candle", "0.11.1"),
        version("llm-samplers", "0.0.7"),
    ];
    if let Some(server) = &torch {
        let answer = server.borrow_mut().ask(json!({"ask": "version"}));
        engines.push(version("PyTorch", answer.as_str().unwrap_or("of unknown version")));
    }
    let mut comparison = Comparison { torch, part_of_name: strategy, quick, verdicts: BTreeMap::new() };
    let entries = comparison.run(real::rows()?);
    let report = Report { machine: Machine::here(Kernel::Auto), engines, entries };
    print!("{report}");
    if let Some(folder) = results {
        let path = folder.join(report.name());
        fs::create_dir_all(&folder)?;
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path.with_extension("json"), json).context("the results cannot be written")?;
        fs::write(path.with_extension("md"), report.to_string()).context("the results cannot be written")?;
        eprintln!("written to {}.json and .md", path.display());
    }
    Ok(())
}
