//! Who works on a directory, and whether it still lives.

use std::num::NonZeroU64;

/// One process that works on a directory (all threads of it), as a number that no other process
/// ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub NonZeroU64);

impl Owner {
    pub(crate) fn word(self) -> u64 {
        self.0.get()
    }

    /// Of a number that is not 0.
    #[must_use]
    pub fn new(number: u64) -> Option<Owner> {
        NonZeroU64::new(number).map(Owner)
    }
}

/// Knows which owners live. It is only asked about an owner for which somebody waits.
///
/// If it says that one that lives is dead, the directory is damaged. If it says that a dead one
/// lives, others wait for the dead one.
pub trait Liveness: Send + Sync {
    /// Whether any thread of this owner may still work on the directory.
    fn is_alive(&self, owner: Owner) -> bool;
}

/// The processes of one Linux system, by number and time of their start.
///
/// All processes of a directory must see the same numbers (one PID namespace).
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

#[cfg(target_os = "linux")]
mod processes {
    use super::{Liveness, Owner, Processes};
    use rustix::process::{Pid, getpid, test_kill_process};

    impl Processes {
        /// The calling process. A child after `fork` is another owner: it asks again.
        ///
        /// # Errors
        /// `/proc` does not tell when this process started.
        pub fn this() -> std::io::Result<Owner> {
            let pid = getpid();
            let help = || std::io::Error::other("/proc/self/stat cannot be read: mount /proc");
            let (started, _) = look(pid).ok_or_else(help)?;
            Owner::new(number(pid, started)).ok_or_else(help)
        }
    }

    /// Number of a process in the upper half; below, when it started (in ticks since the boot, of
    /// which the lower half comes again after 497 days).
    fn number(pid: Pid, started: u64) -> u64 {
        (pid.as_raw_nonzero().get() as u64) << 32 | started & 0xffff_ffff
    }

    impl Liveness for Processes {
        fn is_alive(&self, owner: Owner) -> bool {
            let Some(pid) = Pid::from_raw((owner.word() >> 32) as i32) else { return false };
            match look(pid) {
                Some((started, ended)) => number(pid, started) == owner.word() && !ended,
                // Without `/proc`, or where it hides the processes of others.
                None => !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)),
            }
        }
    }

    /// When the process started, and whether it has ended and was not waited for.
    #[expect(clippy::disallowed_methods, reason = "the system tells of processes in files")]
    fn look(pid: Pid) -> Option<(u64, bool)> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name of the program stands in parentheses, and may have some itself.
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
        // A thread of a killed process may run while its first one has ended.
        let ended = matches!(fields.first(), Some(&("Z" | "X")))
            && matches!(fields.get(17), Some(&("0" | "1")));
        Some((fields.get(19)?.parse().ok()?, ended))
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_killed() {
        let me = Processes::this().unwrap();
        assert!(Processes.is_alive(me));
        // The same number, but started at another time.
        assert!(!Processes.is_alive(Owner::new(me.word() ^ 1).unwrap()));

        #[expect(clippy::disallowed_methods, reason = "a process is what is looked at")]
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let number = u64::from(child.id()) << 32;
        // When it started is not known here: no start is 0.
        assert!(!Processes.is_alive(Owner::new(number).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
