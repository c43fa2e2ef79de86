//! Chromium without a screen, over its DevTools protocol.
//!
//! 1. Messages are JSON, each with a NUL behind it. Chromium reads them from descriptor 3, and writes
//!    them to descriptor 4 (`--remote-debugging-pipe`).
//! 2. A page has a session, which each message names. All that Chromium says of it is kept, until
//!    [`Page::troubles`] says what of it went wrong.

#![allow(clippy::disallowed_types, reason = "a browser lives in real time, and may be stuck")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tantalum_testing::Scratch;

/// How long anything may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long Chromium may take to end.
const END: Duration = Duration::from_secs(10);

/// A page in a browser of its own.
pub struct Page {
    chromium: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    sent: u64,
    events: Vec<Value>,
    /// The profile goes away with the page.
    _profile: Scratch,
}

impl Page {
    /// An empty page of this many pixels.
    pub fn new(width: u32, height: u32) -> Page {
        let profile = Scratch::new();
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec chromium "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"]);
        command.args([
            "--headless",
            "--remote-debugging-pipe",
            "--hide-scrollbars",
            "--no-first-run",
        ]);
        // It shows only pages of ours, and root has no sandbox. Containers have little shared memory.
        command.args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--disable-background-networking", "--disable-component-update"]);
        command.arg(format!("--user-data-dir={}", profile.dir().display()));
        command.arg("about:blank").env("HOME", profile.dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut chromium = command.spawn().expect("there is a shell");
        let to = chromium.stdin.take().expect("its input");
        let mut out = BufReader::new(chromium.stdout.take().expect("its output"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(1..) = out.read_until(0, &mut message) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let events = Vec::new();
        let mut page =
            Page { chromium, to, from, session: None, sent: 0, events, _profile: profile };
        let target = page.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let how = json!({ "targetId": target["targetId"], "flatten": true });
        let session = page.ask("Target.attachToTarget", &how);
        page.session = Some(session["sessionId"].as_str().expect("a session").to_string());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.ask(&format!("{domain}.enable"), &json!({}));
        }
        page.size(width, height);
        page
    }

    /// Sends a message; its number.
    fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.and_then(|()| self.to.flush()).expect("Chromium runs");
        self.sent
    }

    /// Waits until a message arrives that is as wanted. Events before it are kept.
    fn next(&mut self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let message = self.from.recv_timeout(left);
            let message = message.unwrap_or_else(|e| panic!("Chromium: no {what}: {e}"));
            let found = is_wanted(&message);
            if message["method"].is_string() {
                self.events.push(message.clone());
            }
            if found {
                return message;
            }
        }
    }

    /// The result of a method.
    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        let mut answer = self.next(method, |message| message["id"] == id);
        assert!(answer["error"].is_null(), "{method} {parameters}: {answer}");
        answer["result"].take()
    }

    /// Opens an address, and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        let opened = self.ask("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
        self.until("the page is loaded", "document.readyState === 'complete'");
    }

    /// The window has this size from now on.
    pub fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Shows pages as to somebody who wants them dark or light.
    pub fn theme(&mut self, theme: &str) {
        let wish = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.ask("Emulation.setEmulatedMedia", &json!({ "features": wish }));
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let how = json!({ "expression": expression, "returnByValue": true });
        let mut result = self.ask("Runtime.evaluate", &how);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// The text of an element, by its `id`.
    pub fn text(&mut self, id: &str) -> String {
        let text = self.value(&format!("document.getElementById('{id}').innerText"));
        text.as_str().unwrap_or_else(|| panic!("no text of {id}")).to_string()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, what: &str, expression: &str) {
        self.until_with(what, expression, || ());
    }

    /// The same, and does something again and again meanwhile.
    pub fn until_with(&mut self, what: &str, expression: &str, mut meanwhile: impl FnMut()) {
        let begin = Instant::now();
        while self.value(expression) != true {
            if begin.elapsed() > PATIENCE {
                panic!("never: {what}\n{}", self.value("document.body.innerText"));
            }
            meanwhile();
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Presses a button as a mouse does; of what it asks, if it asks, "yes" is the answer.
    pub fn press(&mut self, id: &str, asks: bool) {
        let place = format!(
            "(() => {{ const at = document.getElementById('{id}'); \
             at.scrollIntoView({{ block: 'center' }}); const box = at.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        );
        let place = self.value(&place);
        let mut last = 0;
        for kind in ["mousePressed", "mouseReleased"] {
            let mouse = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1
            });
            // A question keeps the answer to the message back, so nobody waits for it here.
            last = self.send("Input.dispatchMouseEvent", &mouse);
        }
        if asks {
            self.next("question", |m| m["method"] == "Page.javascriptDialogOpening");
            self.send("Page.handleJavaScriptDialog", &json!({ "accept": true }));
        }
        self.next("click", |message| message["id"] == last);
    }

    /// What went wrong since it was asked last: errors of scripts and of the console, and requests to
    /// others than this host.
    pub fn troubles(&mut self, host: &str) -> Vec<String> {
        self.value("1"); // All that came before has arrived then.
        let is_error = |kind: &Value| ["error", "warning", "assert"].iter().any(|k| kind == k);
        let ours = format!("http://{host}/");
        let is_trouble = |event: &&Value| {
            let told = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Network.loadingFailed" => true,
                "Runtime.consoleAPICalled" => is_error(&told["type"]),
                "Log.entryAdded" => is_error(&told["entry"]["level"]),
                "Network.requestWillBeSent" => {
                    !told["request"]["url"].as_str().is_some_and(|url| url.starts_with(&ours))
                }
                _ => false,
            }
        };
        let events = std::mem::take(&mut self.events);
        let asked = |event: &Value| event["method"] == "Network.requestWillBeSent";
        assert!(events.iter().any(asked), "it says nothing of its requests");
        events.iter().filter(is_trouble).map(Value::to_string).collect()
    }

    /// Writes a picture of all of the page into the folder that `TANTALUM_PICTURES` names, if it
    /// names one, to be looked at.
    pub fn picture(&mut self, name: &str) {
        use base64::prelude::{BASE64_STANDARD, Engine};
        let Some(folder) = std::env::var_os("TANTALUM_PICTURES") else { return };
        let how = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.ask("Page.captureScreenshot", &how);
        let picture = BASE64_STANDARD.decode(picture["data"].as_str().expect("a picture"));
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, picture.expect("base64")).expect("the folder can be written");
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // In good order, so that none of its processes writes to the profile any more.
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let begin = Instant::now();
        while begin.elapsed() < END && matches!(self.chromium.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.chromium.kill();
        let _ = self.chromium.wait();
    }
}
