//! Lines of requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol. A server refuses requests of any other version.
pub const VERSION: u64 = 1;

/// A request. Each command has fields, even if there are none: serde would accept any field for a
/// variant without a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Asks for the state: a [`StatusReport`](super::StatusReport).
    Status {},
    /// Asks for the counters: a [`StatsReport`](super::StatsReport).
    Stats {},
    /// Cuts the power: a [`CutReport`](super::CutReport).
    Cut {},
    /// Restores the power: a [`RestoreReport`](super::RestoreReport).
    Restore {
        /// Start even if the expected dump is not complete.
        #[serde(default)]
        salvage: bool,
    },
    /// Gives the cache of a cache volume another size: a [`ResizeReport`](super::ResizeReport).
    Resize {
        /// Bytes of the flash device that it has then.
        flash_bytes: u64,
    },
    /// Compares every page of the cache of a cache volume with its checksum: a
    /// [`ScrubReport`](super::ScrubReport).
    Scrub {},
    /// Brings everything to the slow device of a cache volume while clients go on, ends these and the
    /// process, and gives up the flash device: a [`DetachReport`](super::DetachReport).
    Detach {},
    /// Puts another device in the place of one that is lost to the log of a log volume: a
    /// [`ReplaceReport`](super::ReplaceReport).
    Replace {
        /// The lost device, as the description of the log names it: a whole path.
        lost: String,
        /// The new one.
        new: String,
        /// Destroy what the new one holds.
        #[serde(default)]
        force: bool,
    },
}

/// Why a request is refused, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The line is not a valid request.
    NotARequest,
    /// The line is too long. The connection ends.
    TooLong,
    /// The request has another version of the protocol.
    Version,
    /// There are too many clients. The connection ends.
    TooManyClients,
    /// The drive does not start, since the expected dump is not complete. A restore with `salvage`
    /// helps.
    DumpLost,
    /// The drive does not start for another reason.
    DoesNotStart,
    /// The power was cut again meanwhile.
    CutAgain,
    /// A layer in front of the drive, such as its file system, does not start.
    Front,
    /// The process is about to end.
    Stopping,
    /// The box has no cache, or its cache cannot have this size.
    Size,
    /// The cache did not get its size, though it could have it.
    NotResized,
    /// The box has no cache.
    NoCache,
    /// The cache was not scrubbed to the end.
    NotScrubbed,
    /// The cache was not given up.
    NotDetached,
    /// The box has no log with such a device, that one is not lost to it, or the new one cannot be
    /// used.
    Device,
    /// The device was not replaced, though it could be.
    NotReplaced,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: Kind,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal with this reason.
    pub fn new(kind: Kind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into() }
    }
}

/// An answer, as it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// [`VERSION`]
    pub version: u64,
    /// The result of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Request {
    /// The line, with its end.
    pub fn line(&self) -> Vec<u8> {
        // Cannot fail: all keys are strings.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("version".to_string(), VERSION.into());
        }
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    /// Parses the request in a line.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
        let wrong = |what: String| Refusal::new(Kind::NotARequest, what);
        let value: Value = serde_json::from_slice(line)
            .map_err(|e| wrong(format!("the line is not JSON: {e}")))?;
        let Value::Object(mut fields) = value else {
            return Err(wrong("the line is not a JSON object".to_string()));
        };
        match fields.remove("version") {
            Some(version) if version == VERSION => {}
            Some(version) => {
                let what = format!("version {version} is not supported: use version {VERSION}");
                return Err(Refusal::new(Kind::Version, what));
            }
            None => return Err(wrong(format!("\"version\": {VERSION} is missing"))),
        }
        serde_json::from_value(Value::Object(fields)).map_err(|e| wrong(e.to_string()))
    }
}

impl Reply {
    /// The reply for the result of a request.
    pub fn of(result: Result<Value, Refusal>) -> Reply {
        let (result, error) = match result {
            Ok(value) => (Some(value), None),
            Err(refusal) => (None, Some(refusal)),
        };
        Reply { version: VERSION, result, error }
    }

