//! The laboratory: what every draw of a text did, as data.
//!
//! A question is JSON, an answer is lines of JSON, as the README of this crate describes them. The server and a
//! browser's worker ask the same [`Lab`], so both show the same thing. It has no threads, clocks or files: whoever asks
//! takes the lines pass by pass, and may stop after each.
//!
//! ```
//! use onedraw_lab::{Lab, Subject};
//! use onedraw_lm::stories;
//!
//! let model = stories::model()?;
//! let (tokenizer, settings) = (stories::tokenizer()?, stories::generation_config()?);
//! let subject = Subject::new("stories", &model, model.sha256(), tokenizer, settings);
//! let mut lab = Lab::new(&model, &subject);
//!
//! let question = br#"{"prompt": "Tom saw a big", "params": {"seed": "5", "max_tokens": 3}}"#;
//! let lines = lab.ask("write", question);
//! assert_eq!(lines[0]["kind"], "begin");
//! assert_eq!(lines[4]["finish_reason"], "length");
//!
//! // The rows of the text are kept: looking at a draw again, with other parameters, makes no pass of the model.
//! let question = br#"{"prompt": "Tom saw a big", "params": {"seed": "5", "min_p": 0.1}, "tokens": [], "position": 0}"#;
//! let look = &lab.ask("look", question)[0];
//! assert_eq!(look["stages"][0]["leading"][0]["text"], " truck");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The modules, in the order to read them
//!
//! | module | what it is for |
//! |---|---|
//! | `subject` | the model that questions are about, as far as reading a question needs it |
//! | `fields` | the fields of a body, one by one |
//! | `question` | bodies become questions that can be answered |
//! | `text` | a text, and everything it depends on |
//! | `lab` | a model, its drafters and its rows: [`Lab`] |
//! | `ask` | questions get their answers, made of `line`s |
//! | `answer` | the answers that take passes: `write`, `look`, `beams` |
//! | `rows` | the rows that were drawn from, kept for looks |
//! | `about`, `controls` | what can be set, and between which bounds |
//! | `code` | a text or a search as a command, Rust, Python and curl |
//! | `link` | a text as the fragment of a link |
//! | `failure` | what is wrong, as a sentence |
//! | `page` | the files of the page |

mod about;
mod answer;
mod ask;
mod code;
mod controls;
mod failure;
mod fields;
mod lab;
mod line;
mod link;
mod own;
mod page;
mod question;
mod rows;
mod state;
mod subject;
mod text;

pub use answer::Answer;
pub use failure::Failure;
pub use lab::Lab;
pub use line::Line;
pub use page::{File, page};
pub use question::Question;
pub use subject::{Bounds, Subject, grammar_tokens};
