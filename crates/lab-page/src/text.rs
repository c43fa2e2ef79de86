//! The size of texts in plots, whose font is unknown: their width, and lines that fit.

/// The relative width of letters in headings.
pub(crate) const BOLD: f64 = 1.12;
/// The relative width of letters in a picture's title.
pub(crate) const TITLE: f64 = 1.5;

/// The width of a text of 12 pixels in DejaVu Sans, about the widest of the fonts that may be used.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().map(letter).sum()
}

fn letter(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | 'I' => 3.7,
        ' ' | '.' | ',' | ':' | ';' | '/' => 4.1,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' => 5.0,
        's' | 'z' | '_' | '*' | 'J' | '–' => 6.4,
        'm' | '%' | 'M' | 'W' | '…' => 12.0,
        'w' | '=' | '+' | '<' | '>' | '×' | '✓' | '✗' | '@' => 10.1,
        'A'..='Z' => 9.0,
        c if c.is_ascii() => 7.7,
        _ => 8.0,
    }
}

/// A text in lines of at most this width. Lines end after a space or a slash or, if a word is wider
/// than a line, within the word. An empty text is one empty line.
pub(crate) fn wrap(text: &str, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut taken = 0.0;
    for word in text.split_inclusive([' ', '/']) {
        if taken > 0.0 && taken + width(word.trim_end()) > room {
            lines.push(String::new());
            taken = 0.0;
        }
        for c in word.chars() {
            if taken > 0.0 && taken + letter(c) > room && c != ' ' {
                lines.push(String::new());
                taken = 0.0;
            }
            lines.last_mut().expect("there is one").push(c);
            taken += letter(c);
        }
    }
    lines.iter().map(|l| l.trim_end().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_take_their_room() {
        // Widths in DejaVu Sans, measured by a browser.
        for (text, measured) in [
            ("barriers=true double_write=true page_bytes=16384", 317.9),
            ("queue_depth=32", 103.9),
            ("47388, loses 20307", 118.4),
            ("✗ 24.01 × (12.00–13.00)", 150.0),
            ("delete extra", 72.9),
            ("wal full", 42.8),
            ("flash written: double writes and barriers on / off, 4 KiB", 325.4),
            ("100000", 45.8),
            ("95.42 ms / 155.98 ms", 131.5),
            ("innodb-linkbench/durassd-drain", 190.3),
            ("over_provisioning=28.0", 142.7),
        ] {
            let about = width(text);
            assert!((measured..measured * 1.1).contains(&about), "{text}: {about} of {measured}");
        }
    }

    proptest! {
        /// Only spaces at the ends of lines are lost, and no line is too long.
        #[test]
        fn lines_have_the_whole_text(text in "[a-zé/ ]{0,80}", room in 1.0_f64..200.0) {
            let lines = wrap(&text, room);
            let bare = |s: &str| s.replace(' ', "");
            prop_assert_eq!(bare(&lines.concat()), bare(&text));
            for line in lines {
                prop_assert!(width(&line) <= room || line.chars().count() == 1, "{line}");
            }
        }
    }
}
