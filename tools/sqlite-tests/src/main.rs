//! SQLite's own test fixture, a Tcl interpreter with SQLite in it, as a guest on a simulated
//! drive: all files of the tests are on the drive, below the file system under test.
//!
//! `SQLITE_TESTS_DEVICE` says what is tested: a preset (`durassd`, `volatile`, ...); `unix`,
//! SQLite's own file system; or `unix:BITS`, the same that claims these device characteristics
//! (a number as SQLite has it). With `SQLITE_TESTS_GROUPS=0` no atomic groups are used.
//!
//! The whole fixture is one guest. What it waits for passes in virtual time.

use libsqlite3_sys as _;
use std::cell::Cell;
use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use tantalum_device::{Payload, PowerCycle};
use tantalum_drive::{Design, Drive, DriveLink};
use tantalum_files::{Files, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Rt, Runtime};
use tantalum_sqlite::{Mount, Options, Sqlite, Temporaries};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of stack: the tests let SQLite and Tcl recurse deeply.
const STACK: usize = 64 << 20;

/// The drive: a preset with less flash, all planes stay (8 GiB).
const OVERRIDES: &str = "[geometry]\nblocks = 64\npages = 64\n";

type Each = unsafe extern "C" fn(arg: *mut c_void, name: *const c_char);

#[repr(C)]
struct FixtureFiles {
    list: extern "C" fn(arg: *mut c_void, each: Each),
    rename: extern "C" fn(from: *const c_char, to: *const c_char) -> c_int,
}

unsafe extern "C" {
    fn fixture_main(
        files: *const FixtureFiles,
        iocap: c_int,
        argc: c_int,
        argv: *mut *mut c_char,
    ) -> c_int;
}

/// What the fixture's calls need. It lives as long as the fixture runs.
struct Below<'a> {
    sqlite: &'a Sqlite,
    files: Files<DriveLink>,
}

thread_local! {
    static BELOW: Cell<*const Below<'static>> = const { Cell::new(std::ptr::null()) };
}

fn below<T>(f: impl FnOnce(&Below<'_>) -> T) -> T {
    // SAFETY: `run` sets the pointer for as long as the fixture, the only caller, runs.
    f(unsafe { &*BELOW.get() })
}

extern "C" fn list(arg: *mut c_void, each: Each) {
    let names = below(|b| b.files.list());
    for entry in names {
        if let Ok(name) = CString::new(entry.name) {
            // SAFETY: the fixture's own function and argument, and a string that ends with NUL.
            unsafe { each(arg, name.as_ptr()) };
        }
    }
}

extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the fixture gives strings that end with NUL.
    let (from, to) = unsafe { (CStr::from_ptr(from).to_owned(), CStr::from_ptr(to).to_owned()) };
    let done = below(|b| {
        let files = b.files.clone();
        b.sqlite.wait(async move {
            files.rename(from.to_bytes(), to.to_bytes(), Promise::Completed).await
        })
    });
    c_int::from(!matches!(done, Ok(Ok(()))))
}

/// Runs the fixture to its end; its exit code.
fn run(files: Option<&FixtureFiles>, iocap: c_int) -> c_int {
    let args: Vec<CString> =
        env::args_os().filter_map(|arg| CString::new(arg.into_vec()).ok()).collect();
    let mut argv: Vec<*mut c_char> = args.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    let files = files.map_or(std::ptr::null(), std::ptr::from_ref);
    let count = c_int::try_from(args.len()).expect("arguments are few");
    // SAFETY: arguments as `main` of C has them, that live until it returns.
    unsafe { fixture_main(files, iocap, count, argv.as_mut_ptr()) }
}

async fn on_drive(rt: Rt, design: Design) -> c_int {
    let drive = Drive::new(&rt, &design, Payload::Bytes).expect("the design can be built");
    drive.power_on().await.expect("a blank drive starts");
    let format = FormatOptions { directory_bytes: 256 << 10, ..FormatOptions::default() };
    let link = drive.device();
    Files::format(&rt, &link, &format).await.expect("the drive can be formatted");
    let files = Files::mount(&rt, link, &MountOptions::default()).await.expect("it was formatted");
    let options = Options {
        batch_atomic: env::var("SQLITE_TESTS_GROUPS").map_or(true, |v| v != "0"),
        temporaries: Temporaries::Files,
        stack: STACK,
        ..Options::default()
    };
    let mount = Mount::new(&rt, files.clone(), options);
    let guest = mount.guest("fixture", move |sqlite| {
        let below = Below { sqlite, files };
        BELOW.set(std::ptr::from_ref(&below).cast());
        let code = run(Some(&FixtureFiles { list, rename }), -1);
        BELOW.set(std::ptr::null());
        code
    });
    guest.await
}

fn main() {
    let device = env::var("SQLITE_TESTS_DEVICE").unwrap_or_else(|_| "durassd".into());
    let code = match device.split_once(':') {
        None if device == "unix" => run(None, -1),
        Some(("unix", bits)) => run(None, bits.parse().expect("SQLITE_TESTS_DEVICE=unix:NUMBER")),
        _ => {
            let overrides: toml::Table = toml::from_str(OVERRIDES).expect("it is TOML");
            let design = Design::preset(&device)
                .and_then(|design| design.with_overrides(&overrides))
                .unwrap_or_else(|e| panic!("SQLITE_TESTS_DEVICE: {e}"));
            let mut runtime = Runtime::virtual_time(1);
            let rt = runtime.handle();
            runtime.block_on(on_drive(rt, design)).expect("the fixture waits for what comes")
        }
    };
    std::process::exit(code);
}
