//! Compares the header with the library: functions, constants, structures, names.

#![allow(clippy::disallowed_methods, reason = "tests read the header and start the compiler")]

use crate::common::{built, cc, crate_dir, run, scratch};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;
use std::process::Command;
use tantalum::*;

fn header() -> String {
    std::fs::read_to_string(crate_dir().join("include/tantalum.h")).expect("the header is there")
}

/// The header without comments.
fn code() -> String {
    let text = header();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    out + rest
}

/// Names `tantalum_…` before an opening parenthesis, outside of macros.
fn declared() -> BTreeSet<String> {
    let code = code();
    let lines = code.lines().filter(|l| !l.starts_with('#')).collect::<Vec<_>>().join("\n");
    let before_parenthesis = lines.split('(').map(|part| {
        let name = part.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        name.unwrap_or_default().to_string()
    });
    before_parenthesis.filter(|name| name.starts_with("tantalum_")).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=posix"]).arg(built().join("libtantalum.so"));
    let exported = run(&mut nm);
    let exported: BTreeSet<String> = exported
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !name.starts_with("rust_eh_personality"))
        .map(str::to_string)
        .collect();
    let declared = declared();
    assert!(declared.len() > 30, "{declared:?}");
    assert_eq!(declared, exported);
}

#[test]
fn the_shared_library_is_named_after_the_abi() {
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(built().join("libtantalum.so"));
    let soname = format!("[libtantalum.so.{TANTALUM_ABI_VERSION}]");
    let dynamic = run(&mut readelf);
    assert!(dynamic.lines().any(|l| l.contains("SONAME") && l.contains(&soname)), "{dynamic}");
    assert_eq!(tantalum_abi_version(), TANTALUM_ABI_VERSION);
}

/// Compiles and runs a program that prints `lines` of name and expression; returns its output.
fn evaluate(name: &str, lines: &[(String, String)]) -> BTreeMap<String, i128> {
    let dir = scratch(name);
    let print = |(name, expression): &(String, String)| {
        format!("    printf(\"{name} %lld\\n\", (long long)({expression}));\n")
    };
    let body: String = lines.iter().map(print).collect();
    let source =
        format!("#include <stdio.h>\n#include <tantalum.h>\nint main(void) {{\n{body}}}\n");
    std::fs::write(dir.join("it.c"), source).expect("the folder can be written");
    run(cc().arg(dir.join("it.c")).arg("-o").arg(dir.join("it")));
    let printed = run(&mut Command::new(dir.join("it")));
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    printed.lines().map(|line| pair(line).expect("a name and a number")).collect()
}

macro_rules! constants {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as i128)),*] };
}

#[test]
fn constants_are_those_of_the_library() {
    let ours = constants!(
        TANTALUM_ABI_VERSION,
        TANTALUM_OK,
        TANTALUM_EINVAL,
        TANTALUM_EPOWER,
        TANTALUM_EMEDIUM,
        TANTALUM_EFAILED,
        TANTALUM_EPOISONED,
        TANTALUM_ENOSPC,
        TANTALUM_EREADONLY,
        TANTALUM_ENOTSUP,
        TANTALUM_ETOOLARGE,
        TANTALUM_EOVERLAP,
        TANTALUM_EDESIGN,
        TANTALUM_ENOMEM,
        TANTALUM_EBUSY,
        TANTALUM_ETICKET,
        TANTALUM_EDUMP,
        TANTALUM_EINTERNAL,
        TANTALUM_ELOG,
        TANTALUM_ECACHE,
        TANTALUM_ACK_VOLATILE,
        TANTALUM_ACK_POWER_SAFE,
        TANTALUM_ACK_ON_MEDIA,
        TANTALUM_FUA,
        TANTALUM_TICKETS_MAX,
        TANTALUM_SUBMITTED_BYTES_MAX,
        TANTALUM_SLEEP_MAX_NS,
        TANTALUM_CACHE_AS_BEFORE,
        TANTALUM_CACHE_BACK,
        TANTALUM_CACHE_THROUGH,
        TANTALUM_CACHE_MIXED,
        TANTALUM_CACHE_CLEAN_ONLY,
        TANTALUM_CACHE_DIRTY_ONLY,
        TANTALUM_ENTRY_CURRENT,
        TANTALUM_ENTRY_OLD,
        TANTALUM_ENTRY_REUSED,
        TANTALUM_FATE_DROP,
        TANTALUM_FATE_DESTAGE,
        TANTALUM_FATE_AGAIN,
    );
    let code = code();
    let defined: BTreeSet<&str> = code
        .lines()
        .filter_map(|l| l.strip_prefix("#define ")?.split_once(' '))
        .map(|(name, _)| name)
        .filter(|name| !name.ends_with("_INIT"))
        .collect();
    assert_eq!(defined, ours.iter().map(|c| c.0).collect());
    let lines: Vec<_> = ours.iter().map(|c| (c.0.to_string(), c.0.to_string())).collect();
    let theirs = evaluate("constants", &lines);
    let ours: BTreeMap<String, i128> = ours.iter().map(|c| (c.0.to_string(), c.1)).collect();
    assert_eq!(ours, theirs);
}

