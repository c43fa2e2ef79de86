//! The report of a run.

use crate::check::{Check, Harm};
use crate::ground::{Blow, Outage};
use serde::Serialize;
use std::collections::BTreeMap;
use tantalum_device::counted;

/// The version of the JSON.
pub const VERSION: u32 = 1;

/// The setting of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The database.
    pub database: String,
    /// The design of the drive; none for a plain directory.
    pub design: Option<String>,
    /// The devices of the log that the write-ahead log is on, in words, if it is on one.
    pub log: Option<String>,
    /// The file system on the drive, with its block size.
    pub file_system: Option<String>,
    /// Whether the database's own protection against torn pages is on.
    pub protection: bool,
    /// Whether flushes reach the drive.
    pub barriers: bool,
    /// The drive's time scale.
    pub time_scale: f64,
    /// The seed of cuts and transactions.
    pub seed: u64,
    /// Clients at the same time.
    pub clients: u32,
    /// The number of accounts.
    pub accounts: u32,
}

/// One blow, and the recovery and check after it.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// Its number, from 1.
    pub number: u32,
    /// Its kind.
    pub blow: Blow,
    /// Commits that were acknowledged since the blow before.
    pub commits: u64,
    /// Transactions that were under way.
    pub under_way: u64,
    /// The outcome for the drive, and for the log volume if there is one.
    pub outage: Outage,
    /// Whether a device of the log, or the flash device of the cache, was lost with the blow, and
    /// replaced.
    pub lost_device: bool,
    /// Recovery of the drive by its own clock, in seconds. After a kill it is that of a new
    /// process, if the process reported it.
    pub drive_seconds: Option<f64>,
    /// From the power's return until the directory could be used, in seconds of real time.
    pub mount_seconds: f64,
    /// Recovery of the database, in seconds of real time.
    pub database_seconds: f64,
    /// What the check found.
    pub check: Check,
}

/// The whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`VERSION`]
    pub version: u32,
    /// The setting of the run.
    pub setting: Setting,
    /// The rounds. A round with a finding is the last one.
    pub rounds: Vec<Round>,
    /// Who still had the drive mounted at the end, so that it was left to them. This is not a
    /// finding.
    pub left: Option<String>,
    /// Why the run ended early.
    pub failure: Option<String>,
    /// Whether that was the storage below the database: a drive that does not start, say.
    #[serde(skip)]
    pub storage_failed: bool,
    /// Whether the user ended it.
    pub interrupted: bool,
}

/// A median and a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of values the mean of the middle two.
    pub median: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// The spread of these values; zeros if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_by(f64::total_cmp);
        match (all.len(), all.last()) {
            (n, Some(max)) => Spread { median: (all[(n - 1) / 2] + all[n / 2]) / 2.0, max: *max },
            _ => Spread::default(),
        }
    }
}

impl Report {
    /// The number of findings of each kind.
    pub fn harm(&self) -> BTreeMap<Harm, u64> {
        let mut all = BTreeMap::new();
        for (harm, count) in self.rounds.iter().flat_map(|r| &r.check.count) {
            *all.entry(*harm).or_default() += count;
        }
        all
    }

    /// A defect of the database itself that explains the findings of a round, so that they say
    /// nothing about the drive.
    pub fn own_fault(&self) -> Option<&str> {
        self.rounds.iter().find_map(|r| r.check.own_fault.as_deref())
    }

