//! Fits a design to numbers that were measured on a drive.
//!
//! 1. What is minimised is the sum of squares of ln(model / measured), which are about relative
//!    deviations: no number counts more than another, and none is left far off.
//! 2. A parameter moves in its logarithm, and stays a valid value of the design.
//! 3. The same numbers, design and seed give the same result, however many threads there are.

mod numbers;
mod solve;
#[cfg(test)]
mod tests;
mod trial;

pub use numbers::{NUMBERS, Number, Unit, parse_numbers};
pub use trial::Length;

use crate::file::parse;
use solve::{Bounds, least_squares};
use tantalum_drive::Design;
use tantalum_explore::side_by_side;

/// Parameters that are free if nothing else is said: those of the link, and the times of the array
/// and of the firmware.
pub const FREE: &[&str] = &[
    "link.mb_s",
    "link.write_mb_s",
    "link.occupancy_ns",
    "link.latency_ns",
    "link.page_ns",
    "timing.read_us",
    "timing.read_sector_us",
    "timing.program_us",
    "firmware.flush_us",
    "firmware.map_us",
    "firmware.through_us",
];

/// A parameter of which a tenth more changes no number by as much as this, in per cent, is said to
/// matter to none.
pub const NOTHING: f64 = 0.1;

/// How much is spent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// How long each number is measured.
    pub length: Length,
    /// Rounds of the optimiser, at most.
    pub rounds: u32,
}

impl Effort {
    /// What a user waits minutes for.
    pub const FULL: Effort =
        Effort { length: Length { warm_up: 0.1, seconds: 0.2, fsyncs: 96 }, rounds: 20 };
    /// A coarse answer.
    pub const QUICK: Effort =
        Effort { length: Length { warm_up: 0.02, seconds: 0.03, fsyncs: 24 }, rounds: 8 };
}

/// An observer of the progress. It is called from several threads.
pub trait Watch: Sync {
    /// A number of a candidate was measured.
    fn done(&self);
    /// Whether to end now.
    fn is_over(&self) -> bool;
}

/// A free parameter.
#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    key: String,
    before: i64,
}

impl Parameter {
    /// What is added before the logarithm is taken: the parameter can be 0, and one that has become
    /// small still moves by as much as can be measured.
    fn offset(&self) -> f64 {
        match () {
            () if self.key.ends_with("_ns") => 2_000.0,
            () if self.key.starts_with("firmware.") => 100.0,
            () if self.key.ends_with("_us") => 20.0,
            () => 0.0,
        }
    }

    fn place(&self, value: i64) -> f64 {
        libm::log(value as f64 + self.offset())
    }

    fn value(&self, place: f64) -> i64 {
        let value = libm::exp(place) - self.offset();
        (libm::round(value) as i64).max(i64::from(self.key.ends_with("mb_s")))
    }
}

/// A fit, ready to run.
#[derive(Clone, Debug)]
pub struct Fit {
    base: Design,
    small: Design,
    numbers: Vec<(Number, f64)>,
    free: Vec<Parameter>,
    effort: Effort,
    seed: u64,
}

/// A number beside that of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual {
    /// Which.
    pub number: Number,
    /// What was measured.
    pub measured: f64,
    /// The base's.
    pub before: f64,
    /// The fitted design's.
    pub model: f64,
}

impl Residual {
    /// The deviation of the model, in per cent.
    pub fn percent(&self) -> f64 {
        (self.model / self.measured - 1.0) * 100.0
    }
}

/// A parameter before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Its key.
    pub key: String,
    /// The base's value.
    pub before: i64,
    /// The fitted value.
    pub after: i64,
    /// By how much the number that depends most on it changes if it is a tenth larger, in per
    /// cent: 0 if no number says anything of it.
    pub matters: f64,
}

/// The result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The fitted design.
    pub design: Design,
    /// The numbers.
    pub residuals: Vec<Residual>,
    /// The parameters.
    pub parameters: Vec<Fitted>,
    /// Whether it was ended early.
    pub interrupted: bool,
}

impl Findings {
    /// The mean deviation of all numbers, in per cent.
    pub fn mean_percent(&self) -> f64 {
        let all = self.residuals.iter().map(|r| r.percent().abs());
        all.sum::<f64>() / self.residuals.len().max(1) as f64
    }
}

