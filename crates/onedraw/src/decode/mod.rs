//! Decoding beyond single draws: where texts stop, beams, guesses ahead, constraints, contrast.

pub mod beam;
pub mod constraint;
pub mod contrast;
pub mod speculate;
pub mod stop;
