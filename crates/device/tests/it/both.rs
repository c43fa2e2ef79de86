//! Both back ends of the wall clock, for tests.

use std::future::Future;
use tantalum_rt::wall::{Backend, WallOptions};
use tantalum_rt::{Rt, Runtime};
use tantalum_testing::{Need, left_out_part};

/// A runtime on each, or on poll alone where io_uring is denied: then the calling test says so, and
/// fails if all tests are wanted.
pub fn runtimes() -> impl Iterator<Item = (Runtime, Rt)> {
    let wall = |io| Runtime::wall_time(1, WallOptions { io, ..WallOptions::default() });
    let how = "use Linux 5.11 or newer, where io_uring is allowed (many containers deny it)";
    let uring = wall(Backend::Uring);
    let need = Need::tried("io_uring", &uring, how);
    let both = !left_out_part("io_uring", &[need]);
    let poll = wall(Backend::Poll).expect("every kernel has it");
    uring.ok().filter(|_| both).into_iter().chain([poll]).map(|runtime| {
        let rt = runtime.handle();
        (runtime, rt)
    })
}

/// Runs a test to its end.
pub fn run<T: 'static>(runtime: &mut Runtime, main: impl Future<Output = T> + 'static) -> T {
    runtime.block_on(main).expect("the run ends well")
}
