//! The C library as its header describes it, and programs in C.

mod common;
mod header;
mod programs;
