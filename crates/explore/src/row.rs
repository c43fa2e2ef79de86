//! What a row of an exploration is: a drive, or a random one for each run, and what is done to it.

use crate::command::Ingredients;
use crate::scenario::{Nesting, Scenario};
use crate::swarm::random_design;
use tantalum_device::Payload;
use tantalum_drive::{Design, DesignError};
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

/// One row: a drive, or a random one for each run, and what is done to it.
#[derive(Clone, Debug)]
pub struct CrashRow {
    /// Design and mix, with a slash between.
    pub name: String,
    /// Of all its runs.
    pub seed: u64,
    /// The drive; `None`: another one for each run.
    pub design: Option<Box<Design>>,
    /// What is done to it.
    pub what: Ingredients,
    /// What it keeps.
    pub payload: Payload,
}

impl CrashRow {
    /// What its run of this number is.
    ///
    /// # Errors
    /// If the design can not be built.
    pub fn scenario(&self, run: u64) -> Result<Scenario, DesignError> {
        let seed = mix64(self.seed ^ mix64(run));
        let design = match &self.design {
            Some(design) => (**design).clone(),
            None => {
                let mut design = random_design(seed);
                if self.what.faults > 0 {
                    // Units to spare, so that some may fail.
                    design.space.over_provisioning *= 1.3;
                }
                design
            }
        };
        self.what.scenario(design, self.payload, seed)
    }
}

impl Ingredients {
    /// A scenario of these, from a seed. So many units may fail as the design has to spare:
    /// half of them by the commands, the others in dumps and recoveries.
    ///
    /// # Errors
    /// If the design can not be built.
    pub fn scenario(
        &self,
        design: Design,
        payload: Payload,
        seed: u64,
    ) -> Result<Scenario, DesignError> {
        let layout = design.check()?;
        let mut dice = Stream::new(seed, "commands");
        let blocks = layout.logical.into();
        let mut commands = self.list(&mut dice, self.commands, blocks);
        let faults = self.faults.min(layout.spare_units / 2);
        self.spoil(&mut dice, &mut commands, faults);
        let then = self.list(&mut dice, self.then, blocks);
        Ok(Scenario { design, payload, seed, hosts: self.hosts, commands, then, faults })
    }

    /// Whether it can be done.
    ///
    /// # Errors
    /// In a line, what can not.
    pub fn check(&self) -> Result<(), String> {
        let m = &self.mix;
        let weights = [m.write, m.fua, m.discard, m.read, m.flush, self.pause, self.cycle];
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
