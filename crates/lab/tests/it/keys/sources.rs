//! What the comments of a preset say about where its values come from.

/// The comment at the head of a preset, in lines of at most 100 columns, as prose.
pub fn about(text: &str) -> String {
    let words = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let words = words.collect::<Vec<_>>().join(" ");
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("a line");
        match line.chars().count() + 1 + word.chars().count() > 100 {
            _ if line.is_empty() => line.push_str(word),
            true => lines.push(word.to_string()),
            false => *line += &format!(" {word}"),
        }
    }
    lines.join("\n")
}

/// Each table and each key with a comment: its name, its value, and the comment.
pub fn sources(text: &str) -> Vec<(String, String, String)> {
    let mut found: Vec<(String, String, String)> = Vec::new();
    let mut table = "";
    // A comment that has a line of its own is about the key below it.
    let mut above = String::new();
    let head = text.lines().take_while(|line| line.starts_with('#')).count();
    for line in text.lines().skip(head).map(str::trim) {
        let (what, comment) = line.split_once('#').unwrap_or((line, ""));
        let (what, comment) = (what.trim(), comment.trim());
        if what.is_empty() {
            if !comment.is_empty() {
                above = format!("{above} {comment}").trim().to_string();
            }
            continue;
        }
        let comment = format!("{above} {comment}").trim().to_string();
        above.clear();
        if let Some(name) = what.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            table = name;
            if !comment.is_empty() {
                found.push((format!("[{name}]"), String::new(), comment));
            }
        } else if let Some((key, value)) = what.split_once('=').filter(|_| !comment.is_empty()) {
            let dot = if table.is_empty() { "" } else { "." };
            found.push((format!("{table}{dot}{}", key.trim()), value.trim().to_string(), comment));
        }
    }
    found
}
