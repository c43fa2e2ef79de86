//! Two reports side by side: the rows that both have, by name, and for each measure
//! both values, their ratio, and whether the second is worse.
//!
//! 1. Repetitions of a row are one row: the median of each measure, the sum of each count. How far
//!    they are apart is the spread of the measure.
//! 2. A difference is more than chance if the spreads do not touch. A row without repetitions has no
//!    spread: what differs there by more than [`SMALL_PERCENT`] cannot be judged.

use crate::report::measures::{self, Better, Measure, less, more};
use crate::report::published::median;
use crate::report::repeated;
use crate::report::units::{self, Unit};
use serde_json::Value;

/// What is compared of the benchmark's runs, with the JSON's key.
const OF_RUNS: [(Measure, &str); 4] = [
    (more("requests per CPU-second", Unit::Number), "requests_per_cpu_second"),
    (less("write amplification", Unit::Ratio), "write_amplification"),
    (less("peak memory, MiB", Unit::Number), "peak_rss_mib"),
    (more("timer events per CPU-second", Unit::Number), TIMERS),
];

const TIMERS: &str = "timer_events_per_second";

/// Differences of rows without repetitions up to this, in per cent, count as chance.
pub const SMALL_PERCENT: f64 = 1.0;

/// What a difference is: 2 at the head of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// None, or one that may be chance.
    Chance,
    /// More than chance.
    Real,
    /// It cannot be judged: a side has no repetitions.
    Unknown,
}

/// From the least of the repetitions to the most.
pub type Spread = [f64; 2];

/// A report that can be compared.
#[derive(Clone, Debug)]
pub enum Document {
    /// Of `tantalum run --json`.
    Experiment(Value),
    /// Of `tantalum drive bench --json`.
    Bench(Value),
}

/// Why there is nothing to compare.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A file holds no JSON.
    #[error(
        "\"{file}\" is not JSON ({why}): `tantalum run EXPERIMENT --json {file}` writes a report there"
    )]
    NotJson {
        /// Which file.
        file: String,
        /// What the parser says.
        why: String,
    },
    /// A file holds some other JSON.
    #[error(
        "\"{file}\" is neither a report of `tantalum run --json` nor of `tantalum drive bench --json`: \
         {why}"
    )]
    NotAReport {
        /// Which file.
        file: String,
        /// What is missing or wrong.
        why: String,
    },
    /// One file is an experiment, the other a benchmark.
    #[error(
        "\"{a}\" and \"{b}\" are reports of different kinds: compare run with run, bench with bench"
    )]
    Kinds {
        /// The first file.
        a: String,
        /// The second.
        b: String,
    },
    /// No name is in both files.
    #[error(
        "\"{a}\" and \"{b}\" have no row of the same name: compare reports of one experiment, made with the \
         same --row"
    )]
    NothingInCommon {
        /// The first file.
        a: String,
        /// The second.
        b: String,
    },
}

/// Reads a report; `file` is named in errors.
///
/// # Errors
/// If the text is not a report.
pub fn read(file: &str, text: &str) -> Result<Document, CompareError> {
    let not_json = |why: String| CompareError::NotJson { file: file.into(), why };
    let not_a_report = |why: String| CompareError::NotAReport { file: file.into(), why };
    let value: Value = serde_json::from_str(text).map_err(|e| not_json(e.to_string()))?;
    let named = |list: &str| match value.get(list) {
        None => Ok(false),
        Some(Value::Array(members)) if members.iter().all(|m| name(m).is_some()) => Ok(true),
        Some(_) => Err(not_a_report(format!("\"{list}\" is not a list of things with names"))),
    };
    let has_title = value.get("experiment").is_some_and(Value::is_string);
    match (named("rows")? && has_title, named("runs")?) {
        (true, _) => Ok(Document::Experiment(value)),
        (false, true) => Ok(Document::Bench(value)),
        (false, false) => {
            Err(not_a_report("it has neither \"experiment\" and \"rows\" nor \"runs\"".into()))
        }
    }
}

/// What is compared of an experiment's rows.
fn compared() -> impl Iterator<Item = &'static measures::OfRow> {
    measures::OF_ROWS.iter().filter(|m| m.is_compared)
}

