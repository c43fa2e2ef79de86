//! From text to values, with errors on one line: file, line, what is wrong, and the
//! nearest name that would be right.

use serde::de::DeserializeOwned;
use tantalum_drive::nearest_name;

/// What is wrong with a text, and on which line if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Counted from 1.
    pub line: Option<usize>,
    /// In one line.
    pub what: String,
}

/// Reads a value from TOML.
///
/// # Errors
/// [`Wrong`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    toml::from_str(text).map_err(|e| wrong(&e, Some(text)))
}

/// Reads a value from a table.
///
/// # Errors
/// [`Wrong`], without a line.
pub fn read_table<T: DeserializeOwned>(table: toml::Table) -> Result<T, Wrong> {
    table.try_into().map_err(|e| wrong(&e, None))
}

/// An error of the reader, in one line.
pub fn told(of: &str, error: &toml::de::Error) -> String {
    format!("{of}: {}", one_line(error.message()))
}

fn wrong(error: &toml::de::Error, text: Option<&str>) -> Wrong {
    let line = error
        .span()
        .zip(text)
        .map(|(span, text)| 1 + text[..span.start.min(text.len())].matches('\n').count());
    Wrong { line, what: one_line(error.message()) }
}

/// The words of the reader, in one line, with the nearest name instead of all of them.
fn one_line(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    for (kind, told) in [("unknown field ", "unknown key"), ("unknown variant ", "unknown value")] {
        let Some(rest) = message.strip_prefix(kind) else { continue };
        let mut names = rest.split('`').skip(1).step_by(2);
        let Some(name) = names.next() else { continue };
        return unknown(told, name, names);
    }
    message
}

/// "unknown key "cutz"; did you mean "cuts"?", or all there are if none is near.
pub fn unknown<'a>(told: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match nearest_name(name, known.iter().copied()) {
        Some(near) => format!("{told} \"{name}\"; did you mean \"{near}\"?"),
        None => format!("{told} \"{name}\"; known are: {}", known.join(", ")),
    }
}

/// Puts a value at a dotted key of a table, making tables on the way.
///
/// # Errors
/// If a part of the key is empty, or names something that is no table.
pub fn set(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    let (path, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    for part in path.split('.').filter(|_| !path.is_empty()) {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next.as_table_mut().ok_or_else(|| format!("`{part}` in `{key}` is no table"))?;
    }
    if last.is_empty() || path.split('.').any(|p| p.is_empty() && !path.is_empty()) {
        return Err(format!("`{key}` is no key"));
    }
    at.insert(last.to_string(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_named() {
        let known = ["title", "seed", "cuts", "run"];
        let told = |name| unknown("unknown key", name, known.into_iter());
        assert_eq!(told("cutz"), "unknown key \"cutz\"; did you mean \"cuts\"?");
        assert_eq!(told("zzz"), "unknown key \"zzz\"; known are: title, seed, cuts, run");
    }

    #[test]
    fn dotted_keys_go_deep() {
        let mut table: toml::Table = "a = 1\n[b]\nc = 2".parse().unwrap();
        set(&mut table, "b.c", 3.into()).unwrap();
        set(&mut table, "x.y.z", 4.into()).unwrap();
        assert_eq!(table.to_string(), "a = 1\n\n[b]\nc = 3\n\n[x.y]\nz = 4\n");
        assert!(set(&mut table, "a.c", 1.into()).is_err());
        assert!(set(&mut table, "b.", 1.into()).is_err());
        assert!(set(&mut table, "", 1.into()).is_err());
    }
}
