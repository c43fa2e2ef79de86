//! Names of files that a command makes.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::PathBuf;

/// Reads the name of a file to make. A name that begins with `-` is more likely an option that was
/// mistyped.
pub fn new_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(no_option)
}

fn no_option(path: PathBuf) -> Result<PathBuf, String> {
    match path.as_os_str().as_encoded_bytes().starts_with(b"-") {
        true => Err(format!(
            "it begins with `-`, as options do; a file of that name is `./{}`",
            path.display()
        )),
        false => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_an_option_is_no_file() {
        for name in ["disk.img", "./-5", "a-b"] {
            assert_eq!(no_option(name.into()), Ok(name.into()));
        }
        for name in ["-5", "-", "--quick"] {
            let why = no_option(name.into()).expect_err("it looks like an option");
            assert!(why.contains(&format!("`./{name}`")), "{why}");
        }
    }
}
