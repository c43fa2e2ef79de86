//! An experiment to start from.

use crate::out;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Short, and commented.
const TEXT: &str = include_str!("init.toml");

/// Writes it to a new file; returns the exit code.
pub fn write(path: &Path) -> u8 {
    let name = path.display();
    let text = TEXT.replace("tantalum run FILE", &format!("tantalum run {name}"));
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let made = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match made {
        Ok(()) => {
            out::note(format_args!("{name} is written; run it with: tantalum run {name}"));
            out::OK
        }
        Err(e) => out::error(format_args!("cannot write {name}: {e}"), out::USAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_lab::file::experiment::Experiment;

    #[test]
    fn it_is_an_experiment() {
        let experiment = Experiment::parse("init.toml", TEXT).expect("it can be read");
        assert_eq!(experiment.rows().expect("it has rows").len(), 6);
        // A question of a line has an answer of a few lines.
        let of_toml = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert!(of_toml.count() <= 15);
    }

    #[test]
    fn the_page_of_it_has_its_text() {
        let page = include_str!("../../../../docs/my-database.md");
        assert!(page.contains(TEXT.replace("tantalum run FILE", "tantalum run mine.toml").trim()));
    }
}
