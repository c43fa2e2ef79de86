//! The process that serves the drive, and its outages.

use super::drives::settings;
use crate::common::ends;
use crate::common::live::{Serving, socket, tantalum};
use std::time::Duration;
use tantalum_export::control::{Client, ClientError, Kind};
use tantalum_rt::Stream;
use tantalum_testing::Spot;

/// The kinds of outages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outage {
    /// The process is killed.
    Kill,
    /// The process is killed, and so are some later ones while they start.
    KillAgain,
    /// The power is cut over the control socket.
    Cut,
    /// The power is cut, and cut again while the drive starts.
    CutAgain,
}

impl Outage {
    /// The kind of this round: kill, cut, and kill during starts, in turn.
    pub fn of(round: u32, dice: &mut Stream) -> Outage {
        match round % 3 {
            0 => Outage::Kill,
            1 if dice.chance(1, 2) => Outage::Cut,
            1 => Outage::CutAgain,
            _ => Outage::KillAgain,
        }
    }
}

/// A drive in an image, with a process that serves it.
pub struct Server {
    image: Spot,
    pub nbd: Spot,
    control: Spot,
    time_scale: u32,
    serving: Option<Serving>,
    /// The number of outages.
    pub outages: u64,
}

impl Server {
    pub fn new(design: &str, time_scale: u32, what: &str) -> Server {
        let name = |end: &str| socket(&format!("{what}-{design}-{time_scale}.{end}"));
        let image = name("img");
        let text = image.to_str().expect("text");
        let mut create = tantalum(&["drive", "create", text, "--design", design]);
        create.args(settings(design).iter().flat_map(|set| ["--set", set]));
        ends(&create.output().expect("it starts"), 0);
        let (nbd, control) = (name("nbd"), name("control"));
        let mut server = Server { image, nbd, control, time_scale, serving: None, outages: 0 };
        server.start();
        server
    }

    fn command(&self) -> std::process::Command {
        let mut command = tantalum(&["drive", "serve"]);
        command.arg(&self.image).args(["--time-scale", &self.time_scale.to_string()]);
        command.arg("--unix").arg(&self.nbd).arg("--control").arg(&self.control);
        command
    }

    fn start(&mut self) {
        let serving = Serving::start(self.command());
        if serving.uri.is_empty() {
            let (code, said) = serving.end();
            panic!("the drive does not start again, with code {code:?}: {said}");
        }
        self.serving = Some(serving);
    }

    fn kill(&mut self) {
        let mut serving = self.serving.take().expect("a server");
        serving.child.kill().expect("it can be killed");
        serving.child.wait().expect("it ends");
        self.outages += 1;
    }

    fn client(&self) -> Client {
        Client::connect(&self.control).expect("a control socket")
    }

    /// Makes an outage.
    pub fn outage(&mut self, outage: Outage) {
        match outage {
            Outage::Kill | Outage::KillAgain => self.kill(),
            Outage::Cut | Outage::CutAgain => {
                self.client().cut().expect("it is cut");
                self.outages += 1;
            }
        }
    }

    /// Restores the power.
    pub fn back(&mut self, outage: Outage, dice: &mut Stream) {
        match outage {
            Outage::Kill => self.start(),
            Outage::KillAgain => {
                for _ in 0..dice.range(1, 4) {
                    let mut child = self.command();
                    let quiet = std::process::Stdio::null;
                    let mut child =
                        child.stdout(quiet()).stderr(quiet()).spawn().expect("it starts");
                    std::thread::sleep(self.some_time(dice));
                    child.kill().expect("it can be killed");
                    child.wait().expect("it ends");
                    self.outages += 1;
                }
                self.start();
            }
            Outage::Cut => drop(self.client().restore(false).expect("it is restored")),
            Outage::CutAgain => {
                for _ in 0..dice.range(1, 4) {
                    self.cut_at_start(self.some_time(dice));
                }
                self.client().restore(false).expect("it is restored");
            }
        }
    }

    /// Restores the power, and cuts it after this time.
    fn cut_at_start(&mut self, after: Duration) {
        let mut client = self.client();
        let restoring = std::thread::spawn(move || client.restore(false));
        std::thread::sleep(after);
        self.client().cut().expect("it is cut");
        match restoring.join().expect("it ends") {
            Ok(_) => {}
            Err(ClientError::Refused(refusal)) if refusal.kind == Kind::CutAgain => {}
            Err(e) => panic!("the power does not come back: {e}"),
        }
        // The cut may have come before the power did.
        self.client().cut().expect("it is cut");
        self.outages += 1;
    }

    /// A start takes some 20 ms, or more on a busy machine; random times hit every part of it.
    fn some_time(&self, dice: &mut Stream) -> Duration {
        let most = 1_000 << dice.below(7);
        Duration::from_micros(dice.range(most / 2, most))
    }

    /// Ends the process in good order, and checks the drive's invariants in the image.
    pub fn end(mut self) {
        let (code, said) = self.serving.take().expect("a server").stop();
        assert_eq!(code, Some(0), "{said}");
        let mut check = tantalum(&["drive", "check"]);
        let (said, _) = ends(&check.arg(&self.image).output().expect("it starts"), 0);
        assert!(said.ends_with("all is well\n"), "{said}");
    }
}