fn name(member: &Value) -> Option<&str> {
    member.get("name").and_then(Value::as_str)
}

/// A measure in both reports; `None` where it is missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// In the first.
    pub a: Option<f64>,
    /// In the second.
    pub b: Option<f64>,
}

impl Pair {
    /// The second divided by the first; `None` if one is missing or the first is nought.
    pub fn ratio(&self) -> Option<f64> {
        let (a, b) = self.a.zip(self.b)?;
        (a > 0.0).then_some(b / a)
    }

    /// By how many per cent of the first the second is worse; 0 if it is not worse or
    /// not known, infinite if the first is nought.
    pub fn worse_percent(&self, better: Better) -> f64 {
        let Some((a, b)) = self.a.zip(self.b) else { return 0.0 };
        let change = match better {
            Better::More => a - b,
            Better::Less => b - a,
        };
        if change > 0.0 { 100.0 * change / a } else { 0.0 }
    }
}

/// A row that both reports have.
#[derive(Clone, Debug)]
pub struct RowPair {
    /// Its name.
    pub name: String,
    /// The results in a word, if rows have any.
    pub results: Option<[String; 2]>,
    /// Whether it is as expected in the first report and not in the second.
    pub broken: bool,
    /// The measures, in the order of [`Comparison::measures`].
    pub pairs: Vec<Pair>,
    /// Their spreads in both reports, in the same order; `None` without repetitions.
    pub spreads: Vec<[Option<Spread>; 2]>,
}

impl RowPair {
    /// What the difference in the measure at this place is. A measure that is missing on one side
    /// has none.
    pub fn difference(&self, measure: usize) -> Difference {
        let pair = self.pairs.get(measure).and_then(|pair| pair.a.zip(pair.b));
        let Some((a, b)) = pair else { return Difference::Chance };
        let (differs, then) = match self.spreads.get(measure) {
            Some([Some(one), Some(two)]) => (one[1] < two[0] || two[1] < one[0], Difference::Real),
            _ => ((a - b).abs() > a.abs() * SMALL_PERCENT / 100.0, Difference::Unknown),
        };
        if differs { then } else { Difference::Chance }
    }
}

/// One of the two reports.
#[derive(Clone, Debug)]
pub struct Side {
    /// The file.
    pub file: String,
    /// What was run, in a line.
    pub about: String,
    /// The rows that the other one does not have.
    pub alone: Vec<String>,
}

/// Two reports side by side.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The first report, to which ratios refer.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// What makes them different experiments, in words: another title, seed, number of cuts.
    pub differ: Vec<String>,
    /// Whether they made equally many cuts: else counts over all of them say nothing.
    pub equal_cuts: bool,
    /// What is compared.
    pub measures: Vec<Measure>,
    /// The rows that both have, in the order of the first. Not empty.
    pub rows: Vec<RowPair>,
}

