//! What a row of an exploration is: a subject, or a random drive for each run, and what is done
//! to it.

use crate::any::AnyBlueprint;
use crate::blueprints::{BoxBlueprint, DriveBlueprint};
use crate::command::Ingredients;
use crate::scenario::{Nesting, Scenario};
use crate::subject::Blueprint;
use crate::swarm::random_design;
use tantalum_device::Payload;
use tantalum_rt::{Stream, mix64};

/// What holds for all rows of an exploration.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// What it shows, in a line.
    pub title: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// Points at random times beside those of operations and commands, in each run.
    pub random_times: u32,
    /// How deep recoveries are cut.
    pub nesting: Nesting,
}

/// One row: a subject, or a random drive for each run, and what is done to it.
#[derive(Clone, Debug)]
pub struct CrashRow {
    /// Subject and mix, with a slash between.
    pub name: String,
    /// Of all its runs.
    pub seed: u64,
    /// What is explored; `None`: another drive for each run.
    pub subject: Option<AnyBlueprint>,
    /// What is done to it.
    pub what: Ingredients,
}

impl CrashRow {
    /// What its run of this number is.
    ///
    /// # Errors
    /// If the design cannot be built.
    pub fn scenario(&self, run: u64) -> Result<Scenario, String> {
        let seed = mix64(self.seed ^ mix64(run));
        let subject = match &self.subject {
            Some(subject) => subject.clone(),
            None => {
                let mut design = random_design(seed);
                if self.what.faults > 0 {
                    // Units to spare, so that some may fail.
                    design.space.over_provisioning *= 1.3;
                }
                BoxBlueprint::from(DriveBlueprint { design, payload: Payload::Stamps }).into()
            }
        };
        self.what.scenario(subject, seed)
    }
}

impl Ingredients {
    /// A scenario of these, from a seed. So many operations of media may fail as the subject can
    /// do without ([`Room::faults`](crate::Room)): half of them by the commands, the others in
    /// dumps and recoveries.
    ///
    /// # Errors
    /// If the subject cannot be built.
    pub fn scenario<B: Blueprint>(&self, subject: B, seed: u64) -> Result<Scenario<B>, String> {
        let room = subject.room()?;
        let mut dice = Stream::new(seed, "commands");
        let mut commands = self.list(&mut dice, self.commands, room.blocks);
        let faults = self.faults.min(room.faults / 2);
        self.spoil(&mut dice, &mut commands, faults);
        let then = self.list(&mut dice, self.then, room.blocks);
        Ok(Scenario { subject, seed, hosts: self.hosts, commands, then, faults })
    }

    /// Whether it can be done.
    ///
    /// # Errors
    /// In a line, what cannot.
    pub fn check(&self) -> Result<(), String> {
        let weights = self.weights();
        match () {
            () if !(1..=256).contains(&self.hosts) => {
                Err(format!("hosts = {}: must be 1 to 256", self.hosts))
            }
            () if self.max_blocks == 0 => Err("max_blocks = 0: must be at least 1".into()),
            () if weights.iter().any(|w| *w > 1 << 32) => {
                Err("a weight of the mix is above 4294967296".into())
            }
            () if weights.iter().all(|w| *w == 0) => Err("its mix has no command".into()),
            () if self.commands.max(self.then) > 1_000_000 || self.pause_us > 60_000_000 => {
                Err("commands and then may be up to 1000000, pause_us up to 60000000".into())
            }
            () => Ok(()),
        }
    }
}
