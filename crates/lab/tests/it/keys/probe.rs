//! The range of a key, found by asking the checks of the code.
//!
//! 1. A range is what is accepted while all other keys of a preset stay as they are.
//! 2. Of whole numbers all, the multiples of a number, or the powers of two between two bounds are
//!    accepted, and 0 perhaps besides.

use std::fmt;
use toml::{Table, Value};

/// What has keys.
pub struct Kind<'a> {
    /// Presets by name, with every key; the first one is asked first.
    pub bases: Vec<(&'a str, Table)>,
    /// Their texts, which have the keys that matter to each.
    pub texts: Vec<(&'a str, &'a str)>,
    /// Whether the checks accept it.
    pub accepts: fn(&Table) -> bool,
}

/// The range of a key of this type, in words; empty: names and tables, which no number bounds.
pub fn range(kind: &Kind, path: &[&str], of: &str) -> String {
    let one = of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')).unwrap_or(of);
    match one {
        "bool" => "`true`, `false`".to_string(),
        "f64" => float(kind, path),
        "Vec<u64>" => list(kind, path),
        "[u64; 2]" => pair(kind, path),
        "u8" => whole(kind, path, u8::MAX.into()),
        "u16" => whole(kind, path, u16::MAX.into()),
        "u32" => whole(kind, path, u32::MAX.into()),
        "u64" | "usize" => whole(kind, path, i64::MAX),
        of => {
            let whole = ["u8", "u16", "u32", "u64", "usize", "f64", "i32", "i64"];
            assert!(!whole.contains(&of), "{path:?} is of type {of}");
            String::new()
        }
    }
}

/// The table with another value at this key; numbers in the path are places in lists.
fn with(base: &Table, path: &[&str], value: Value) -> Table {
    let mut changed = base.clone();
    let (key, way) = path.split_last().expect("a key");
    let Some((first, way)) = way.split_first() else {
        changed.insert((*key).to_string(), value);
        return changed;
    };
    let mut at = changed.get_mut(*first).expect("a table");
    for part in way {
        at = match at {
            Value::Array(list) => &mut list[part.parse::<usize>().expect("a place")],
            at => &mut at[*part],
        };
    }
    at.as_table_mut().expect("a table").insert((*key).to_string(), value);
    changed
}

fn value<'a>(base: &'a Table, path: &[&str]) -> &'a Value {
    path[1..].iter().fold(&base[path[0]], |at, key| match at {
        Value::Array(list) => &list[key.parse::<usize>().expect("a place")],
        at => at.get(*key).unwrap_or_else(|| panic!("{path:?} has no value to start from")),
    })
}

/// Presets in the order in which they are asked: the first one, then those whose texts have the key.
fn bases<'a>(kind: &'a Kind, path: &[&str]) -> Vec<&'a (&'a str, Table)> {
    let key = path.last().expect("a key");
    let has = |name: &str| {
        let text = kind.texts.iter().find(|(of, _)| *of == name).map_or("", |(_, text)| text);
        text.lines().any(|line| line.split([' ', '=']).next() == Some(key))
    };
    let (first, others) = kind.bases.split_first().expect("a preset");
    let (having, others): (Vec<_>, Vec<_>) = others.iter().partition(|(name, _)| has(name));
    std::iter::once(first).chain(having).chain(others).collect()
}

/// Whole numbers.
fn whole(kind: &Kind, path: &[&str], most: i64) -> String {
    let (first, _) = kind.bases.first().expect("a preset");
    let mut usual = None;
    for (name, base) in bases(kind, path) {
        let accepts =
            |n: i64| n >= 0 && n <= most && (kind.accepts)(&with(base, path, Value::Integer(n)));
        let at = value(base, path).as_integer().expect("a number");
        let found = Numbers::around(&accepts, at, most);
        // Where nothing but 0 can be, or anything, the key means nothing: another preset may use it.
        if found.least < found.most && !(found.is_open && found.least == 0) {
            let on = if name == first { String::new() } else { format!(" (`{name}`)") };
            return format!("{found}{on}");
        }
        usual.get_or_insert(found);
    }
    usual.expect("a preset").to_string()
}

/// Which whole numbers are accepted.
struct Numbers {
    least: i64,
    most: i64,
    /// There is no bound but that of the type.
    is_open: bool,
    step: Step,
    /// So is 0, which is not among the others.
    and_zero: bool,
}

enum Step {
    Every(i64),
    Double,
}

