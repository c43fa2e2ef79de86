//! Files that a command reads: what is said of one that is not there, or cannot be read.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The text of a file. `what` it is, and `advice`, how such a file comes to be, are for the error.
///
/// # Errors
/// What cannot be read, where, why, and what to do, in a line.
pub fn text(what: &str, path: &Path, advice: impl Display) -> Result<String, String> {
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    std::fs::read_to_string(path).map_err(|e| unreadable(what, path, &e, advice))
}

/// What to say of a file that cannot be read. The advice is for one that is not there.
pub fn unreadable(what: &str, path: &Path, error: &io::Error, advice: impl Display) -> String {
    let said = format!("cannot read {what} {}", path.display());
    match error.kind() {
        ErrorKind::NotFound => format!("{said}: there is no such file: {advice}"),
        ErrorKind::IsADirectory => format!("{said}: it is a folder: name a file"),
        ErrorKind::NotADirectory => {
            format!("{said}: a part of the path is a file, and no folder: see to the path")
        }
        ErrorKind::PermissionDenied => {
            format!("{said}: you may not read it: see to its permissions")
        }
        ErrorKind::InvalidData => format!("{said}: it is no text: name another file"),
        _ => format!("{said}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_for_what_is_not_there() {
        let said = |kind: ErrorKind| {
            unreadable("the report", Path::new("a.json"), &kind.into(), "write it first")
        };
        let gone = "cannot read the report a.json: there is no such file: write it first";
        assert_eq!(said(ErrorKind::NotFound), gone);
        for other in [ErrorKind::IsADirectory, ErrorKind::PermissionDenied, ErrorKind::Other] {
            let said = said(other);
            assert!(said.starts_with("cannot read the report a.json: "), "{said}");
            assert!(!said.contains("write it first"), "{said}");
        }
    }
}
