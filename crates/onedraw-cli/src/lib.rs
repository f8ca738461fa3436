//! The parts of the program `onedraw`.
//!
//! From the file to the line: [`logits`] opens a source of logits and hands it to the reader of its format
//! ([`npy`], [`safetensors`]), which gives a [`matrix::Matrix`]; [`request`] turns `--params` and the flags
//! that override it into one checked set of parameters a row; [`sample`] draws; [`output`] writes JSON lines
//! and [`table`] and [`explanation`] their readable form. [`presets`] and [`import`] print parameters; [`mod@bench`]
//! measures, [`generate`] writes text with a `model`, [`compare`] puts strategies side by side, [`plot`] draws pictures. [`command`] holds the command line itself, [`exit`] the exit codes.
//!
//! The readers take any `Read`, never panic, and allocate no more than what the reader delivers:
//!
//! ```
//! let error = onedraw_cli::npy::read(&b""[..]).unwrap_err();
//! assert_eq!(error.to_string(), "not a .npy file: it is empty");
//! ```

pub mod bench;
pub mod command;
pub mod compare;
mod destination;
pub mod exit;
pub mod explanation;
mod flags;
pub mod generate;
pub mod import;
mod kernel;
pub mod logits;
pub mod matrix;
mod model;
pub mod npy;
pub mod output;
pub mod plot;
pub mod presets;
pub mod request;
pub mod safetensors;
pub mod sample;
mod steps;
pub mod table;
