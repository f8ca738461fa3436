//! How long a draw takes, and how that is measured.
//!
//! Every time is a ratio to the [`floor`]: one bare max-scan of the same row, in the same run and the same
//! state of the caches. What is drawn from is in [`rows`], held [`aligned`] to cache lines; what is asked of
//! it, with the ratios to reach, in [`strategies`]. A [`contender`] draws, and a [`stopwatch`] times every
//! single draw, in rounds that take the floor and the contenders in turn, because a machine is not the same a
//! second later. [`suite`] measures onedraw so; [`report`] is what came of it, and [`machine`] on what.
//!
//! ```
//! use onedraw_bench::strategies;
//! let named: Vec<_> = strategies::named("mirostat").map(|strategy| strategy.name).collect();
//! assert_eq!(named, ["mirostat 1", "mirostat 2"]);
//! ```

pub mod aligned;
pub mod contender;
pub mod floor;
pub mod machine;
pub mod report;
pub mod rows;
pub mod stopwatch;
pub mod strategies;
pub mod suite;
