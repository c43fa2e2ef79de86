//! Commands that logs and caches share with drives speak of what they are called on.

use crate::members::{is_description, no_description};
use clap::builder::{PathBufValueParser, StyledStr, TypedValueParser};
use clap::{Arg, Command};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Of a command: its name, its usage, what it does, and what is behind its options.
pub type Words = (&'static str, &'static str, &'static str, &'static str);

/// A kind of thing that has a description, and the words of its commands.
pub struct Group {
    /// The command that its commands are below: `log`.
    pub name: &'static str,
    /// Its description, as usage lines have it: `LOG.toml`.
    pub description: &'static str,
    /// The same of commands that ask whoever serves it: `LOG.toml|SOCKET`.
    pub served: &'static str,
    pub words: &'static [Words],
    /// What `--salvage` of `serve`, `mount` and `restore` does; `None`: it has none.
    pub salvage: Option<&'static str>,
}

/// Arguments that say which box to run. A description says that itself.
const OF_BOXES: [&str; 8] =
    ["design", "disk", "ram", "file", "buffered", "keep_room", "ram_ack", "capacity"];
/// A volume writes to its devices when it starts.
const OF_DRIVES: &str = "read_only";

/// A description: no image is served or mounted below a group that has descriptions.
pub fn described(path: PathBuf) -> Result<PathBuf, String> {
    match is_description(&path) {
        true => Ok(path),
        false => Err(format!("{}a description has a name that ends with .toml", it_is(&path))),
    }
}

/// A description, or a control socket.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
fn asked(path: PathBuf) -> Result<PathBuf, String> {
    let is_socket = |path: &PathBuf| path.metadata().is_ok_and(|is| is.file_type().is_socket());
    match is_description(&path) || is_socket(&path) {
        true => Ok(path),
        false => Err(format!(
            "{}name the description of what is served, NAME.toml, or its control socket",
            it_is(&path)
        )),
    }
}

/// What is at this path, as far as it is known.
fn it_is(path: &Path) -> String {
    match no_description(path) {
        Some(what) => format!("it is {what}; "),
        None if !path.exists() => "there is no such file; ".to_string(),
        None => String::new(),
    }
}

impl Group {
    /// The command `tantalum` with these words.
    pub fn in_words(&'static self, command: Command) -> Command {
        let said = |group: Command, (name, usage, about, after): Words| {
            group.mut_subcommand(name, |of| {
                let of = of.override_usage(usage).about(about).after_help(after);
                self.arguments_in_words(name, of)
            })
        };
        let all = |group| self.words.iter().copied().fold(group, said);
        command.mut_subcommand(self.name, all)
    }

    /// The help of an argument, which speaks of drives.
    fn help_in_words(&self, argument: Arg) -> Arg {
        let said = |help: &StyledStr| {
            let help =
                help.to_string().replace("`tantalum drive ", &format!("`tantalum {} ", self.name));
            help.replace("the drive", "the volume")
        };
        let (short, long) = (argument.get_help().map(said), argument.get_long_help().map(said));
        let argument = short.into_iter().fold(argument, |argument, help| argument.help(help));
        long.into_iter().fold(argument, |argument, help| argument.long_help(help))
    }

    fn arguments_in_words(&self, verb: &str, of: Command) -> Command {
        let (group, description) = (self.name, self.description);
        let of = of.mut_args(|argument| self.help_in_words(argument));
        if !["serve", "mount"].contains(&verb) {
            let of = of.mut_arg("drive", |drive| {
                let help =
                    format!("The description of a {group} that is served, or its control socket");
                let parser = PathBufValueParser::new().try_map(asked);
                drive.value_name(self.served).help(help).value_parser(parser)
            });
            return if verb == "restore" { self.salvage_in_words(of) } else { of };
        }
        let of = OF_BOXES.iter().fold(of, |of, id| of.mut_arg(id, |argument| argument.hide(true)));
        let of = match verb {
            "serve" => of
                .mut_arg("image", |image| {
                    let parser = PathBufValueParser::new().try_map(described);
                    let help = format!("The description of the {group}");
                    image.value_name(description).help(help).required(true).value_parser(parser)
                })
                .mut_arg(OF_DRIVES, |argument| argument.hide(true)),
            _ => of.mut_arg("places", |places| {
                let help = format!("The description of the {group}, and the mount point");
                places.value_names([description, "DIR"]).num_args(2).help(help)
            }),
        };
        let of = of.mut_arg("control", |control| {
            control.help(format!(
                "The control socket for `tantalum {group} cut`, `restore`, `status`, `stats` and \
                 `top` [default: {description}.control beside the description]"
            ))
        });
        self.salvage_in_words(of)
    }

    fn salvage_in_words(&self, of: Command) -> Command {
        of.mut_arg("salvage", |salvage| match self.salvage {
            Some(help) => salvage.help(help),
            None => salvage.hide(true),
        })
    }
}