/// Puts two reports side by side; the names of their files are for titles and errors.
///
/// # Errors
/// If they are of different kinds or have no row in common.
///
/// ```
/// use std::sync::Arc;
/// use tantalum_lab::file::experiment::Experiment;
/// use tantalum_lab::report::compare::{compare, read};
/// use tantalum_lab::run::runner;
///
/// /// A report in JSON, of an experiment whose programs take this long.
/// let report = |program_us: u64| -> Result<String, Box<dyn std::error::Error>> {
///     let text = format!(
///         r#"
///         title = "random writes"
///         cuts = 1
///         drive.timing.program_us = {program_us}
///         [drive.geometry]
///         channels = 2
///         packages = 2
///         chips = 1
///         planes = 1
///         blocks = 128
///         pages = 32
///         [job.load]
///         pattern = "permutation"
///         range = 0.5
///         queue_depth = 16
///         passes = 1.0
///         [[row]]
///         workload = "load"
///         design = "volatile"
///         "#
///     );
///     let experiment = Experiment::parse("writes.toml", &text)?;
///     let watch: runner::Watch = Arc::new(|_progress| ());
///     Ok(runner::run(&experiment, &experiment.rows()?, 1, &watch).to_json())
/// };
/// let documents = [read("a.json", &report(1000)?)?, read("b.json", &report(2000)?)?];
/// let comparison = compare(["a.json", "b.json"], &documents)?;
/// assert_eq!(comparison.rows.len(), 1);
/// let worse = comparison.worse_by(20.0);
/// assert!(worse.iter().any(|line| line.contains("requests/s")), "{worse:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare(files: [&str; 2], documents: &[Document; 2]) -> Result<Comparison, CompareError> {
    let [a, b] = files.map(String::from);
    let sides = match documents {
        [Document::Experiment(x), Document::Experiment(y)] => [rows(x), rows(y)],
        [Document::Bench(x), Document::Bench(y)] => [runs(x), runs(y)],
        _ => return Err(CompareError::Kinds { a, b }),
    };
    let [first, second] = sides;
    let measures = match documents {
        [Document::Experiment(_), _] => compared().map(|m| m.measure).collect(),
        [Document::Bench(_), _] => OF_RUNS.iter().map(|m| m.0).collect(),
    };
    let alone = |these: &[Half], others: &[Half]| {
        let only = these.iter().filter(|t| others.iter().all(|o| o.name != t.name));
        only.map(|t| t.name.clone()).collect()
    };
    let [about_a, about_b] = documents.each_ref().map(about);
    let sides = [(a, about_a, alone(&first, &second)), (b, about_b, alone(&second, &first))];
    let [a, b] = sides.map(|(file, about, alone)| Side { file, about, alone });
    let both = first.into_iter().filter_map(|x| {
        let y = second.iter().find(|y| y.name == x.name)?;
        let pairs = x.values.iter().zip(&y.values).map(|(&a, &b)| Pair { a, b }).collect();
        let spreads = x.spreads.iter().zip(&y.spreads).map(|(&a, &b)| [a, b]).collect();
        Some(RowPair {
            name: x.name,
            results: x.result.zip(y.result.clone()).map(|(a, b)| [a, b]),
            broken: x.as_expected && !y.as_expected,
            pairs,
            spreads,
        })
    });
    let rows: Vec<RowPair> = both.collect();
    if rows.is_empty() {
        return Err(CompareError::NothingInCommon { a: a.file, b: b.file });
    }
    let (differ, equal_cuts) = differ(documents);
    Ok(Comparison { a, b, differ, equal_cuts, measures, rows })
}

impl Comparison {
    /// What is worse in the second report by more than so many per cent, in words. A
    /// row that is no longer as expected is worse than any percentage. Counts are left out
    /// if the reports did not make equally many cuts.
    pub fn worse_by(&self, percent: f64) -> Vec<String> {
        let mut words = Vec::new();
        for row in &self.rows {
            if let Some([a, b]) = row.results.as_ref().filter(|_| row.broken) {
                words.push(format!("{}: the result was \"{a}\", and is \"{b}\"", row.name));
            }
            for (i, (measure, pair)) in self.measures.iter().zip(&row.pairs).enumerate() {
                let is_chance = row.spreads.get(i).is_some_and(|s| s.iter().all(Option::is_some))
                    && row.difference(i) == Difference::Chance;
                if measure.unit == Unit::Count && !self.equal_cuts || is_chance {
                    continue;
                }
                let worse = pair.worse_percent(measure.better);
                if worse > percent {
                    let [a, b] = [pair.a, pair.b].map(|v| units::value(v, measure.unit));
                    let by = match worse.is_finite() {
                        true => format!(", worse by {worse:.1} %"),
                        false => String::new(),
                    };
                    words.push(format!("{}: {} from {a} to {b}{by}", row.name, measure.name));
                }
            }
        }
        words
    }
}

/// A row of one report.
struct Half {
    name: String,
    result: Option<String>,
    as_expected: bool,
    values: Vec<Option<f64>>,
    /// Of repetitions, if there were any.
    spreads: Vec<Option<Spread>>,
}

impl Half {
    fn new(name: String, result: Option<String>, values: Vec<Option<f64>>) -> Half {
        let spreads = vec![None; values.len()];
        Half { name, result, as_expected: true, values, spreads }
    }
}

