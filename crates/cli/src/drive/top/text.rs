//! Text in lines of a width.

/// A text is wrapped over at most so many lines.
const LINES_MOST: usize = 4;

/// The text in lines of this width, broken between words; a longer word is broken.
pub fn wrapped(text: &str, width: u16) -> Vec<String> {
    let all = width.max(1);
    let width = usize::from(all);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        } else if used > 0 {
            line.push(' ');
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    if lines.len() > LINES_MOST {
        lines.truncate(LINES_MOST);
        if let Some(last) = lines.last_mut() {
            *last = more(last, all);
        }
    }
    lines
}

/// The beginning of a text that fits; `…` stands for the rest.
pub fn cut(text: &str, width: u16) -> String {
    match text.chars().count() > usize::from(width) {
        true => more(text, width),
        false => text.to_string(),
    }
}

/// A line of a text that goes on: it ends with `…`.
pub fn more(line: &str, width: u16) -> String {
    let width = usize::from(width);
    line.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect()
}
