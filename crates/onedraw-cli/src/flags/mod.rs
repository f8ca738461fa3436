//! Flags that several commands take: sampling parameters, beams, constraints, contrast, speculation.

pub mod beams;
pub mod constraint;
pub mod contrast;
pub mod escape;
pub mod parameters;
pub mod speculation;
pub mod unused;
pub mod value;
