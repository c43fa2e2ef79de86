//! The crash explorer. What measures the memory of the process has tests of its own beside this.

mod example;
mod page;
mod subjects;
