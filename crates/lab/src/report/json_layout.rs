//! How JSON is laid out: objects on several lines, so that two reports
//! can be compared line by line; lists of numbers and of words on one, so that a
//! curve of two hundred points does not take four hundred lines.

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{Result, Write};

/// The value as JSON, with a line break at its end. The same value gives the same
/// bytes.
///
/// # Errors
/// Those of the value's own `Serialize`.
pub fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Layout::default()))?;
    bytes.push(b'\n');
    // The serializer writes UTF-8 only.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first list (the rows) goes over several lines, the lists in it do not.
#[derive(Default)]
struct Layout {
    pretty: PrettyFormatter<'static>,
    lists: usize,
}

impl Layout {
    fn in_line(&self) -> bool {
        self.lists > 1
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.lists += 1;
        if self.in_line() { out.write_all(b"[") } else { self.pretty.begin_array(out) }
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        let in_line = self.in_line();
        self.lists -= 1;
        if in_line { out.write_all(b"]") } else { self.pretty.end_array(out) }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        match self.in_line() {
            true if first => Ok(()),
            true => out.write_all(b", "),
            false => self.pretty.begin_array_value(out, first),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        if self.in_line() { Ok(()) } else { self.pretty.end_array_value(out) }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.pretty.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.pretty.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.pretty.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.pretty.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.pretty.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn lists_in_rows_take_one_line_and_nothing_is_lost() {
        let value =
            json!({"rows": [{"a": [[0.5, 1], [1.0, 2]], "b": []}, {"a": ["x", "y, z"]}], "c": []});
        let text = to_json(&value).unwrap();
        assert!(text.contains("\"a\": [[0.5, 1], [1.0, 2]]"), "{text}");
        assert!(text.contains("\"a\": [\"x\", \"y, z\"]"), "{text}");
        assert!(text.ends_with("\n}\n") && text.lines().count() > 8, "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
