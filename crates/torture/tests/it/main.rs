//! The ledger on real databases.

mod common;
mod servers;
mod sqlite;
