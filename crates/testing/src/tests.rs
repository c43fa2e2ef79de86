//! The numbers are those of the crate's invariants.

use super::*;
use std::path::Path;
use std::process::{Command, Output};

const NO_SUCH: Need = Need::Program("no-such-program-anywhere");

/// Not a test of its own: what [`as_a_test`] runs in a process with an environment of its own.
#[test]
#[ignore = "it is started by other tests"]
fn it_needs_what_is_not_there() {
    assert!(left_out(&[NO_SUCH, Need::Program("sh")]));
    assert!(left_out_part("a part", &[NO_SUCH]));
    assert!(left_out(&[NO_SUCH, Need::Program("sh")]), "a second time, which is not told again");
}

fn as_a_test(all: Option<&str>, gathered: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "tests::it_needs_what_is_not_there"]);
    command.env_remove(TESTS).env(LEFT_OUT, gathered).env("CARGO_PKG_NAME", "tantalum-testing");
    if let Some(word) = all {
        command.env(TESTS, word);
    }
    command.output().unwrap()
}

const NAME: &str = "tantalum-testing tantalum_testing tests::it_needs_what_is_not_there";

/// 1 and 2.
#[test]
fn what_is_left_out_is_said_by_name_and_gathered() {
    let gathered = Spot::new("left-out");
    for times in 1..3 {
        let output = as_a_test(None, &gathered);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let line = |what: &str| {
            format!(
                "{NAME}{what}: there is no no-such-program-anywhere. To run it: \
                 scripts/install-mount-tools.\n"
            )
        };
        assert_eq!(said, format!("LEFT OUT {}LEFT OUT {}", line(""), line(" (a part)")));
        let there = std::fs::read_to_string(&gathered).unwrap();
        assert_eq!(there, (line("") + &line(" (a part)")).repeat(times));
    }
}

/// 3.
#[test]
fn where_all_are_wanted_what_is_missing_fails() {
    let gathered = Spot::new("all");
    for (word, why) in [
        ("all", "no-such-program-anywhere. To run it: scripts/install-mount-tools"),
        ("yes", "the only word it may have is `all`"),
    ] {
        let output = as_a_test(Some(word), &gathered);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert!(!gathered.exists());
    }
}

#[test]
fn what_is_there_is_not_missing() {
    assert_eq!(Need::Program("sh").missing(), None);
    assert_eq!(Need::Program("/bin/sh").missing(), None);
    assert!(Need::Program("/bin/no-such").missing().is_some());
    assert!(Need::Program("/bin").missing().is_some(), "a directory is no program");
    assert_eq!(Need::tried("it", &Ok::<_, String>(()), "nothing").missing(), None);
    let missing = Need::tried("it", &Err::<(), _>("broken"), "mend it").missing().unwrap();
    assert_eq!((&*missing.what, &*missing.how), ("it: broken", "mend it"));
    assert_eq!(Need::Kernel(3, 0).missing(), None);
    assert!(Need::Kernel(1 << 20, 0).missing().unwrap().what.starts_with("this is Linux "));
    assert_eq!(Need::Root.missing().is_none(), rustix::process::geteuid().is_root());
}

/// The script that is named installs it.
#[test]
fn scripts_install_what_they_are_named_for() {
    for program in [
        "nbdinfo",
        "nbdcopy",
        "qemu-img",
        "qemu-io",
        "fio",
        "mariadbd",
        "mariadb",
        "mariadb-install-db",
        "setpriv",
        "postgres",
        "initdb",
        "pg_amcheck",
        "psql",
        "mkfs.ext4",
        "e2fsck",
        "mkfs.xfs",
        "xfs_repair",
        "losetup",
        "fallocate",
        "blkdiscard",
        "chromium",
    ] {
        let script = format!("{}/../../{}", env!("CARGO_MANIFEST_DIR"), script_of(program));
        let text = std::fs::read_to_string(&script).unwrap();
        assert!(text.contains(&format!("[{program}]=")), "{script}: {program}");
    }
}

/// 4.
#[test]
fn files_go_away_also_when_a_test_fails() {
    let failed = std::panic::catch_unwind(|| {
        let (scratch, spot) = (Scratch::new(), Spot::new("one"));
        std::fs::write(scratch.path("a"), "a").unwrap();
        std::fs::write(&spot, "b").unwrap();
        std::fs::write(spot.with_extension("control"), "c").unwrap();
        assert!(spot.to_str().unwrap().len() < 100, "{spot:?}");
        let paths = [scratch.dir().to_path_buf(), spot.to_path_buf()];
        std::panic::resume_unwind(Box::new(paths));
    });
    let failed: Result<(), _> = failed;
    let paths = *failed.unwrap_err().downcast::<[std::path::PathBuf; 2]>().unwrap();
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
}

#[test]
fn spots_lie_beside_each_other() {
    let (image, control) = (Spot::new("a.img"), Spot::new("a.img.control"));
    assert_eq!(format!("{}.control", image.display()), control.display().to_string());
    std::fs::write(&control, "").unwrap();
    assert!(!Spot::new("a.img.control").exists(), "nothing is there at first");
}

#[test]
fn spots_of_two_tests_have_the_same_name_and_not_the_same_path() {
    let mine = Spot::new("a.img");
    std::fs::write(&mine, "mine").unwrap();
    let theirs = || {
        let theirs = Spot::new("a.img");
        std::fs::write(&theirs, "theirs").unwrap();
    };
    std::thread::spawn(theirs).join().unwrap();
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
}

#[test]
fn a_scratch_directory_is_where_it_is_wanted() {
    let above = Scratch::new();
    let below = Scratch::below(above.dir());
    assert_eq!(below.dir().parent(), Some(above.dir()));
}
