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
    /// Where it comes from, as the comment says at its end.
    pub source: Option<String>,
}

/// The lines between the braces of the item that begins with this.
fn inside<'a>(source: &'a str, head: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let (_, body) = source.split_once(head).unwrap_or_else(|| panic!("no {head}"));
    body.lines().skip(1).take_while(|line| *line != "}").map(str::trim)
}

/// The name that an attribute of serde gives.
fn renamed(attribute: &str) -> Option<&str> {
    attribute.split_once("rename = \"")?.1.split('"').next()
}

/// The fields of a struct.
pub fn fields(source: &str, name: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let (mut doc, mut own_name, mut is_key) = (String::new(), None, true);
    for line in inside(source, &format!("struct {name} {{")) {
        if let Some(comment) = line.strip_prefix("///") {
            add(&mut doc, comment);
        } else if line.starts_with('#') {
            own_name = own_name.or(renamed(line));
            is_key &= line != "#[serde(skip)]";
        } else if let Some((field, of)) = line.trim_end_matches(',').split_once(": ") {
            let name = own_name.take().unwrap_or(field.trim_start_matches("pub "));
            let doc = plain(&std::mem::take(&mut doc));
            let (doc, source) = match doc.split_once(" *Source*: ") {
                Some((doc, source)) => (doc.trim(), Some(source.trim_end_matches('.').to_string())),
                None => (doc.as_str(), None),
            };
            if std::mem::replace(&mut is_key, true) {
                assert!(!doc.is_empty(), "{name} has no comment");
                let (name, of, doc) = (name.to_string(), of.to_string(), doc.to_string());
                fields.push(Field { name, of, doc, source });
            }
        }
    }
    fields
}

/// The values of an enum, as TOML has them, and what they mean.
pub fn variants(source: &str, name: &str) -> Vec<(String, String)> {
    let head = format!("enum {name} {{");
    let before = source.split(&head).next().unwrap_or_default();
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    let is_lower = attributes.contains("rename_all = \"lowercase\"");
    let mut variants = Vec::new();
    let (mut doc, mut own_name) = (String::new(), None);
    for line in inside(source, &head) {
        if let Some(comment) = line.strip_prefix("///") {
            add(&mut doc, comment);
        } else if line.starts_with('#') {
            own_name = own_name.or(renamed(line));
        } else if line.starts_with(char::is_uppercase) {
            let (name, inner) = line.trim_end_matches(',').split_once('(').unwrap_or((line, ""));
            let name = name.trim_end_matches(',');
            let name = match own_name.take() {
                Some(name) => name.to_string(),
                None if is_lower => name.to_lowercase(),
                None => kebab(name),
            };
            let value = match inner.trim_end_matches(')') {
                "" => name,
                "u64" | "f64" => format!("{{ {name} = NUMBER }}"),
                table => {
                    let keys: Vec<_> = fields(source, table).into_iter().map(|f| f.name).collect();
                    format!("{{ {name} = {{ {} }} }}", keys.join(", "))
                }
            };
            variants.push((value, plain(&std::mem::take(&mut doc))));
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
