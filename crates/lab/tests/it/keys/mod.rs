//! docs/keys.md: every key of experiments, explorations, drives, disks and sampled devices with its
//! unit, default, range and source. The page is made from the code and compared with the committed
//! one.
//!
//! 1. Meanings are the comments of the fields in the code, defaults are what the code fills in.
//! 2. Ranges are found by asking the checks of the code; no number is written down here.
//! 3. Sources of values are the comments in the presets; those of keys, what follows `*Source*:` in the
//!    comment of the field. A key without one fails.
//!
//! To write the page anew: `TANTALUM_WRITE=1 cargo test -p tantalum-lab --test it keys`.

mod drives;
mod experiments;
mod fields;
mod probe;
mod sources;
mod table;

const HEAD: &str = "\
# Keys

This page is made from the code (`crates/lab/tests/it/keys`), which a test compares with it. It has
the keys of the TOML files of [experiments](experiments.md) and of [explorations](crash.md), and
those of designs. `tantalum explain KEY` prints what is here, and `tantalum designs NAME --all`
prints a preset with all of its keys. `tantalum search` reads files of experiments.

The source of a key is that of the mechanism or quantity. DuraSSD, SpartanSSD, Beyond Block I/O,
FlashLogging and FaCE are publications: [designs.md](designs.md) names them. Values of presets have
sources of their own, [below](#where-the-values-of-the-presets-come-from).

A range is what the checks accept while all other keys stay as they are: of a design those of the
preset `durassd`, or of the one that is named; of a file those of a small file with one row. Other
values may make it wider or narrower: an error says which.

";

const OF_DESIGNS: &str = "
A design is the file of `tantalum drive create --design FILE`, and in experiments `[design.NAME]`
and `[drive]`, as in `drive.cache.buffer_kib`.
";

fn page() -> String {
    let mut text = HEAD.to_string();
    text.push_str("## Keys of experiments\n");
    experiments::add_experiments(&mut text);
    text.push_str("\n## Keys of explorations\n");
    experiments::add_explorations(&mut text);
    text.push_str("\n## Keys of designs\n");
    text.push_str(OF_DESIGNS);
    drives::add(&mut text);
    text.push_str("\n## Where the values of the presets come from\n\n");
    drives::add_sources(&mut text);
    text
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads and writes a document")]
fn the_page_of_keys_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
    let page = page();
    if std::env::var_os("TANTALUM_WRITE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(path).expect("the page");
    for (is, must_be) in committed.lines().zip(page.lines()) {
        assert_eq!(is, must_be, "write it anew: see the head of this file");
    }
    assert_eq!(committed.len(), page.len(), "write it anew: see the head of this file");
}
