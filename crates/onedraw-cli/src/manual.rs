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
    /// The command, such as generate or params import; without it, the program
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
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
    let (mut command, mut name) = (&definition, "onedraw".to_owned());
    for word in &arguments.command {
        let next = command.find_subcommand(word);
        let see = name.replace('-', " ");
        command = next.ok_or_else(|| anyhow!("`{word}` is not a command; see {see} --help"))?;
        name = format!("{name}-{word}");
    }
    let version = definition.get_version().unwrap_or_default().to_owned();
    let command = command.clone().name(name.clone()).version(version);
    Man::new(command).title(name.to_uppercase()).render(out)?;
    Ok(DONE)
}