impl Numbers {
    /// Those around one that is accepted.
    fn around(accepts: &dyn Fn(i64) -> bool, at: i64, bound: i64) -> Numbers {
        assert!(accepts(at), "{at} is the value of a preset");
        let start = match at {
            0 => (0..40).map(|power| 1 << power).find(|n| accepts(*n)),
            _ => Some(at),
        };
        let Some(at) = start else {
            let step = Step::Every(1);
            return Numbers { least: 0, most: 0, is_open: false, step, and_zero: false };
        };
        // (8192 is a multiple of 4096, and a power of two; so is 1024 one of 512.)
        let goes_on = |s: i64| accepts(at + 2 * s) && accepts(at + 3 * s);
        let doubles = |s: i64| s > 1 && !goes_on(s) && accepts(at * 4);
        let is_step = |s: &i64| (accepts(at + s) || accepts(at - s)) && !doubles(*s);
        let every = [1, 4, 512, 4096].into_iter().find(is_step);
        let (least, most, step) = match every {
            Some(step) => {
                let down = furthest(|n| accepts(at - n * step), at / step);
                let up = furthest(|n| accepts(at + n * step), (bound - at) / step);
                (at - down * step, at + up * step, Step::Every(step))
            }
            None => {
                let (mut least, mut most) = (at, at);
                while least > 1 && accepts(least / 2) {
                    least /= 2;
                }
                while most < bound / 2 && accepts(most * 2) {
                    most *= 2;
                }
                (least, most, Step::Double)
            }
        };
        let and_zero = least > 0 && accepts(0);
        let and_one = and_zero && least == 1;
        let least = if and_one { 0 } else { least };
        Numbers { least, most, is_open: most == bound, step, and_zero: and_zero && !and_one }
    }
}

/// The largest `n` up to `bound` that holds, if all smaller ones do.
fn furthest(holds: impl Fn(i64) -> bool, bound: i64) -> i64 {
    let (mut low, mut high) = (0, 1);
    while high <= bound && holds(high) {
        low = high;
        high = high.saturating_mul(2);
    }
    let mut high = high.min(bound.saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = (grouped(self.least), grouped(self.most));
        if self.and_zero {
            write!(f, "0, or ")?;
        }
        match (self.is_open, self.least == self.most) {
            (true, _) => write!(f, "{least} or more")?,
            (_, true) => write!(f, "{least}")?,
            _ => write!(f, "{least} to {most}")?,
        }
        match self.step {
            Step::Every(1) => Ok(()),
            Step::Every(step) => write!(f, ", a multiple of {}", grouped(step)),
            Step::Double if self.least < self.most => write!(f, ", a power of two"),
            Step::Double => Ok(()),
        }
    }
}

/// 1048576: "1,048,576".
fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Two numbers: what both may be, if they are equal.
fn pair(kind: &Kind, path: &[&str]) -> String {
    let (_, base) = bases(kind, path)[0];
    let accepts = |n: i64| {
        let both = vec![Value::Integer(n); 2];
        n >= 0 && (kind.accepts)(&with(base, path, Value::Array(both)))
    };
    let at = value(base, path).as_array().and_then(|list| list.last()?.as_integer());
    format!("two numbers, each {}", Numbers::around(&accepts, at.expect("a number"), i64::MAX))
}

/// Numbers with a fraction: one interval, or one below 0 and one above it.
fn float(kind: &Kind, path: &[&str]) -> String {
    let bases = bases(kind, path);
    let accepting = |base: &Table, n: f64| (kind.accepts)(&with(base, path, Value::Float(n)));
    let (_, base) = bases.iter().find(|(_, base)| accepting(base, 1.0)).unwrap_or(&bases[0]);
    let accepts = |n: f64| accepting(base, n);
    let at = value(base, path).as_float().expect("a number");
    assert!(accepts(at), "{path:?} = {at} is the value of a preset");
    if accepts(1e12) {
        return match (accepts(-1e12), accepts(0.0)) {
            (true, _) => "any number".to_string(),
            (_, true) => "0 or more".to_string(),
            _ => "above 0".to_string(),
        };
    }
    // Bounds are whole numbers, or depend on other keys.
    let bound = |from: f64, beyond: f64| {
        let (mut good, mut bad) = (from, beyond);
        for _ in 0..80 {
            let middle = f64::midpoint(good, bad);
            match accepts(middle) {
                true => good = middle,
                false => bad = middle,
            }
        }
        good
    };
    let most = words(bound(at, 1e9));
    if accepts(0.0) {
        return format!("0 to {most}");
    }
    let least = bound(at, 0.0);
    match accepts(-50.0) {
        true => {
            let lowest = words(bound(-50.0, -1e9));
            let highest = words(bound(-50.0, 0.0));
            format!("above {lowest} and below {highest}, or {} to {most}", words(least))
        }
        false if least < 1e-6 => format!("above 0 to {most}"),
        false => format!("{} to {most}", words(least)),
    }
}

/// With two digits behind the point, if it has any; small numbers with all that they have.
fn words(number: f64) -> String {
    let digits = if number.abs() < 0.01 { 1e6 } else { 100.0 };
    let rounded = (number * digits).round() / digits;
    match rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        true => grouped(rounded as i64).replace("-,", "-"),
        false => rounded.to_string(),
    }
}

/// Lists of whole numbers: how long they may be, and what is in them.
fn list(kind: &Kind, path: &[&str]) -> String {
    let (_, base) = bases(kind, path)[0];
    let accepts = |n: usize, value: i64| {
        let list = vec![Value::Integer(value); n];
        (kind.accepts)(&with(base, path, Value::Array(list)))
    };
    let start = value(base, path).as_array().and_then(|list| list.first()?.as_integer());
    let at = start.unwrap_or(100);
    let bound = 1 << 16;
    let longest = furthest(|n| accepts(n as usize, at), bound);
    let numbers = Numbers::around(&|n| accepts(1, n), at, i64::MAX);
    match longest == bound {
        true => format!("numbers, each {numbers}"),
        false => format!("at most {longest} numbers, each {numbers}"),
    }
}