impl Fit {
    /// A fit of `base` to `numbers`, in which `free` may change; `None` stands for those of
    /// [`FREE`] that the design uses.
    ///
    /// # Errors
    /// In a line: a key is not an integer of a design's link, timing or firmware.
    pub fn new(
        base: &Design,
        numbers: Vec<(Number, f64)>,
        free: Option<&[String]>,
        effort: Effort,
        seed: u64,
    ) -> Result<Fit, String> {
        let table = toml::Table::try_from(base).map_err(|e| e.to_string())?;
        let mut parameters: Vec<Parameter> = Vec::new();
        let known = integers(&table);
        let wanted: Vec<String> = match free {
            Some(free) => free.to_vec(),
            // (0 stands there for "as another one".)
            None => {
                let of_another = ["link.write_mb_s", "timing.read_sector_us"];
                let is_used = |key: &&&str| {
                    let own = known.iter().find(|(k, _)| k == **key);
                    own.is_some_and(|(_, value)| *value > 0 || !of_another.contains(*key))
                };
                FREE.iter().filter(is_used).map(|key| key.to_string()).collect()
            }
        };
        for key in wanted {
            let Some((_, before)) = known.iter().find(|(k, _)| *k == key) else {
                let known = known.iter().map(|(k, _)| k.as_str());
                return Err(parse::unknown("no parameter that can be fitted:", &key, known));
            };
            if parameters.iter().any(|p| p.key == key) {
                return Err(format!("{key} is named twice"));
            }
            parameters.push(Parameter { key, before: *before });
        }
        if parameters.is_empty() {
            return Err("no parameter is free".into());
        }
        let small = trial::smaller(base);
        Ok(Fit { base: base.clone(), small, numbers, free: parameters, effort, seed })
    }

    /// Measurements of the model that it takes, at most.
    pub fn trials(&self) -> u64 {
        let round = self.free.len() as u64 + 8;
        (u64::from(self.effort.rounds) * round + 5 + 2 * self.free.len() as u64)
            * self.numbers.len() as u64
    }

    /// By how much, in per cent, the number that depends most on each parameter changes if that is
    /// a tenth larger.
    fn matter(&self, values: &[i64], model: &[f64], threads: usize, watch: &dyn Watch) -> Vec<f64> {
        let place = |values: &[i64]| {
            self.free.iter().zip(values).map(|(p, v)| p.place(*v)).collect::<Vec<_>>()
        };
        let steps: Vec<Vec<f64>> = (0..values.len())
            .map(|i| {
                let mut more = values.to_vec();
                more[i] += (values[i] / 10).max(1);
                place(&more)
            })
            .collect();
        let moved = self.at(&steps, threads, watch).unwrap_or_default();
        let of = |i: usize| {
            let Some(Some(all)) = moved.get(i) else { return 0.0 };
            let changes = all.iter().zip(model).map(|(a, b)| (a / b - 1.0).abs() * 100.0);
            changes.fold(0.0, f64::max)
        };
        (0..values.len()).map(of).collect()
    }

    /// What is minimised.
    fn cost(&self, model: &[f64]) -> f64 {
        self.residuals(model).iter().map(|r| r * r).sum()
    }