/// Repetitions as one row, where the first of them was.
fn folded(rows: Vec<Half>) -> Vec<Half> {
    let mut groups: Vec<(String, Vec<Half>)> = Vec::new();
    for row in rows {
        let base = repeated::base(&row.name).to_string();
        match groups.iter_mut().find(|(name, _)| *name == base) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((base, vec![row])),
        }
    }
    groups.into_iter().map(|(name, rows)| fold(name, rows)).collect()
}

fn fold(name: String, mut rows: Vec<Half>) -> Half {
    if rows.len() == 1 {
        // (Its name may be that of a repetition: the other report has this one, too.)
        return rows.remove(0);
    }
    let as_expected = rows.iter().all(|row| row.as_expected);
    let shown = rows.iter().find(|row| row.as_expected == as_expected);
    let result = shown.and_then(|row| row.result.clone());
    let of = |i: usize, measure: &Measure| {
        let mut each: Vec<f64> = rows.iter().filter_map(|row| row.values[i]).collect();
        each.sort_by(f64::total_cmp);
        let spread = each.first().zip(each.last()).map(|(low, high)| [*low, *high]);
        let value = match measure.unit {
            Unit::Count if !each.is_empty() => Some(each.iter().sum()),
            _ => median(&each),
        };
        (value, spread.filter(|_| each.len() > 1))
    };
    let (values, spreads) = compared().enumerate().map(|(i, m)| of(i, &m.measure)).unzip();
    Half { name, result, as_expected, values, spreads }
}

fn rows(report: &Value) -> Vec<Half> {
    let half = |row: &Value| {
        let number = |path: &str| row.pointer(path).and_then(Value::as_f64);
        let some = |path: &str| number(path).is_some_and(|n| n > 0.0);
        let verdict = row.get("verdict").and_then(Value::as_str).unwrap_or("unknown");
        let as_expected = verdict == "as-expected";
        let result = match as_expected {
            true if some("/lost") || some("/corrupt") => "loses",
            true => "kept",
            false => verdict,
        };
        let name = name(row).unwrap_or_default().to_string();
        let values = compared().map(|m| m.read(row)).collect();
        Half { as_expected, ..Half::new(name, Some(result.to_string()), values) }
    };
    folded(report.get("rows").and_then(Value::as_array).into_iter().flatten().map(half).collect())
}

fn runs(report: &Value) -> Vec<Half> {
    let half = |name: &str, of: &Value| {
        let values = OF_RUNS.iter().map(|(_, key)| of.get(key).and_then(Value::as_f64));
        Half::new(name.to_string(), None, values.collect())
    };
    let runs = report.get("runs").and_then(Value::as_array).into_iter().flatten();
    let mut halves: Vec<Half> = runs.map(|r| half(name(r).unwrap_or_default(), r)).collect();
    if report.get(TIMERS).is_some() {
        halves.push(half("bare runtime", report));
    }
    halves
}

/// What makes them different experiments, and whether they made equally many cuts.
fn differ(documents: &[Document; 2]) -> (Vec<String>, bool) {
    let [Document::Experiment(a), Document::Experiment(b)] = documents else {
        return (Vec::new(), true);
    };
    let mut words = Vec::new();
    for (key, what) in [("experiment", "titles"), ("seed", "seeds"), ("cuts", "numbers of cuts")] {
        let [x, y] = [a, b].map(|r| r.get(key).unwrap_or(&Value::Null));
        if x != y {
            words.push(format!("the {what} differ, {x} and {y}"));
        }
    }
    let equal_cuts = a.get("cuts") == b.get("cuts");
    if !equal_cuts {
        words.push("losses, erases and other counts cannot be compared".into());
    }
    (words, equal_cuts)
}

fn about(document: &Document) -> String {
    match document {
        Document::Experiment(r) => {
            let [seed, cuts] = ["seed", "cuts"].map(|key| r.get(key).unwrap_or(&Value::Null));
            let title = r.get("experiment").and_then(Value::as_str).unwrap_or_default();
            let noun = if *cuts == 1 { "cut" } else { "cuts" };
            format!("{title}; seed {seed}, {cuts} {noun}")
        }
        Document::Bench(_) => "speed of the simulation".to_string(),
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
