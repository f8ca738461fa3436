//! `onedraw serve`: a server that speaks OpenAI's interface.

mod arguments;

use std::env::VarError;
use std::io::Write;

use anyhow::{Result, anyhow};
use onedraw_lm::speculate::Guesser;
use onedraw_serve::{Drafting, LogFormat, Server, Settings, start_log};

use crate::exit::{DONE, note};
use crate::flags::speculation::SpeculationFlags;
use crate::model::{Model, ModelFlags};

pub use arguments::Arguments;

/// The name of the environment variable that has a key. A key on the command line can be read by every user of the
/// machine.
const KEY: &str = "ONEDRAW_API_KEY";

/// The exit code that shells use for a program that an interrupt ended.
#[cfg(unix)]
const INTERRUPTED: i32 = 130;

/// Serves until the process is told to end, and gives the exit code.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let settings = settings(arguments)?;
    let model = served(&arguments.model, &arguments.speculation)?;
    serve(model, settings, arguments.log_format(), arguments.http_threads(), out)
}

/// Serves a model until the process is told to end, and gives the exit code.
pub(crate) fn serve(
    model: onedraw_serve::Model,
    settings: Settings,
    log: LogFormat,
    threads: usize,
    out: &mut impl Write,
) -> Result<u8> {
    start_log(log);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| anyhow!("no threads for connections: {error}"))?;
    let served = runtime.block_on(async {
        let is_open = settings.keys.is_empty() && !settings.host.to_canonical().is_loopback();
        // Whoever reads the address may tell the process to end at once.
        let ended = ended()?;
        let server = Server::bind(model, settings).await?;
        if is_open {
            note("anybody who reaches this address can use the server: there is no --api-key");
        }
        writeln!(out, "http://{}", server.address())?;
        out.flush()?;
        server.run(ended).await?;
        Ok(DONE)
    });
    // A grammar that is still being compiled is not waited for.
    runtime.shutdown_background();
    served
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    let mut settings = arguments.settings();
    match std::env::var(KEY) {
        Ok(key) => settings.keys.push(key),
        Err(VarError::NotPresent) => {}
        Err(error) => return Err(anyhow!("{KEY}: {error}")),
    }
    // Others could never be sent in a header.
    let is_usable = |key: &String| {
        !key.is_empty() && key.trim() == key && key.chars().all(|c| c == ' ' || c.is_ascii_graphic())
    };
    if !settings.keys.iter().all(is_usable) {
        return Err(anyhow!("--api-key: a key must be of visible ASCII, without spaces around it"));
    }
    Ok(settings)
}

/// Opens the model that the flags name, with its drafter, and for the laboratory with those that are part of the program.
pub(crate) fn served(flags: &ModelFlags, speculation: &SpeculationFlags) -> Result<onedraw_serve::Model> {
    let model = Model::open(flags)?;
    let template = model.template()?;
    let drafting = match speculation.is_asked() {
        true => Some(Drafting { guesser: speculation.guesser(&model)?, speculation: speculation.settings() }),
        false => None,
    };
    let offers = match model.is_embedded() {
        true => {
            let (kernel, threads) = model.on();
            let drafter = Guesser::own(None, &model.llama, &model.tokenizer, kernel, threads)?;
            let eagle = Guesser::eagle(None, &model.llama)?;
            vec![
                ("draft", "A smaller model with the same tokens.", drafter),
                ("eagle", "A head on the model's last states.", eagle),
            ]
        }
        false => Vec::new(),
    };
    let name = model.served_name();
    let Model { llama, tokenizer, generation, .. } = model;
    for text in &generation.notes {
        note(&format!("generation_config.json: {text}"));
    }
    let served = onedraw_serve::Model::new(name, llama, tokenizer, generation)
        .with_template(template)
        .with_kernel(flags.kernel);
    let served = offers
        .into_iter()
        .fold(served, |served, (name, sentence, guesser)| served.with_offer(name, sentence, guesser));
    Ok(match drafting {
        Some(drafting) => served.with_drafting(drafting),
        None => served,
    })
}

/// Ends when the process is asked to end: by Ctrl-C, or as service managers do.
fn ended() -> Result<impl Future<Output = ()>> {
    let unwatched = |error| anyhow!("signals cannot be watched: {error}");
    #[cfg(unix)]
    let mut terminate =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(unwatched)?;
    #[cfg(unix)]
    let mut interrupt =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(unwatched)?;
    #[cfg(unix)]
    return Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Whoever presses Ctrl-C again does not want to wait for the texts.
        tokio::spawn(async move {
            interrupt.recv().await;
            std::process::exit(INTERRUPTED);
        });
    });
    #[cfg(not(unix))]
    Ok(async { _ = tokio::signal::ctrl_c().await })
}
