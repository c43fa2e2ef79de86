//! The flash array: its rules, its times, its content, and what a power loss does to it.

mod common;
mod image;
mod images;
mod model;
mod payload;
mod power;
mod priority;
mod rules;
mod timing;
