//! The committed pictures are those of the committed experiments.

use crate::common::{ends, path};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// All that the program draws is drawn anew. The SVGs are the same bytes. What a PNG was made from
/// has the sum that it had then: a changed experiment, design or plot needs new pictures.
#[test]
fn the_pictures_of_the_documents_are_those_of_their_experiments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs");
    let drawn = path("drawn");
    std::fs::create_dir(&drawn).expect("a folder can be made");
    let mut command = Command::new(root.join("scripts/gallery"));
    command.arg("--drawings").arg(&drawn).arg(env!("CARGO_BIN_EXE_tantalum"));
    ends(&command.output().expect("the script starts"), 0);

    let names = |folder: &Path, end: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(folder).expect("the folder is there");
        let names = files.map(|file| file.expect("it can be read").file_name());
        let names = names.map(|name| name.into_string().expect("its name is text"));
        names.filter(|name| name.ends_with(end)).collect()
    };
    let same = |name: &str| {
        let [committed, anew] = [&docs, &drawn].map(|folder| std::fs::read(folder.join(name)));
        let is_same = committed.expect(name) == anew.expect(name);
        assert!(is_same, "docs/{name} is not what is drawn now: run scripts/gallery, and look");
    };
    assert_eq!(names(&docs, ".svg"), names(&drawn, ".svg"), "each is drawn by scripts/gallery");
    names(&docs, ".svg").iter().for_each(|name| same(name));
    same("pictures.sums");
    let sums = std::fs::read_to_string(docs.join("pictures.sums")).expect("it is text");
    let listed = sums.lines().map(|line| line.split_whitespace().nth(1).expect("a picture"));
    let mut known: BTreeSet<String> = listed.map(str::to_string).collect();
    // Pictures of pages and terminals, which no experiment decides.
    let taken = std::fs::read_to_string(root.join("scripts/screenshots")).expect("it is text");
    let taken = taken.lines().filter_map(|line| line.strip_prefix("shot ")?.split(' ').next());
    known.extend(taken.map(|name| format!("gallery-{name}.png")));
    assert_eq!(names(&docs, ".png"), known, "each PNG is made by a script");
}
