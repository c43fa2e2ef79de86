//! From text to values, with errors on one line: file, line, what is wrong, and the
//! nearest name that would be right.

use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a text, and on which line if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Counted from 1.
    pub line: Option<usize>,
    /// In one line.
    pub what: String,
}

/// An invalid value: which, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key's parts, from the file's root; the place in a list is a number. Empty if it is
    /// of no key.
    pub key: Vec<String>,
    /// In one line.
    pub what: String,
}

impl Fault {
    /// At this key.
    pub fn at<K: AsRef<str>>(key: &[K], what: impl Into<String>) -> Fault {
        let key = key.iter().map(|part| part.as_ref().to_string()).collect();
        Fault { key, what: what.into() }
    }

    /// The same at another key.
    #[must_use]
    pub fn moved(self, key: &[&str]) -> Fault {
        Fault::at(key, self.what)
    }

    /// The same below these parts of a key.
    #[must_use]
    pub fn below(mut self, parts: &[&str]) -> Fault {
        self.key.splice(0..0, parts.iter().map(ToString::to_string));
        self
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault { key: Vec::new(), what }
    }
}

/// The line, counted from 1, on which a text has this key, or as much of it as there is.
pub fn line_of(text: &str, key: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut start = None;
    let mut at: Option<&DeValue<'_>> = None;
    for part in key {
        let found = match at {
            None => document.get_ref().get_key_value(part.as_str()),
            Some(DeValue::Table(table)) => table.get_key_value(part.as_str()),
            Some(DeValue::Array(list)) => {
                let Some(one) = part.parse().ok().and_then(|i: usize| list.get(i)) else { break };
                start = Some(one.span().start);
                at = Some(one.get_ref());
                continue;
            }
            Some(_) => None,
        };
        let Some((name, value)) = found else { break };
        start = Some(name.span().start);
        at = Some(value.get_ref());
    }
    start.map(|start| line(text, start))
}

/// The key, name or value, that is at this byte of a text; empty if there is none.
fn key_at(text: &str, byte: usize) -> Vec<String> {
    fn in_table(table: &DeTable<'_>, byte: usize, key: &mut Vec<String>) -> bool {
        table.iter().any(|(name, value)| {
            key.push(name.get_ref().to_string());
            let found = name.span().contains(&byte) || in_value(value, byte, key);
            found || key.pop().is_none()
        })
    }
    fn in_value(value: &Spanned<DeValue<'_>>, byte: usize, key: &mut Vec<String>) -> bool {
        let is_below = match value.get_ref() {
            DeValue::Table(table) => in_table(table, byte, key),
            DeValue::Array(list) => list.iter().enumerate().any(|(i, one)| {
                key.push(i.to_string());
                in_value(one, byte, key) || key.pop().is_none()
            }),
            _ => false,
        };
        is_below || value.span().contains(&byte)
    }
    let mut key = Vec::new();
    if let Ok(document) = DeTable::parse(text) {
        in_table(document.get_ref(), byte, &mut key);
    }
    key
}

/// The key whose value is this part of a text; empty for the whole text.
fn value_at(text: &str, part: &Range<usize>) -> Vec<String> {
    fn is_in(value: &Spanned<DeValue<'_>>, part: &Range<usize>, key: &mut Vec<String>) -> bool {
        let mut below = |name: String, value: &Spanned<DeValue<'_>>| {
            key.push(name);
            is_in(value, part, key) || key.pop().is_none()
        };
        value.span() == *part
            || match value.get_ref() {
                DeValue::Table(table) => {
                    table.iter().any(|(name, value)| below(name.get_ref().to_string(), value))
                }
                DeValue::Array(list) => {
                    list.iter().enumerate().any(|(i, one)| below(i.to_string(), one))
                }
                _ => false,
            }
    }
    let mut key = Vec::new();
    if let Ok(document) = DeTable::parse(text) {
        document.get_ref().iter().any(|(name, value)| {
            key.push(name.get_ref().to_string());
            is_in(value, part, &mut key) || key.pop().is_none()
        });
    }
    key
}

