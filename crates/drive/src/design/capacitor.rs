//! Capacitors: how many of which type hold so many joules.
//!
//! 1. Usable energy is `C · (V² − Vmin²) / 2`: charge below the least voltage at which the
//!    drive's converter works counts for nothing.
//! 2. A part counts with the capacitance that is left at the end of its life and at the given
//!    temperature, never with the printed one.

use serde::{Deserialize, Serialize};

/// The voltages between which capacitors are used, V.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Voltages {
    /// Charged.
    pub charged: f64,
    /// The least at which the drive still works.
    pub least: f64,
}

/// Why voltages are invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "capacitors cannot be charged to {charged} V and used down to {least} V: the least must be \
     above 0, and the charge above the least and at most {MOST_VOLTS} V"
)]
pub struct VoltageError {
    charged: f64,
    least: f64,
}

const MOST_VOLTS: f64 = 1000.0;

impl Voltages {
    /// From `charged` down to `least` volts.
    ///
    /// # Errors
    /// [`VoltageError`] unless `0 < least < charged`.
    pub fn new(charged: f64, least: f64) -> Result<Voltages, VoltageError> {
        match least > 0.0 && charged > least && charged <= MOST_VOLTS {
            true => Ok(Voltages { charged, least }),
            false => Err(VoltageError { charged, least }),
        }
    }

    /// Farads that hold so many joules between these voltages.
    pub fn farads(&self, joules: f64) -> f64 {
        2.0 * joules / (self.charged * self.charged - self.least * self.least)
    }

    /// Joules that so many farads hold between them.
    pub fn joules(&self, farads: f64) -> f64 {
        farads * (self.charged * self.charged - self.least * self.least) / 2.0
    }
}

/// A type of capacitor, as a part that can be bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacitorType {
    /// What it is called.
    pub name: String,
    /// What is printed on it, µF.
    pub microfarads: f64,
    /// The highest voltage it is used at, V.
    pub volts: f64,
    /// Volume, mm³.
    pub mm3: f64,
    /// Cost of one, US dollars.
    pub dollars: f64,
    /// Share of the printed capacitance that a new part has, at that voltage and 25 °C.
    pub there: f64,
    /// Share of it that is lost in a year.
    pub lost_per_year: f64,
    /// Share that is lost for each 10 °C above 25 °C.
    pub lost_per_10_c: f64,
}

/// Parts of one type that hold what is needed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// The type.
    #[serde(rename = "type")]
    pub name: String,
    /// How many.
    pub parts: u64,
    /// Volume of all, mm³.
    pub volume_mm3: f64,
    /// Cost of all, US dollars.
    pub cost_usd: f64,
    /// Share of its printed capacitance that a part has then.
    pub derating: f64,
    /// Usable energy density, J/cm³.
    pub j_per_cm3: f64,
}

/// The age and the temperature up to which capacitors must suffice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Service {
    /// Age up to which they must suffice, years.
    pub years: f64,
    /// Temperature, °C.
    pub celsius: f64,
}

impl CapacitorType {
    /// The types that come with the program.
    pub fn all() -> Vec<CapacitorType> {
        #[derive(Deserialize)]
        struct File {
            capacitor: Vec<CapacitorType>,
        }
        let file = toml::from_str::<File>(include_str!("../../presets/capacitors.toml"));
        // A test reads it.
        file.map(|f| f.capacitor).unwrap_or_default()
    }

    /// What is left of the printed capacitance.
    pub fn derating(&self, service: Service) -> f64 {
        let aged = (1.0 - self.lost_per_year).max(0.0).powf(service.years);
        let warm = (service.celsius - 25.0).max(0.0) / 10.0;
        self.there * aged * (1.0 - self.lost_per_10_c * warm).max(0.0)
    }

    /// How many parts hold so many joules; `None` if this type does not bear the voltage or has
    /// nothing left.
    pub fn parts(&self, joules: f64, volts: Voltages, service: Service) -> Option<Parts> {
        let derating = self.derating(service);
        let each = volts.joules(self.microfarads / 1e6 * derating);
        if volts.charged > self.volts || each <= 0.0 {
            return None;
        }
        let parts = (joules / each).ceil();
        Some(Parts {
            name: self.name.clone(),
            parts: parts as u64,
            volume_mm3: parts * self.mm3,
            cost_usd: parts * self.dollars,
            derating,
            j_per_cm3: each / self.mm3 * 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Service = Service { years: 0.0, celsius: 25.0 };

    #[test]
    fn farads_and_joules_are_each_others_inverse() {
        let volts = Voltages::new(5.0, 3.0).unwrap();
        assert_eq!(volts.joules(1.0), 8.0);
        assert_eq!(volts.farads(8.0), 1.0);
        for (charged, least) in [(3.0, 3.0), (2.0, 3.0), (5.0, 0.0), (f64::NAN, 1.0), (1e9, 1.0)] {
            assert!(Voltages::new(charged, least).is_err());
        }
    }

    #[test]
    fn parts_hold_what_is_asked_for_and_one_less_does_not() {
        let volts = Voltages::new(5.0, 2.7).unwrap();
        let types = CapacitorType::all();
        assert_eq!(types.len(), 3);
        for kind in types {
            for years in [0.0, 5.0] {
                let service = Service { years, celsius: 70.0 };
                let parts = kind.parts(0.1, volts, service).unwrap();
                let each = volts.joules(kind.microfarads / 1e6 * parts.derating);
                assert!(each * parts.parts as f64 >= 0.1 && each * (parts.parts - 1) as f64 <= 0.1);
            }
        }
    }

    #[test]
    fn age_and_warmth_take_and_never_give() {
        let volts = Voltages::new(5.0, 2.7).unwrap();
        for kind in CapacitorType::all() {
            let new = kind.derating(NEW);
            assert!(new <= 1.0 && kind.derating(Service { years: 5.0, ..NEW }) < new);
            assert!(kind.derating(Service { celsius: 85.0, ..NEW }) <= new);
            assert_eq!(kind.derating(Service { celsius: -20.0, ..NEW }), new);
            assert_eq!(kind.parts(1.0, Voltages::new(kind.volts + 1.0, 1.0).unwrap(), NEW), None);
            assert_eq!(kind.parts(0.0, volts, NEW).unwrap().parts, 0);
        }
    }
}
