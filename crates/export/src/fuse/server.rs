//! A file system that is mounted and served.

use super::session::{FileSystem, Session};
use super::{Connection, Directory, End, OneFile};
use crate::nbd::OnCut;
use std::rc::Rc;
use tantalum_device::{BlockDevice, PowerCycle};
use tantalum_rt::{Join, Rt};

/// A connection that is served by tasks of its own.
pub struct Served {
    stop: Box<dyn Fn()>,
    end: Join<End>,
}

impl Served {
    /// Serves this file over this connection.
    pub fn one_file<P: PowerCycle + 'static>(
        rt: &Rt,
        connection: Connection,
        file: &Rc<OneFile<P>>,
        on_cut: OnCut,
    ) -> Served {
        Served::new(rt, connection, file, on_cut)
    }

    /// Serves this directory over this connection.
    pub fn directory<D: BlockDevice + 'static>(
        rt: &Rt,
        connection: Connection,
        directory: &Rc<Directory<D>>,
        on_cut: OnCut,
    ) -> Served {
        Served::new(rt, connection, directory, on_cut)
    }

    fn new<F: FileSystem>(rt: &Rt, connection: Connection, files: &Rc<F>, on_cut: OnCut) -> Served {
        let session = Session::new(rt, connection, files, on_cut);
        let stopper = session.clone();
        let end = rt.spawn_background("requests of the kernel", session.run());
        Served { stop: Box::new(move || stopper.stop()), end }
    }

    /// Whether the session has ended.
    pub fn is_over(&self) -> bool {
        self.end.is_finished()
    }

    /// Waits for the end of the session: when it is unmounted, or fails.
    pub async fn end(self) -> End {
        self.end.await.unwrap_or(End::Stopped)
    }

    /// Ends the session now, even if files are in use. Requests under way are carried out but not
    /// answered.
    pub async fn stop(self) -> End {
        (self.stop)();
        self.end().await
    }
}
