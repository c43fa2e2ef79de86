//! Both back ends of the wall clock, for tests.

use std::path::PathBuf;
use tantalum_rt::wall::{Backend, Io, WallOptions};
use tantalum_rt::{Rt, Runtime};
use tantalum_testing::{Need, left_out_part};

/// Both, or poll alone where io_uring is denied: then the calling test says so, and fails if all
/// tests are wanted.
pub fn backends() -> Vec<Backend> {
    let uring = WallOptions { io: Backend::Uring, ..WallOptions::default() };
    let how = "use Linux 5.11 or newer, where io_uring is allowed (many containers deny it)";
    let need = Need::tried("io_uring", &Runtime::wall_time(1, uring), how);
    match left_out_part("io_uring", &[need]) {
        true => vec![Backend::Poll],
        false => vec![Backend::Uring, Backend::Poll],
    }
}

pub fn runtime(io: Backend, time_scale: f64) -> (Runtime, Rt, Io) {
    let options = WallOptions { io, time_scale, ..WallOptions::default() };
    let runtime = Runtime::wall_time(1, options).unwrap();
    let rt = runtime.handle();
    let io = rt.io().unwrap();
    (runtime, rt, io)
}

/// A path in the temporary directory that is nobody else's; removed with what is there.
pub struct Scratch(pub PathBuf);
impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let file = format!("tantalum-rt-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(file))
    }
}
impl Drop for Scratch {
    #[allow(clippy::disallowed_methods, reason = "tests clean up")]
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
