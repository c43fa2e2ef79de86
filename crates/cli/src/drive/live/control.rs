//! The control socket of a running drive.

use super::power::RestoreError;
use super::{Failure, Front, Plug, Trouble, report};
use crate::drive::listen;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_device::{LiveBox, ResizeError, UpkeepError};
use tantalum_export::control::{
    ControlServer, Handler, Kind, Refusal, Request, ResizeReport, ScrubReport, socket_beside,
};
use tantalum_rt::wall::{Io, Listener};

/// The path of the control socket: the given one, or beside the image.
pub struct Place {
    path: PathBuf,
    given: bool,
}

impl Place {
    /// `None`: there is no control socket.
    pub fn of(given: Option<&Path>, image: Option<&Path>) -> Option<Place> {
        match (given, image) {
            (Some(path), _) => Some(Place { path: path.to_owned(), given: true }),
            (None, Some(image)) => Some(Place { path: socket_beside(image), given: false }),
            (None, None) => None,
        }
    }

    /// Listens there. If listening at the default path fails, there is no control socket.
    ///
    /// # Errors
    /// Why it cannot listen at the given path, in a line, and the exit code.
    pub async fn listen(&self, io: &Io) -> Result<Option<Listener>, Failure> {
        match listen::unix(|| io.listen_unix(&self.path), io).await {
            Ok(listener) => Ok(Some(listener)),
            Err(e) => {
                let (why, code) = listen::no_socket(&self.path, &e);
                if self.given {
                    return Err((why, code));
                }
                crate::out::note(format_args!(
                    "note: there is no control socket: {why}; --control PATH puts it elsewhere"
                ));
                Ok(None)
            }
        }
    }
}

/// Answers clients from now on.
pub fn begin<B: LiveBox, F: Front>(
    plug: &Rc<Plug<B, F>>,
    listener: Listener,
) -> Rc<ControlServer<Answers<B, F>>> {
    let server = ControlServer::new(plug.rt(), Answers(plug.clone(), Trouble::new(plug.io())));
    let serve = server.clone().serve(listener);
    plug.rt().spawn_background("clients of the control socket", serve);
    server
}

/// The answers of a box.
pub struct Answers<B: LiveBox, F>(Rc<Plug<B, F>>, Trouble);

impl<B: LiveBox, F: Front> Handler for Answers<B, F> {
    fn trouble(&self, error: &std::io::Error) {
        self.1.tell(format_args!("a client of the control socket could not be accepted: {error}"));
    }

    async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        let plug = &self.0;
        let value = match request {
            Request::Status {} => serde_json::to_value(report::status(plug)),
            Request::Stats {} => serde_json::to_value(report::stats(plug)),
            Request::Cut {} => {
                let pulled = plug.pull();
                serde_json::to_value(plug.told(pulled).await)
            }
            Request::Restore { salvage } => {
                serde_json::to_value(plug.restore(salvage).await.map_err(refusal)?)
            }
            Request::Replace { lost, new, force } => {
                let replaced = plug.replace(Path::new(&lost), Path::new(&new), force).await;
                serde_json::to_value(replaced?)
            }
            Request::Resize { flash_bytes } => {
                let words = plug.resize(flash_bytes).await.map_err(not_resized)?;
                serde_json::to_value(ResizeReport { flash_bytes, words })
            }
            Request::Scrub {} => {
                let found = plug.scrub().await.map_err(|e| not_done(e, Kind::NotScrubbed))?;
                serde_json::to_value(ScrubReport::from(found))
            }
            Request::Detach {} => serde_json::to_value(plug.detach().await?),
        };
        // Cannot fail: there are no keys but strings.
        Ok(value.unwrap_or_default())
    }
}

/// `failed`: the kind if there is a cache.
pub fn not_done(error: UpkeepError, failed: Kind) -> Refusal {
    match error {
        UpkeepError::NoCache(why) => Refusal::new(Kind::NoCache, why),
        UpkeepError::Failed(why) => Refusal::new(failed, why),
    }
}

fn not_resized(error: ResizeError) -> Refusal {
    match error {
        ResizeError::Size(why) => Refusal::new(Kind::Size, why),
        ResizeError::Failed(why) => Refusal::new(Kind::NotResized, why),
    }
}

fn refusal(error: RestoreError) -> Refusal {
    let kind = match error {
        RestoreError::DumpLost(_) => Kind::DumpLost,
        RestoreError::Damaged(_) | RestoreError::Failed(_) => Kind::DoesNotStart,
        RestoreError::CutAgain => Kind::CutAgain,
        RestoreError::FrontBefore(_) | RestoreError::FrontAfter(_) => Kind::Front,
        RestoreError::Stopping => Kind::Stopping,
    };
    Refusal::new(kind, error.to_string())
}