macro_rules! layouts {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), size_of::<$name>(), $name::LAYOUT.to_vec())),*]
    };
}

#[test]
fn structures_are_those_of_the_library() {
    let of_command = ["commands", "failed", "bytes", "p50_ns", "p99_ns", "max_ns"];
    let offsets = of_command.iter().enumerate().map(|(i, f)| (*f, 8 * i)).collect();
    let extent = vec![
        ("block", std::mem::offset_of!(tantalum_extent, block)),
        ("data", std::mem::offset_of!(tantalum_extent, data)),
        ("blocks", std::mem::offset_of!(tantalum_extent, blocks)),
    ];
    let mut ours = layouts!(
        tantalum_drive_options,
        tantalum_ram_options,
        tantalum_caps,
        tantalum_power_loss,
        tantalum_recovery,
        tantalum_stats,
        tantalum_log_create_options,
        tantalum_log_options,
        tantalum_log_stats,
        tantalum_log_record,
        tantalum_log_part,
        tantalum_cache_store,
        tantalum_cache_host,
        tantalum_cache_create_options,
        tantalum_cache_options,
        tantalum_cache_found,
        tantalum_cache_scrubbed,
        tantalum_cache_stats,
        tantalum_entry,
        tantalum_batch,
        tantalum_staged,
        tantalum_directory_stats,
    )
    .to_vec();
    ours.push(("tantalum_command_stats", size_of::<tantalum_command_stats>(), offsets));
    let piece = vec![
        ("data", std::mem::offset_of!(tantalum_piece, data)),
        ("bytes", std::mem::offset_of!(tantalum_piece, bytes)),
    ];
    ours.push(("tantalum_piece", size_of::<tantalum_piece>(), piece));
    let page = vec![
        ("page", std::mem::offset_of!(tantalum_cache_page, page)),
        ("data", std::mem::offset_of!(tantalum_cache_page, data)),
        ("dirty", std::mem::offset_of!(tantalum_cache_page, dirty)),
        ("lsn", std::mem::offset_of!(tantalum_cache_page, lsn)),
    ];
    ours.push(("tantalum_cache_page", size_of::<tantalum_cache_page>(), page));
    let version = vec![
        ("page", std::mem::offset_of!(tantalum_page_version, page)),
        ("lsn", std::mem::offset_of!(tantalum_page_version, lsn)),
        ("checksum", std::mem::offset_of!(tantalum_page_version, checksum)),
        ("dirty", std::mem::offset_of!(tantalum_page_version, dirty)),
    ];
    ours.push(("tantalum_page_version", size_of::<tantalum_page_version>(), version));
    ours.push(("tantalum_extent", size_of::<tantalum_extent>(), extent));

    // The numbers of structures and fields are those of the header.
    let code = code();
    assert_eq!(code.matches("typedef struct").count() - 7, ours.len());
    let mut lines = Vec::new();
    let mut expected = BTreeMap::new();
    for (name, size, fields) in &ours {
        let body = code.split_once(&format!("typedef struct {name} {{")).expect(name).1;
        let body = body.split_once('}').expect("a structure ends").0;
        assert_eq!(body.matches(';').count(), fields.len(), "{name}");
        lines.push((name.to_string(), format!("sizeof({name})")));
        expected.insert(name.to_string(), *size as i128);
        for (field, offset) in fields {
            let key = format!("{name}.{field}");
            lines.push((key.clone(), format!("offsetof({name}, {field})")));
            expected.insert(key, *offset as i128);
        }
    }
    assert_eq!(evaluate("structures", &lines), expected);
}

