//! The part of a start that is left when the drive takes commands.

use crate::firmware::Firmware;
use crate::start::map_load::load_map;
use crate::start::report::{RecoveryError, RecoveryReport};
use crate::start::settle::{Units, count_valid, settle_log, settle_units};

/// What a start has read beyond what commands need, and what it still has to read.
#[derive(Default)]
pub(crate) struct Rest {
    /// What was read of all units, if it was.
    pub units: Option<Units>,
    /// The map is loaded.
    pub loaded: bool,
    /// Every unit is where it belongs.
    pub settled: bool,
}

impl Rest {
    /// Whether commands are taken before the map is loaded.
    pub fn is_early(&self) -> bool {
        !self.loaded
    }

    /// All of the map is loaded, and every unit goes where it belongs.
    pub async fn learn(
        &mut self,
        fw: &Firmware,
        report: &mut RecoveryReport,
    ) -> Result<(), RecoveryError> {
        if self.settled {
            return Ok(());
        }
        let mut mark = fw.rt.now();
        let mut lap = || fw.rt.now() - std::mem::replace(&mut mark, fw.rt.now());
        let units = match self.units.take() {
            Some(units) => units,
            None => {
                let units = Units::scan(fw).await?;
                report.scan = lap();
                units
            }
        };
        if !std::mem::replace(&mut self.loaded, true) {
            load_map(fw, &units, report).await?;
            report.map_load = lap();
        }
        count_valid(fw, &units)?;
        settle_log(fw);
        if !fw.is_read_only() {
            settle_units(fw, &units).await?;
        }
        self.settled = true;
        report.space += lap();
        Ok(())
    }
}
