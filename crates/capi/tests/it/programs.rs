//! Programs in C, compiled by the system's compiler, on both libraries. Without a compiler these
//! tests fail: nothing is skipped.

#![allow(clippy::disallowed_methods, reason = "tests start the compiler and what it made")]

use crate::common::{built, cc, crate_dir, run, scratch};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that a program is linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    /// libtantalum.so, found again by its own name.
    Shared,
    /// libtantalum.a.
    Static,
}

/// Compiles the program in `source` (below the crate) and links it.
fn compile(source: &str, linked: Linked, dir: &Path) -> PathBuf {
    let program = dir.join("program");
    let mut cc = cc();
    cc.arg(crate_dir().join(source)).arg("-o").arg(&program);
    match linked {
        Linked::Shared => {
            // As in an installation: the program looks for the name with the ABI version.
            let link = |name: &str, to: &Path| {
                std::os::unix::fs::symlink(to, dir.join(name)).expect("the folder is empty");
            };
            link("libtantalum.so.1", &built().join("libtantalum.so"));
            link("libtantalum.so", Path::new("libtantalum.so.1"));
            cc.arg("-L").arg(dir).arg("-ltantalum").arg(format!("-Wl,-rpath,{}", dir.display()));
            cc.arg("-lpthread");
        }
        Linked::Static => {
            cc.arg(built().join("libtantalum.a")).args(["-lgcc_s", "-lpthread", "-lm", "-ldl"]);
        }
    }
    run(&mut cc);
    program
}

/// Compiles and runs a program on one library; returns its output.
fn on(source: &str, linked: Linked, args: &[&str]) -> String {
    let name = source.rsplit('/').next().unwrap_or(source);
    let dir = scratch(&format!("{name}-{linked:?}-{}", args.join("-")));
    run(Command::new(compile(source, linked, &dir)).args(args))
}

#[test]
fn the_bank_keeps_its_money_on_both_libraries() {
    let shared = on("examples/bank.c", Linked::Shared, &[]);
    let linked = on("examples/bank.c", Linked::Static, &[]);
    assert_eq!(shared, linked, "the same calls, the same seed, the same run");
    assert_eq!(shared.lines().filter(|l| l.starts_with("cut ")).count(), 12);
    assert!(shared.contains("transfers acknowledged, all there"), "{shared}");
    // Transfers were under way at the cuts.
    assert!(!shared.contains(" 0 not at all"), "{shared}");
}

#[test]
fn the_bank_keeps_its_money_without_capacitors() {
    for preset in ["volatile", "baseline"] {
        let printed = on("examples/bank.c", Linked::Shared, &[preset]);
        assert!(printed.contains("transfers acknowledged, all there"), "{printed}");
    }
}

