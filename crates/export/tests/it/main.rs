//! Servers of block devices with all kinds of clients.

mod common;
mod control;
mod nbd_clients;
mod nbd_hostile;
mod nbd_memory;
mod nbd_model;
mod nbd_session;
mod nbd_tls;