    /// Whether the run was completed without a finding.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none() && !self.interrupted && self.harm().is_empty()
    }

    /// The number of acknowledged commits.
    pub fn commits(&self) -> u64 {
        self.rounds.iter().map(|r| r.commits).sum()
    }

    /// The report as JSON, with a summary.
    pub fn to_json(&self) -> String {
        let summary = serde_json::json!({
            "commits": self.commits(),
            "under_way": self.rounds.iter().map(|r| r.under_way).sum::<u64>(),
            "harm": self.harm(),
            "drive_seconds": Spread::of(self.rounds.iter().filter_map(|r| r.drive_seconds)),
            "mount_seconds": Spread::of(self.rounds.iter().map(|r| r.mount_seconds)),
            "database_seconds": Spread::of(self.rounds.iter().map(|r| r.database_seconds)),
            "clean": self.is_clean(),
            "own_fault": self.own_fault(),
        });
        let mut all = serde_json::to_value(self).unwrap_or_default();
        all["summary"] = summary;
        // Cannot fail: all keys are strings.
        serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
    }

    /// The summary in words.
    pub fn summary(&self) -> String {
        let blows = |blow| self.rounds.iter().filter(|r| r.blow == blow).count() as u64;
        let seconds = |what: fn(&Round) -> f64| Spread::of(self.rounds.iter().map(what));
        let drive = Spread::of(self.rounds.iter().filter_map(|r| r.drive_seconds));
        let mount = seconds(|r| r.mount_seconds);
        let database = seconds(|r| r.database_seconds);
        let under_way: u64 = self.rounds.iter().map(|r| r.under_way).sum();
        let there: u64 = self.rounds.iter().map(|r| r.check.maybe_there).sum();
        let harm = self.harm();
        let of = |kind| harm.get(&kind).copied().unwrap_or(0);
        let mut text = format!(
            "{} on {}: {}, {}{}\n\
             commits: {} acknowledged, {} lost, {} half-done; {under_way} under way at the blows, {there} of them there\n",
            self.setting.database,
            self.setting.ground(),
            counted(blows(Blow::Cut), "cut", "cuts"),
            counted(blows(Blow::Kill), "kill", "kills"),
            match self.rounds.iter().filter(|r| r.lost_device).count() as u64 {
                0 => String::new(),
                lost => format!(", {} lost", counted(lost, "device", "devices")),
            },
            self.commits(),
            of(Harm::Lost),
            of(Harm::HalfDone),
        );
        let others = [Harm::Wrong, Harm::Damaged, Harm::DoesNotStart].map(|kind| (kind, of(kind)));
        for (kind, count) in others.into_iter().filter(|(_, count)| *count > 0) {
            text += &format!("{}: {count}\n", kind.words());
        }
        if let Some(fault) = self.own_fault() {
            text += &format!("not the drive's: {fault}\n");
        }
        text += &format!(
            "recovery, median and maximum: drive {:.4} and {:.4} s of its clock, mounted again {:.2} and {:.2} s, \
             database {:.2} and {:.2} s\n",
            drive.median, drive.max, mount.median, mount.max, database.median, database.max
        );
        if let Some(left) = &self.left {
            text += &format!("in the end the drive was left to its users: {left}\n");
        }
        if self.interrupted {
            text += "interrupted before its end\n";
        }
        if let Some(failure) = &self.failure {
            text += &format!("ended before its time: {failure}\n");
        }
        text
    }
}

impl Setting {
    /// The storage below the database, in words.
    pub fn ground(&self) -> String {
        let Some(design) = &self.design else { return "a plain directory".to_string() };
        let on = |yes| if yes { "on" } else { "off" };
        let log = match &self.log {
            Some(log) => format!(", the write-ahead log on {log}"),
            None => String::new(),
        };
        format!(
            "{design}, {}, barriers {}, own protection {}, time scale {}{log}",
            self.file_system.as_deref().unwrap_or("no file system"),
            on(self.barriers),
            on(self.protection),
            self.time_scale
        )
    }
}

impl Harm {
    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Harm::Lost => "lost",
            Harm::HalfDone => "half-done",
            Harm::Wrong => "never written so",
            Harm::Damaged => "damaged, by the database's own check",
            Harm::DoesNotStart => "does not start again",
        }
    }
}

impl Round {
    /// The round in one line.
    pub fn line(&self) -> String {
        let blow = match self.blow {
            Blow::Cut => "cut",
            Blow::Kill => "kill",
        };
        let found = match self.check.is_clean() {
            true => "all there".to_string(),
            false => {
                let each = self.check.count.iter().map(|(h, n)| format!("{n} {}", h.words()));
                each.collect::<Vec<_>>().join(", ").to_uppercase()
            }
        };
        let drive = self.drive_seconds.map(|s| format!("drive {s:.4} s, ")).unwrap_or_default();
        let lost = if self.lost_device { "a lost device replaced, " } else { "" };
        format!(
            "{blow} {}: {}, {} under way ({} there); {}{lost}{drive}mounted {:.2} s, database {:.2} s: {found}",
            self.number,
            counted(self.commits, "commit", "commits"),
            self.under_way,
            self.check.maybe_there,
            self.outage.words(),
            self.mount_seconds,
            self.database_seconds,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_the_middle() {
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, max: 4.0 });
    }

    fn round(blow: Blow, commits: u64, lost_device: bool) -> Round {
        Round {
            number: 1,
            blow,
            commits,
            under_way: 0,
            outage: Outage::default(),
            lost_device,
            drive_seconds: None,
            mount_seconds: 0.0,
            database_seconds: 0.0,
            check: Check::default(),
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        let setting = Setting {
            database: "sqlite".to_string(),
            design: None,
            log: None,
            file_system: None,
            protection: false,
            barriers: true,
            time_scale: 1.0,
            seed: 1,
            clients: 1,
            accounts: 1,
        };
        let rounds = vec![round(Blow::Cut, 1, true)];
        let mut report = Report {
            version: VERSION,
            setting,
            rounds,
            left: None,
            failure: None,
            storage_failed: false,
            interrupted: false,
        };
        let first = |report: &Report| report.summary().lines().next().map(String::from);
        let one = "sqlite on a plain directory: 1 cut, 0 kills, 1 device lost";
        assert_eq!(first(&report).as_deref(), Some(one));
        assert!(report.rounds[0].line().contains(": 1 commit, "), "{}", report.rounds[0].line());
        report.rounds.extend([round(Blow::Kill, 2, true), round(Blow::Cut, 0, false)]);
        let more = "sqlite on a plain directory: 2 cuts, 1 kill, 2 devices lost";
        assert_eq!(first(&report).as_deref(), Some(more));
    }
}
