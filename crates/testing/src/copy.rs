use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// In the new mount namespace what other tests have mounted is let go, so that they can unmount it.
const KEEP_ONE: &str = r#"
awk -v keep="$0" '/ - [^ ]+ (\/dev\/loop|tantalum:)/ && $5 != keep { print $5 }' /proc/self/mountinfo |
  tac | xargs -r umount -l
echo begun
exec sleep 1000"#;

/// A process with a mount namespace of its own, in which a copy of one mount stays whatever becomes
/// of the mount. Killed when dropped. Takes root and unshare(1).
pub struct CopyOfMount(Child);

impl CopyOfMount {
    /// Of the mount at `dir`; the copy is there when this returns.
    ///
    /// # Panics
    /// If the process cannot be started.
    pub fn of(dir: &Path) -> CopyOfMount {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", KEEP_ONE]).arg(dir);
        let mut child = unshare.stdout(Stdio::piped()).spawn().expect("unshare starts");
        let out = child.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut String::new()).expect("it has begun");
        CopyOfMount(child)
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for CopyOfMount {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
