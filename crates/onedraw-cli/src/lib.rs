//! The program `onedraw`, as a library: tests and fuzz targets call its parts.
//!
//! [`command`] has the command line, and one module has each command:
//!
//! - [`sample`] draws tokens from a file of logits. [`logits`] opens the file with the reader of its format
//!   ([`npy`], [`safetensors`]), which gives a [`matrix::Matrix`]. [`request`] reads `--params` into one
//!   checked set of parameters per row. [`output`] writes JSON lines; [`table`] and [`explanation`] write the
//!   readable form.
//! - [`generate`] writes text with a model, [`compare`] puts strategies side by side, [`plot`] draws
//!   pictures. They share `flags` (sampling parameters, beams, constraints, contrast, speculation), `model`
//!   (which model is opened) and `redrawn` (what each token of a text was drawn from).
//! - [`serve`] answers requests over HTTP, with the crate onedraw-serve.
//! - [`audit`] says whether a model wrote the texts of a trace, which `generate` writes.
//! - [`presets`] and [`import`] print parameters; [`mod@bench`] measures how long a draw takes.
//!
//! [`manual`] prints completions and manual pages, `mistake` says which flag was meant.
//!
//! [`exit`] has the exit codes, `destination` a file for results, `kernel` the check of `--kernel`.
//!
//! The readers take any `Read`, never panic, and allocate no more than what the reader delivers:
//!
//! ```
//! let error = onedraw_cli::npy::read(&b""[..]).unwrap_err();
//! assert_eq!(error.to_string(), "not a .npy file: it is empty");
//! ```

pub mod audit;
pub mod bench;
pub mod command;
pub mod compare;
mod destination;
pub mod exit;
pub mod explanation;
mod flags;
pub mod generate;
mod html;
pub mod import;
mod kernel;
pub mod lab;
pub mod logits;
pub mod manual;
pub mod matrix;
mod mistake;
mod model;
pub mod npy;
pub mod output;
pub mod plot;
pub mod presets;
mod redrawn;
pub mod request;
pub mod safetensors;
pub mod sample;
pub mod serve;
pub mod table;
