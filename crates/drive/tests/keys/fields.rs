//! The fields of a type and the comments above them, from the text of its source.

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name, which is the key.
    pub name: String,
    /// The name of its type.
    pub of: String,
    /// Its comment, in one line.
    pub doc: String,
}

/// The lines between the braces of the item that begins with this.
fn inside<'a>(source: &'a str, head: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let (_, body) = source.split_once(head).unwrap_or_else(|| panic!("no {head}"));
    body.lines().skip(1).take_while(|line| *line != "}").map(str::trim)
}

/// The fields of a struct.
pub fn fields(source: &str, name: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut doc = String::new();
    for line in inside(source, &format!("pub struct {name} {{")) {
        if let Some(comment) = line.strip_prefix("///") {
            add(&mut doc, comment);
        } else if let Some(field) = line.strip_prefix("pub ") {
            let (name, of) = field.trim_end_matches(',').split_once(": ").expect("a field");
            assert!(!doc.is_empty(), "{name} has no comment");
            let doc = std::mem::take(&mut doc);
            fields.push(Field { name: name.to_string(), of: of.to_string(), doc: plain(&doc) });
        }
    }
    fields
}

/// The values of an enum, as TOML has them, and what they mean.
pub fn variants(source: &str, name: &str) -> Vec<(String, String)> {
    let mut variants = Vec::new();
    let mut doc = String::new();
    for line in inside(source, &format!("pub enum {name} {{")) {
        if let Some(comment) = line.strip_prefix("///") {
            add(&mut doc, comment);
        } else if line.starts_with(char::is_uppercase) {
            variants.push((kebab(line.trim_end_matches(',')), plain(&std::mem::take(&mut doc))));
        }
    }
    variants
}

fn add(doc: &mut String, comment: &str) {
    doc.push(' ');
    doc.push_str(comment.trim());
}

/// Without links into the code.
fn plain(doc: &str) -> String {
    let doc = doc.trim();
    let mut text = String::new();
    let mut rest = doc;
    while let Some((before, link)) = rest.split_once(" ([`") {
        let Some((_, after)) = link.split_once("`])") else { break };
        text.push_str(before);
        rest = after;
    }
    text + rest
}

/// `CostBenefit`: "cost-benefit".
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
