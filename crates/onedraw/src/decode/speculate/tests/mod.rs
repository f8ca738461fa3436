//! The rules on tiny models, where every outcome can be gone through.

mod every;
mod laws;
mod mutants;
mod noise;
mod toy;
