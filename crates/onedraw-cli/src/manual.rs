//! `onedraw completions` and `onedraw man`: what shells and `man` want to know of the command line.

use std::io::Write;

use anyhow::{Result, anyhow};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::DONE;

/// The arguments of `onedraw completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  onedraw completions bash > ~/.local/share/bash-completion/completions/onedraw
  onedraw completions zsh > ~/.zfunc/_onedraw
  onedraw completions fish > ~/.config/fish/completions/onedraw.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// The arguments of `onedraw man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  onedraw man generate | man -l -
  onedraw man > ~/.local/share/man/man1/onedraw.1")]
pub struct Page {
    /// The command, such as generate; without it, the program
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints the completions of a shell.
pub fn completions(arguments: &Completions, mut definition: Command, out: &mut impl Write) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut definition, "onedraw", &mut text);
    out.write_all(&text)?;
    Ok(DONE)
}

/// Prints a manual page.
pub fn page(arguments: &Page, mut definition: Command, out: &mut impl Write) -> Result<u8> {
    definition.build();
    let page = match &arguments.command {
        None => Man::new(definition),
        Some(name) => {
            let command = definition.find_subcommand(name);
            let command = command.ok_or_else(|| anyhow!("`{name}` is not a command; see onedraw --help"))?;
            let name = format!("onedraw-{name}");
            Man::new(command.clone().name(name.clone())).title(name.to_uppercase())
        }
    };
    page.render(out)?;
    Ok(DONE)
}
