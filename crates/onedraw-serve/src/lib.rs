//! An HTTP server that speaks OpenAI's interface, over onedraw's decode loop.
//!
//! OpenAI calls `seed` best effort. Here it is a promise: the same request gives the same text, whoever else is being
//! served, with and without guesses ahead, and the text is that of `onedraw generate` with the same parameters.
//!
//! ```no_run
//! use onedraw_lm::stories;
//! use onedraw_serve::{Model, Server, Settings};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::new("stories", stories::model()?, stories::tokenizer()?, stories::generation_config()?);
//! let server = Server::bind(model.with_template(stories::chat_template()?), Settings::default()).await?;
//! println!("http://{}", server.address());
//! server.run(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The modules, in the order to read them
//!
//! | module | what it is for |
//! |---|---|
//! | `settings` | what a server is told when it starts, and its limits |
//! | `model` | the model that is served, with its tokenizer and chat template |
//! | `server` | puts the parts together: binds, serves, ends |
//! | `http` | connections and their timeouts, keys, the `Host` header, one line in the log for each request |
//! | `routes`, `paths` | which function answers which path, and how paths are counted |
//! | `request` | bodies become jobs: OpenAI's fields, our parameters, the form of the answer |
//! | `engine` | one thread that owns the decode loop: requests wait, join and leave between two passes |
//! | `answer` | events of the decode loop become answers, whole or as a stream |
//! | `failure` | errors in OpenAI's form |
//! | `page` | the laboratory's page |
//! | `metrics`, `log`, `trace_file` | what is counted, written down, and kept for audits |

mod answer;
mod engine;
mod failure;
mod http;
mod log;
mod metrics;
mod model;
mod page;
mod paths;
mod request;
mod routes;
mod server;
mod settings;
mod trace_file;

pub use failure::Failure;
pub use log::{LogFormat, start as start_log};
pub use model::{Drafting, Model};
pub use request::fields::{TREATED, Treatment};
pub use request::{Interface, Reader};
pub use server::{Server, StartError};
pub use settings::{Limits, Settings};

/// The example of the README.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
}