fn line(text: &str, byte: usize) -> usize {
    1 + text.as_bytes()[..byte.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// Reads a value from TOML.
///
/// # Errors
/// [`Wrong`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Wrong> {
    read_lines(text).map_err(|(line, fault)| Wrong { line, what: fault.what })
}

/// The same; what is wrong has its key, too.
pub(crate) fn read_lines<T: DeserializeOwned>(text: &str) -> Result<T, (Option<usize>, Fault)> {
    toml::from_str(text).map_err(|e: toml::de::Error| {
        (e.span().map(|span| line(text, span.start)), fault(&e, text))
    })
}

/// Reads a value from a table; what is wrong has its key.
///
/// # Errors
/// [`Fault`], with the key as it is in the table.
pub fn read_keys<T: DeserializeOwned>(table: &toml::Table) -> Result<T, Fault> {
    let text = table.to_string();
    toml::from_str(&text).map_err(|e| fault(&e, &text))
}

/// An error of the reader: its key, which the words name too.
fn fault(error: &toml::de::Error, text: &str) -> Fault {
    let what = one_line(error.message());
    if what == "duplicate key" {
        // Such a text has no keys that could be asked for.
        let name = error.span().and_then(|span| text.get(span)).unwrap_or_default();
        let name = name.trim_matches(['"', '\'']);
        return Fault::from(format!("{what} \"{name}\""));
    }
    if let Some(missing) = what.strip_prefix("missing field ") {
        let mut key = error.span().map_or(Vec::new(), |span| value_at(text, &span));
        key.push(missing.trim_matches('`').to_string());
        return Fault { what: format!("the key \"{}\" is missing", key.join(".")), key };
    }
    let key = error.span().map_or(Vec::new(), |span| key_at(text, span.start));
    match key.last() {
        Some(last) if !what.contains(&format!("\"{last}\"")) => {
            Fault { what: format!("{}: {what}", key.join(".")), key }
        }
        // It names the key, and not the tables that have it.
        Some(_) if key.len() > 1 => {
            Fault { what: format!("{}: {what}", key[..key.len() - 1].join(".")), key }
        }
        Some(_) => Fault { key, what },
        // What is no TOML has no keys, but a line may begin with one.
        None => match error.span().and_then(|span| name_on_line(text, span.start)) {
            Some(name) => Fault::from(format!("{name}: {what}")),
            None => Fault { key, what },
        },
    }
}

/// What stands before the `=` on the line of this byte, if that looks like a key.
fn name_on_line(text: &str, byte: usize) -> Option<&str> {
    let before = text.get(..byte)?;
    let begin = before.rfind('\n').map_or(0, |at| at + 1);
    let name = text[begin..].lines().next()?.split_once('=')?.0.trim();
    let is_of_keys = |c: char| c.is_alphanumeric() || "_-.\"' ".contains(c);
    (!name.is_empty() && name.chars().all(is_of_keys)).then_some(name)
}

/// An error of the reader, in one line.
pub fn told(of: &str, error: &toml::de::Error) -> String {
    format!("{of}: {}", one_line(error.message()))
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
    // A value of a kind that no name of a choice has.
    if message == "wanted string or table" {
        return "invalid type, expected text in quotes".to_string();
    }
    match message.rsplit_once(", expected ") {
        Some((found, kind)) => format!("{}, expected {}", given(found), plain(kind)),
        None => message,
    }
}

/// What was found, without the reader's names of kinds: `invalid type: text "a"`.
fn given(found: &str) -> String {
    let Some((wrong, value)) = found.split_once(": ") else { return found.to_string() };
    let kinds = [
        ("string \"", "text \""),
        ("integer `", "whole number `"),
        ("floating point `", "number `"),
        ("boolean `", "`"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let kind = kinds.into_iter().find_map(|(from, to)| Some((to, value.strip_prefix(from)?)));
    kind.map_or(found.to_string(), |(to, rest)| format!("{wrong}: {to}{rest}"))
}

/// What the reader expects, without the names of Rust's types.
fn plain(kind: &str) -> &str {
    match kind {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "i64" | "i32" => "a whole number",
        "f64" | "f32" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// "unknown key "cutz"; did you mean "cuts"?", or all there are if none is near.
pub fn unknown<'a>(told: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match nearest_name(name, known.iter().copied()) {
        Some(near) => format!("{told} \"{name}\"; did you mean \"{near}\"?"),
        None => format!("{told} \"{name}\"; known are: {}", known.join(", ")),
    }
}

/// The name nearest to a misspelt one, if any is near at all: for messages. A name is near if at most
/// half of the letters differ, or one of the two begins with the other.
pub fn nearest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_near = |k: &str| {
        let letters = name.chars().count().max(k.chars().count());
        let begins =
            !name.is_empty() && !k.is_empty() && (k.starts_with(name) || name.starts_with(k));
        begins || 2 * strsim::damerau_levenshtein(name, k) <= letters
    };
    let near = known.filter(|k| is_near(k)).map(|k| (strsim::jaro_winkler(name, k), k));
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
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
        let near = |name, known: &'static [&str]| nearest_name(name, known.iter().copied());
        assert_eq!(near("dursasd", &["volatile", "durassd"]), Some("durassd"));
        assert_eq!(near("mein", &["mine", "other"]), Some("mine"));
        assert_eq!(near("page_size", &["blocks", "page_bytes"]), Some("page_bytes"));
        assert_eq!(near("seeds", &["seed", "sees"]), Some("seed"));
        assert_eq!(near("link", &["linkbench", "tpcc"]), Some("linkbench"));
        assert_eq!(near("nosuch", &["noise", "host_ops"]), None, "they look alike only at first");
        assert_eq!(near("", &["seed", "cuts"]), None);
        assert_eq!(near("sed", &[]), None);
    }

    #[test]
    fn a_key_has_a_line() {
        let text = "a = 1\n[b]\nc = { d = 2 }\n[[row]]\nx = 1\n[[row]]\nx = 1\ny.'z.z' = 2\n";
        let line =
            |key: &[&str]| line_of(text, &key.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(line(&["a"]), Some(1));
        assert_eq!(line(&["b", "c", "d"]), Some(3));
        assert_eq!(line(&["b", "e"]), Some(2), "the table that would have it");
        assert_eq!(line(&["row", "1", "x"]), Some(7));
        assert_eq!(line(&["row", "1", "y", "z.z"]), Some(8));
        assert_eq!(line(&["none", "x"]), None);
    }

    #[test]
    fn what_is_wrong_in_a_table_has_its_key() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only read")]
        struct Inner {
            cuts: u64,
        }
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only read")]
        struct Outer {
            x: u64,
            one: Inner,
            list: Vec<Inner>,
        }
        let sound = "x = 1\n[one]\ncuts = 1\n[[list]]\ncuts = 2\n[[list]]\ncuts = 3";
        for (from, to, key, what) in [
            ("x = 1", "x = 1\ny = 2", "y", "unknown key \"y\""),
            ("x = 1", "x = \"a\"", "x", "x: invalid type: text \"a\", expected a whole number"),
            ("x = 1", "x = 1.5", "x", "x: invalid type: number `1.5`, expected a whole number"),
            ("x = 1", "x = [1]", "x", "x: invalid type: a list, expected a whole number"),
            ("x = 1", "x = true", "x", "x: invalid type: `true`, expected a whole number"),
            (
                "cuts = 1",
                "cutz = 1",
                "one.cutz",
                "one: unknown key \"cutz\"; did you mean \"cuts\"?",
            ),
            (
                "[one]\ncuts = 1",
                "one = 1",
                "one",
                "one: invalid type: whole number `1`, expected a table",
            ),
            ("cuts = 3", "cuts = -3", "list.1.cuts", "list.1.cuts: invalid value"),
            ("x = 1", "x = -1", "x", "`-1`, expected a whole number of at least 0"),
            ("x = 1", "", "x", "the key \"x\" is missing"),
            ("cuts = 1", "", "one.cuts", "the key \"one.cuts\" is missing"),
            ("cuts = 3", "", "list.1.cuts", "the key \"list.1.cuts\" is missing"),
            ("cuts = 3", "cut = 3", "list.1.cut", "did you mean \"cuts\"?"),
        ] {
            let table = sound.replace(from, to).parse().unwrap();
            let fault = read_keys::<Outer>(&table).unwrap_err();
            assert_eq!(fault.key.join("."), key, "{}", fault.what);
            assert!(fault.what.contains(what), "{}", fault.what);
        }
        assert!(read_keys::<Outer>(&sound.parse().unwrap()).is_ok());
    }

    /// Once only the line was told.
    #[test]
    fn a_duplicate_key_is_named() {
        for (text, line, name) in [
            ("a = 1\nb = 2\na = 3\n", 3, "a"),
            ("[a]\nb = 1\n[c]\n[a]\n", 4, "a"),
            ("[a]\n'b c' = 1\n\n\"b c\" = 2\n", 4, "b c"),
            ("a = { b = 1, b = 2 }\n", 1, "b"),
        ] {
            let wrong = read::<toml::Table>(text).unwrap_err();
            let what = format!("duplicate key \"{name}\"");
            assert_eq!(wrong, Wrong { line: Some(line), what });
        }
    }

    #[test]
    fn what_is_no_toml_has_the_key_of_its_line() {
        for (text, line, begins) in [
            ("a = 1\nb =\nc = 2\n", 2, "b: "),
            ("a = 1\nb.c = x\n", 2, "b.c: "),
            ("a = 1\n = 2\n", 2, ""),
            ("a = 1\nno key\n", 2, ""),
        ] {
            let wrong = read::<toml::Table>(text).unwrap_err();
            assert_eq!(wrong.line, Some(line), "{}", wrong.what);
            assert!(wrong.what.starts_with(begins), "{}", wrong.what);
        }
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
