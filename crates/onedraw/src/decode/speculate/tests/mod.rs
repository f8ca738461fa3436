//! The rules of verification on tiny models, where every outcome can be enumerated.

mod every;
mod laws;
mod mutants;
mod noise;
mod toy;
