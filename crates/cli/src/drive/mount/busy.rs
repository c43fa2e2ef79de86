//! A mount point that cannot be unmounted yet: who uses it, and when that is told.
//!
//! 1. What passes is not told: users are told when they are found at two attempts in a row.
//! 2. Users that change all the time are told, too: as they are at the tenth attempt.
//! 3. The same users are told once.

use super::table::User;
use std::fmt;
use std::path::PathBuf;

/// A mount point in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// The mount point.
    pub at: PathBuf,
    /// Its users.
    pub users: Vec<User>,
    /// What the program that unmounts gave as its reason.
    pub why: Option<String>,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in use: ", self.at.display())?;
        for (i, user) in self.users.iter().take(8).enumerate() {
            write!(f, "{}{user}", if i > 0 { ", " } else { "" })?;
        }
        match (self.users.len(), &self.why) {
            // It need not be in use: the program may lack something.
            (0, Some(why)) => write!(f, "something that cannot be seen from here ({why})"),
            (0, None) => f.write_str("something that cannot be seen from here"),
            (count, _) if count > 8 => write!(f, ", and {} more", count - 8),
            _ => Ok(()),
        }
    }
}

/// Attempts after which users that change all the time are told.
const PATIENCE: u32 = 10;

/// What was found at the attempts to unmount, and what was told of it.
#[derive(Default)]
pub struct Attempts {
    /// At the last attempt.
    found: Option<Busy>,
    /// Attempts since something was told.
    untold: u32,
    told: Option<Busy>,
}

impl Attempts {
    /// Takes what an attempt has found. Returns whether it is to be told now: a program that has just
    /// been started, for instance, has copies of files of the process that started it, and needs them
    /// for a moment only.
    pub fn found(&mut self, busy: &Busy) -> bool {
        self.untold += 1;
        let lasts = self.found.replace(busy.clone()).as_ref() == Some(busy);
        let tell = (lasts || self.untold >= PATIENCE) && self.told.as_ref() != Some(busy);
        if tell {
            self.told = Some(busy.clone());
        }
        if tell || lasts {
            self.untold = 0;
        }
        tell
    }
}

/// The message that names the users of a busy mount, and says what to do.
pub fn left_by_a_second_signal(busy: &Busy) -> String {
    format!(
        "{busy}. It is unmounted as soon as they are done; a second signal leaves it to its users"
    )
}

#[cfg(test)]
mod tests {
    use super::super::table::Use;
    use super::*;

    /// Who looks for users that are not there has to know what else it may be.
    #[test]
    fn a_mount_without_users_names_the_reason_of_the_program() {
        let why = "unmounting failed (1): fusermount3: failed to open /etc/mtab";
        let busy = Busy { at: "/mnt/x".into(), users: Vec::new(), why: Some(why.to_string()) };
        assert!(busy.to_string().ends_with(&format!("({why})")), "{busy}");
    }

    fn used_by(pid: u32) -> Busy {
        let user = User { pid, name: "cat".to_string(), what: Use::Open("/mnt/x/file".into()) };
        Busy { at: "/mnt/x".into(), users: vec![user], why: None }
    }

    fn told(pids: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let mut attempts = Attempts::default();
        pids.into_iter().map(|pid| attempts.found(&used_by(pid))).collect()
    }

    #[test]
    fn users_are_told_once_when_they_stay() {
        assert_eq!(told([1, 1, 1, 1]), [false, true, false, false]);
        assert_eq!(told([1, 1, 2, 2, 2]), [false, true, false, true, false]);
    }

    #[test]
    fn users_of_a_moment_are_not_told() {
        assert_eq!(told([1, 2, 3]), [false; 3]);
        // The one that stays was told already.
        assert_eq!(told([1, 1, 2, 1, 1]), [false, true, false, false, false]);
    }

    #[test]
    fn users_that_change_all_the_time_are_told_now_and_then() {
        let told = told(1..=30);
        let at: Vec<usize> = (1..=30).filter(|n| told[n - 1]).collect();
        assert_eq!(at, [10, 20, 30]);
    }
}