#[test]
fn the_header_is_c99_and_needs_no_other() {
    let dir = scratch("c99");
    // The macros are compiled, too: an initialiser with an extra field is an error.
    let source = "#include <tantalum.h>\n\
        int main(void) {\n\
        tantalum_drive_options a = TANTALUM_DRIVE_OPTIONS_INIT;\n\
        tantalum_ram_options b = TANTALUM_RAM_OPTIONS_INIT;\n\
        tantalum_caps c = TANTALUM_CAPS_INIT;\n\
        tantalum_power_loss d = TANTALUM_POWER_LOSS_INIT;\n\
        tantalum_recovery e = TANTALUM_RECOVERY_INIT;\n\
        tantalum_log_create_options f = TANTALUM_LOG_CREATE_OPTIONS_INIT;\n\
        tantalum_log_options g = TANTALUM_LOG_OPTIONS_INIT;\n\
        tantalum_log_stats h = TANTALUM_LOG_STATS_INIT;\n\
        tantalum_log_record i = TANTALUM_LOG_RECORD_INIT;\n\
        tantalum_cache_store j = TANTALUM_CACHE_STORE_INIT;\n\
        tantalum_cache_host k = TANTALUM_CACHE_HOST_INIT;\n\
        tantalum_cache_create_options l = TANTALUM_CACHE_CREATE_OPTIONS_INIT;\n\
        tantalum_cache_options m = TANTALUM_CACHE_OPTIONS_INIT;\n\
        tantalum_cache_found n = TANTALUM_CACHE_FOUND_INIT;\n\
        tantalum_cache_scrubbed o = TANTALUM_CACHE_SCRUBBED_INIT;\n\
        tantalum_cache_stats p = TANTALUM_CACHE_STATS_INIT;\n\
        tantalum_entry q = TANTALUM_ENTRY_INIT;\n\
        tantalum_batch r = TANTALUM_BATCH_INIT;\n\
        tantalum_staged s = TANTALUM_STAGED_INIT;\n\
        tantalum_directory_stats t = TANTALUM_DIRECTORY_STATS_INIT;\n\
        tantalum_log_part u = TANTALUM_LOG_PART_INIT;\n\
        return !(a.size && b.size && c.size && d.size && e.size && f.size && g.size && h.size\n\
            && i.size && j.size && k.size && l.size && m.size && n.size && o.size && p.size\n\
            && q.size && r.size && s.size && t.size\n\
            && u.size);\n}\n";
    std::fs::write(dir.join("it.c"), source).expect("the folder can be written");
    run(cc().args(["-std=c99", "-c"]).arg(dir.join("it.c")).arg("-o").arg(dir.join("it.o")));
}

#[test]
fn every_function_has_a_comment() {
    // Each function, or block of functions, follows a comment.
    let text = header();
    for name in declared() {
        let at = text.find(&format!("{name}(")).expect("declared");
        let declaration = text[..at].rfind("\n\n").map_or(0, |i| i + 2);
        let block = &text[declaration..at];
        assert!(
            block.starts_with("/*") || name.starts_with("tantalum_submit_"),
            "{name} has no comment:\n{block}"
        );
    }
}
