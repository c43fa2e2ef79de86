//! Commands that logs and caches share with drives speak of what they are called on.

use clap::builder::{PathBufValueParser, StyledStr, TypedValueParser};
use clap::{Arg, Command};
use std::path::PathBuf;

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

/// What a description is: no image is served, mounted or asked for below a group that has descriptions.
fn described(path: PathBuf) -> Result<PathBuf, &'static str> {
    match crate::members::is_description(&path) {
        true => Ok(path),
        false => Err("a description has a name that ends with .toml"),
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
                drive.value_name(self.served).help(format!(
                    "The description of a {group} that is served, or its control socket"
                ))
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