    /// The line, with its end.
    pub fn line(&self) -> Vec<u8> {
        // Cannot fail: all keys are strings.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_come_out_as_they_went_in() {
        for request in [
            Request::Status {},
            Request::Stats {},
            Request::Cut {},
            Request::Restore { salvage: false },
            Request::Restore { salvage: true },
            Request::Resize { flash_bytes: 1 << 40 },
            Request::Scrub {},
            Request::Detach {},
            Request::Replace { lost: "/b".to_string(), new: "\"\n".to_string(), force: true },
        ] {
            let line = request.line();
            assert!(line.ends_with(b"}\n"));
            assert_eq!(Request::parse(&line), Ok(request));
        }
        let short = br#"{"version":1,"command":"restore"}"#;
        assert_eq!(Request::parse(short), Ok(Request::Restore { salvage: false }));
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_reason() {
        for (line, kind, why) in [
            (&b""[..], Kind::NotARequest, "not JSON"),
            (b"cut", Kind::NotARequest, "not JSON"),
            (b"{\"version\":1,\"command\":\"cut\"", Kind::NotARequest, "not JSON"),
            (b"[1]", Kind::NotARequest, "not a JSON object"),
            (b"{\"command\":\"cut\"}", Kind::NotARequest, "\"version\": 1 is missing"),
            (b"{\"version\":2,\"command\":\"cut\"}", Kind::Version, "version 2 is not supported"),
            (b"{\"version\":\"1\",\"command\":\"cut\"}", Kind::Version, "version \"1\""),
            (b"{\"version\":1}", Kind::NotARequest, "command"),
            (b"{\"version\":1,\"command\":\"burn\"}", Kind::NotARequest, "burn"),
            (b"{\"version\":1,\"command\":7}", Kind::NotARequest, "7"),
            (
                b"{\"version\":1,\"command\":\"restore\",\"salvag\":true}",
                Kind::NotARequest,
                "salvag",
            ),
            (
                b"{\"version\":1,\"command\":\"restore\",\"salvage\":1}",
                Kind::NotARequest,
                "boolean",
            ),
            (b"{\"version\":1,\"command\":\"resize\"}", Kind::NotARequest, "flash_bytes"),
            (b"{\"version\":1,\"command\":\"resize\",\"flash_bytes\":-1}", Kind::NotARequest, "-1"),
            (b"{\"version\":1,\"command\":\"replace\",\"new\":\"c\"}", Kind::NotARequest, "lost"),
            (b"\xff\xfe", Kind::NotARequest, "not JSON"),
        ] {
            let refusal = Request::parse(line).expect_err("it is no request");
            let said = String::from_utf8_lossy(line);
            assert_eq!(refusal.kind, kind, "{said}: {refusal}");
            assert!(refusal.message.contains(why), "{said}: {refusal}");
        }
        // A command takes only its own fields, and not those of other commands.
        for (command, field) in [
            ("status", "salvage"),
            ("stats", "salvage"),
            ("cut", "salvage"),
            ("cut", "bogus"),
            ("scrub", "bogus"),
            ("detach", "bogus"),
            ("restore", "bogus"),
        ] {
            let line = format!("{{\"version\":1,\"command\":\"{command}\",\"{field}\":true}}");
            let refusal = Request::parse(line.as_bytes()).expect_err("it is no request");
            assert_eq!(refusal.kind, Kind::NotARequest, "{line}");
            assert!(refusal.message.contains(field), "{line}: {refusal}");
        }
        // Deep nesting is refused without recursion.
        let deep = [b"{\"version\":".to_vec(), vec![b'['; 4000]].concat();
        assert_eq!(Request::parse(&deep).expect_err("no request").kind, Kind::NotARequest);
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let reply = Reply::of(Request::parse(&line).map(|_| Value::Null)).line();
            prop_assert_eq!(reply.iter().filter(|b| **b == b'\n').count(), 1);
            prop_assert!(serde_json::from_slice::<Reply>(&reply).is_ok());
        }
    }
}