    /// Fits, with so many trials at a time.
    ///
    /// # Errors
    /// In a line: the base cannot be measured.
    pub fn run(&self, threads: usize, watch: &dyn Watch) -> Result<Findings, String> {
        let first = self.model(&self.base_values())?;
        let measure = |points: &[Vec<f64>]| self.at(points, threads, watch);
        let start: Vec<f64> = self.free.iter().map(|p| p.place(p.before)).collect();
        let bounds = Bounds { rounds: self.effort.rounds, step: 0.06, most: 0.7, enough: 0.01 };
        let best = least_squares(start, bounds, &mut |points| {
            let found = measure(points)?;
            let residuals = found.into_iter().map(|all| Some(self.residuals(&all?)));
            Some(residuals.collect())
        });
        let (mut values, mut model) = (self.values(&best), Vec::new());
        let mut matter = Vec::new();
        // What no number says anything of goes back to where it was, if the numbers stay as near.
        for pass in 0..2 {
            model = self.model(&values)?;
            matter = self.matter(&values, &model, threads, watch);
            let mut back = values.clone();
            for (i, p) in self.free.iter().enumerate().filter(|(i, _)| matter[*i] < NOTHING) {
                back[i] = p.before;
            }
            if pass > 0 || back == values || watch.is_over() {
                break;
            }
            if self.cost(&self.model(&back)?) > self.cost(&model) * 1.02 + 1e-5 {
                break;
            }
            values = back;
        }
        let parameters = self.free.iter().zip(&values).enumerate().map(|(i, (p, after))| Fitted {
            key: p.key.clone(),
            before: p.before,
            after: *after,
            matters: matter[i],
        });
        let numbers = self.numbers.iter().zip(first.iter().zip(&model));
        let residuals = numbers.map(|((number, measured), (before, model))| Residual {
            number: *number,
            measured: *measured,
            before: *before,
            model: *model,
        });
        Ok(Findings {
            parameters: parameters.collect(),
            residuals: residuals.collect(),
            design: self.with(&self.base, &values)?,
            interrupted: watch.is_over(),
        })
    }

    fn base_values(&self) -> Vec<i64> {
        self.free.iter().map(|p| p.before).collect()
    }

    fn values(&self, place: &[f64]) -> Vec<i64> {
        self.free.iter().zip(place).map(|(p, x)| p.value(*x)).collect()
    }

    fn residuals(&self, model: &[f64]) -> Vec<f64> {
        let each = self.numbers.iter().zip(model);
        each.map(|((_, measured), model)| libm::log(model / measured)).collect()
    }

    fn with(&self, design: &Design, values: &[i64]) -> Result<Design, String> {
        let mut table = toml::Table::new();
        for (p, value) in self.free.iter().zip(values) {
            parse::set(&mut table, &p.key, toml::Value::Integer(*value))?;
        }
        design.with_overrides(&table).map_err(|e| e.to_string())
    }

    /// All numbers of the model with these values.
    fn model(&self, values: &[i64]) -> Result<Vec<f64>, String> {
        let design = self.with(&self.small, values)?;
        let all = self.numbers.iter();
        all.map(|(number, _)| self.measure(number, &design)).collect()
    }

    fn measure(&self, number: &Number, design: &Design) -> Result<f64, String> {
        trial::measure(number, design, self.effort.length, self.seed)
    }

    /// The numbers at each of these points; none where the design cannot be built. `None` if it was
    /// ended meanwhile.
    fn at(
        &self,
        points: &[Vec<f64>],
        threads: usize,
        watch: &dyn Watch,
    ) -> Option<Vec<Option<Vec<f64>>>> {
        let designs: Vec<Option<Design>> =
            points.iter().map(|at| self.with(&self.small, &self.values(at)).ok()).collect();
        let of = |design| self.numbers.iter().map(move |(number, _)| (design, *number));
        let tasks: Vec<(&Option<Design>, Number)> = designs.iter().flat_map(of).collect();
        let found = side_by_side(threads, &|| watch.is_over(), &tasks, |(design, number)| {
            let found = design.as_ref().and_then(|design| self.measure(number, design).ok());
            watch.done();
            found
        });
        let found: Option<Vec<Option<f64>>> = found.into_iter().collect();
        let found = found?;
        Some(found.chunks(self.numbers.len()).map(|all| all.iter().copied().collect()).collect())
    }
}

/// The integers of a design that can be fitted, with their keys.
fn integers(table: &toml::Table) -> Vec<(String, i64)> {
    // What is parallel, and what is a power of two, does not move in small steps.
    let fixed =
        ["link.queue_depth", "link.block_bytes", "link.logical_bytes", "timing.pages_per_program"];
    let of = |section: &'static str| {
        let table = table.get(section).and_then(toml::Value::as_table);
        let keys = table.into_iter().flatten();
        keys.filter_map(move |(key, value)| Some((format!("{section}.{key}"), value.as_integer()?)))
    };
    let all = ["link", "timing", "firmware"].into_iter().flat_map(of);
    all.filter(|(key, _)| !fixed.contains(&key.as_str())).collect()
}
