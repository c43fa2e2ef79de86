//! Files whose contents are written before the work whose result they describe.

use super::{FAILED, OK, Sink, error, unwritable};

impl Sink {
    /// Writes the contents beside the file, so that there is room for them.
    ///
    /// # Errors
    /// Why that is not possible, in a line.
    pub fn ready(self, contents: String) -> Result<Ready, String> {
        self.write(&contents).map_err(|e| unwritable(&self.path, &e))?;
        Ok(Ready { sink: self, contents })
    }
}

/// A file whose contents are written beside it. Dropped, it leaves the file as it was.
pub struct Ready {
    sink: Sink,
    contents: String,
}

impl Ready {
    /// Replaces the content of the file; returns the exit code.
    pub fn put(self) -> u8 {
        match self.try_put() {
            Ok(()) => OK,
            Err(why) => error(why, FAILED),
        }
    }

    /// Replaces the content of the file.
    ///
    /// # Errors
    /// Why it could not be, in a line.
    pub fn try_put(self) -> Result<(), String> {
        self.sink.place(&self.contents).map_err(|e| unwritable(&self.sink.path, &e))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.sink.clear(); // It has been renamed, or is not wanted.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Once there was no room for the description of a cache that was made already.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "files of a test")]
    fn what_is_ready_replaces_a_file_or_leaves_it_as_it_was() {
        let folder = std::env::temp_dir().join(format!("tantalum-out-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.toml");
        std::fs::write(&path, "old").expect("written");
        let ready = || Sink::open(&path).and_then(|sink| sink.ready("new".into())).expect("ready");
        let files = || std::fs::read_dir(&folder).expect("a folder").count();
        let text = || std::fs::read_to_string(&path).expect("read");
        let waiting = ready();
        assert_eq!((files(), text()), (2, "old".to_string()));
        drop(waiting);
        assert_eq!((files(), text()), (1, "old".to_string()));
        assert_eq!(ready().try_put(), Ok(()));
        assert_eq!((files(), text()), (1, "new".to_string()));
        // What is no plain file has no room of its own, and gets its contents at the end.
        let full = Sink::open(Path::new("/dev/full")).and_then(|sink| sink.ready("new".into()));
        assert_eq!(full.map(Ready::put), Ok(FAILED));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
