//! `tantalum drive mount` by a user who is not root, through fusermount3. A binary of its own: its
//! mount namespace has copies of all mounts, and keeps them in use.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

use std::process::{Command, Stdio};
use tantalum_testing::{Need, Scratch, left_out};

/// In a mount namespace of its own, where everybody may open /dev/fuse as on most systems, a user who
/// owns nothing mounts a drive, writes, has its power cut and restored, reads, and unmounts it.
const SCRIPT: &str = r#"set -euo pipefail
cd "$1"; program=$2; shift 2
chown 65534:65534 .; chmod 700 .
mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
file=m/drive; [ "$#" -eq 0 ] || file=m/own
$nobody "$program" --quiet drive create disk.img --capacity 1GiB >made
$nobody "$program" --quiet drive mount disk.img m --time-scale 0 "$@" >mounted &
until grep -q ready mounted; do sleep 0.1; done
grep " $PWD/m " /proc/self/mountinfo
head -c 12288 /dev/urandom >content; chmod 644 content
$nobody dd if=content of=$file bs=4096 conv=notrunc,fsync status=none
$nobody "$program" drive cut disk.img >cut
$nobody "$program" drive restore disk.img >restored
$nobody dd if=$file bs=4096 count=3 status=none | cmp - content
kill -TERM $!
wait $!
if grep " $PWD/m " /proc/self/mountinfo; then exit 9; fi
[ ! -e m ]
echo all is well
"#;

#[test]
fn a_user_mounts_a_drive_and_unmounts_it() {
    let needs = [Need::Root, Need::Mounts, Need::Fuse];
    let programs = ["setpriv", "fusermount3", "mknod"].map(Need::Program);
    if left_out(&[&needs[..], &programs].concat()) {
        return;
    }
    for more in [&[][..], &["--files"]] {
        let place = Scratch::new();
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", SCRIPT, "bash"]).arg(place.dir());
        command.arg(env!("CARGO_BIN_EXE_tantalum")).args(more).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.ends_with("all is well\n"), "{out}\n{err}");
        for part in [" fuse.tantalum ", "tantalum:", "nosuid", "nodev", "user_id=65534"] {
            assert!(out.contains(part), "{part} is not in\n{out}");
        }
    }
}

/// The same user, where only root may open /dev/fuse, and where there is no helper.
const REFUSED: &str = r#"set -euo pipefail
cd "$1"; program=$2
chown 65534:65534 .; chmod 700 .
mknod fuse c 10 229; chmod 600 fuse; mount --bind fuse /dev/fuse
nobody="setpriv --reuid 65534 --regid 65534 --clear-groups"
$nobody "$program" --quiet drive create disk.img --capacity 1GiB >made
code=0; $nobody "$program" drive mount disk.img m 2>refused || code=$?
[ "$code" -eq 1 ]; cat refused
chmod 666 fuse
setpriv=$(command -v setpriv); mkdir bin
code=0; PATH=$PWD/bin $setpriv --reuid 65534 --regid 65534 --clear-groups \
    "$program" drive mount disk.img m 2>missing || code=$?
[ "$code" -eq 1 ]; cat missing
[ ! -e m ]
"#;

#[test]
fn a_user_who_cannot_mount_is_told_what_is_missing() {
    let needs = [Need::Root, Need::Mounts, Need::Fuse];
    let programs = ["setpriv", "mknod"].map(Need::Program);
    if left_out(&[&needs[..], &programs].concat()) {
        return;
    }
    let place = Scratch::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", REFUSED, "bash"]).arg(place.dir());
    command.arg(env!("CARGO_BIN_EXE_tantalum")).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for part in ["/dev/fuse: Permission denied", "chmod 666 /dev/fuse", "apt-get install fuse3"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}
