//! Small models of odd shapes beside what transformers makes of them, and beside themselves: the same bits
//! however they are run.

mod agreement;
mod exits;
mod folders;
mod forks;
mod lines;
mod storage;
mod trees;
