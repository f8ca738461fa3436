//! The program `onedraw`; see [`onedraw_cli::command`] for its command line and exit codes.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(onedraw_cli::command::run(std::env::args_os()))
}