#[test]
fn the_key_value_store_keeps_its_promise_and_a_careless_one_is_caught() {
    let dir = scratch("kv.c");
    let program = compile("examples/kv.c", Linked::Shared, &dir);
    let kv = |args: &[&str]| {
        let Output { status, stdout, stderr } =
            Command::new(&program).args(args).output().expect("it runs");
        let printed = String::from_utf8_lossy(&stdout).into_owned();
        assert!(stderr.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        (status.code(), printed)
    };
    let kept = |args: &[&str]| {
        let (code, printed) = kv(args);
        assert_eq!(code, Some(0), "{args:?}: {printed}");
        assert!(printed.contains("as promised"), "{args:?}: {printed}");
        assert!(!printed.contains(" 0 puts kept"), "{args:?}: {printed}");
    };
    let caught = |args: &[&str]| {
        let (code, printed) = kv(args);
        assert_eq!(code, Some(1), "{args:?}: {printed}");
        assert!(printed.starts_with("broken after cut"), "{args:?}: {printed}");
    };
    for lossy in ["ram", "volatile", "baseline", "shearing", "slc", "tlc-modern", "qlc"] {
        kept(&[lossy]);
        caught(&[lossy, "unflushed"]);
    }
    for protected in ["durassd", "spartan-b"] {
        kept(&[protected]);
        kept(&[protected, "unflushed"]);
    }
    caught(&["ram", "stale"]);
}

#[test]
fn every_function_does_what_the_header_says() {
    for linked in [Linked::Shared, Linked::Static] {
        assert_eq!(on("tests/c/api.c", linked, &[]), "all as documented\n");
    }
}

#[test]
fn the_code_of_the_page_is_compiled_and_runs() {
    assert_eq!(on("tests/c/pages.c", Linked::Shared, &[]), "all as shown\n");
}

#[test]
fn every_function_of_a_log_does_what_the_header_says() {
    for linked in [Linked::Shared, Linked::Static] {
        let files = scratch(&format!("log-{linked:?}"));
        let printed = on("tests/c/log.c", linked, &[files.to_str().expect("it is text")]);
        assert_eq!(printed, "all as documented\n");
    }
}

#[test]
fn a_log_has_what_earlier_runs_of_the_program_committed() {
    let dir = scratch("log.c");
    let program = compile("examples/log.c", Linked::Shared, &dir);
    for found in [0, 100, 100] {
        let printed = run(Command::new(&program).arg(&dir));
        assert_eq!(printed, format!("found {found}\nnow {}\nkept 100\n", found + 200));
    }
}

#[test]
fn every_function_of_a_cache_and_of_a_directory_does_what_the_header_says() {
    for linked in [Linked::Shared, Linked::Static] {
        let files = scratch(&format!("cache-{linked:?}"));
        let printed = on("tests/c/cache.c", linked, &[files.to_str().expect("it is text")]);
        assert_eq!(printed, "all as documented\n");
    }
}

#[test]
fn a_cache_has_what_earlier_runs_of_the_program_counted() {
    let dir = scratch("cache.c");
    let program = compile("examples/cache.c", Linked::Shared, &dir);
    for (found, start) in [(0, "first"), (200, "warm"), (400, "warm")] {
        let printed = run(Command::new(&program).arg(&dir));
        assert_eq!(printed, format!("found {found}\nnow {}\n{start} start\n", found + 200));
    }
}

#[test]
fn threads_share_a_handle_through_power_cuts() {
    for preset in ["durassd", "volatile"] {
        let printed = on("tests/c/threads.c", Linked::Shared, &[preset]);
        assert_eq!(printed, "all threads saw what they should\n");
    }
    on("tests/c/threads.c", Linked::Static, &[]);
}

#[test]
fn an_installation_is_complete_and_found_by_its_pkg_config_file() {
    let prefix = scratch("install");
    let script = crate_dir().join("../../scripts/install-capi");
    let install = |prefix: &str| {
        let mut script = Command::new(&script);
        script.arg(prefix).env("BUILT", built()).env_remove("DESTDIR");
        script
    };
    let refused = install("relative").output().expect("the script can be run");
    assert_eq!(refused.status.code(), Some(2));
    run(&mut install(&prefix.to_string_lossy()));

    // Does what pkg-config does, as far as this file needs it.
    let pc = prefix.join("lib/pkgconfig/tantalum.pc");
    let text = std::fs::read_to_string(pc).expect("the file is installed");
    assert!(!text.contains('@'), "{text}");
    let mut variables: Vec<(String, String)> = Vec::new();
    let expand = |value: &str, variables: &[(String, String)]| {
        let with =
            |v: String, (name, of): &(String, String)| v.replace(&format!("${{{name}}}"), of);
        variables.iter().fold(value.to_string(), with)
    };
    let mut fields = Vec::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(": ") {
            fields.push((name, expand(value, &variables)));
        } else if let Some((name, value)) = line.split_once('=') {
            variables.push((name.to_string(), expand(value, &variables)));
        }
    }
    let field = |name: &str| {
        let found = fields.iter().find(|f| f.0 == name);
        found.unwrap_or_else(|| panic!("no {name} in {text}")).1.clone()
    };
    assert_eq!(field("Version"), env!("CARGO_PKG_VERSION"));

    let bank = crate_dir().join("examples/bank.c");
    let program = prefix.join("bank");
    let mut cc = Command::new("cc");
    cc.arg(&bank).args(field("Cflags").split(' ')).args(field("Libs").split(' '));
    run(cc.arg("-o").arg(&program));
    let shared = run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    let mut cc = Command::new("cc");
    cc.arg(&bank).args(field("Cflags").split(' ')).arg(prefix.join("lib/libtantalum.a"));
    run(cc.args(field("Libs.private").split(' ')).arg("-o").arg(&program));
    assert_eq!(run(&mut Command::new(&program)), shared);
}
