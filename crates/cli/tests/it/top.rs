//! `tantalum drive top` in a terminal: a pseudo terminal of script(1).

use crate::common::live::{Serving, socket, tantalum};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tantalum_testing::{Need, left_out};

const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// What a terminal shows, as far as `top` uses it.
struct Grid {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// What has arrived and is not whole yet.
    rest: Vec<u8>,
    /// Everything that has arrived.
    all: String,
}

impl Grid {
    fn new() -> Grid {
        let cells = vec![vec![' '; COLUMNS]; ROWS];
        Grid { cells, at: (0, 0), rest: Vec::new(), all: String::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(e) => e.valid_up_to(),
        };
        let mut text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        // A sequence that is not whole waits for its end.
        let is_final = |c: char| c != '[' && ('@'..='~').contains(&c);
        if let Some(at) = text.rfind('\x1b')
            && !text[at + 1..].contains(is_final)
        {
            text.truncate(at);
        }
        self.rest.drain(..text.len());
        self.all.push_str(&text);
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\x1b' => {
                    let mut sequence = String::new();
                    for c in chars.by_ref() {
                        sequence.push(c);
                        if is_final(c) {
                            break;
                        }
                    }
                    self.carry_out(&sequence);
                }
                '\r' => self.at.1 = 0,
                '\n' => self.at.0 += 1,
                c => {
                    if let Some(cell) =
                        self.cells.get_mut(self.at.0).and_then(|row| row.get_mut(self.at.1))
                    {
                        *cell = c;
                    }
                    self.at.1 += 1;
                }
            }
        }
    }

    fn carry_out(&mut self, sequence: &str) {
        let Some(body) = sequence.strip_prefix('[') else { return };
        if let Some(place) = body.strip_suffix('H') {
            let mut numbers = place.split(';').map(|n| n.parse().unwrap_or(1));
            let mut next = || numbers.next().unwrap_or(1).max(1) - 1;
            self.at = (next(), next());
        } else if body.ends_with('J') {
            self.cells = Grid::new().cells;
        }
    }

    fn text(&self) -> String {
        self.cells.iter().map(|row| row.iter().collect::<String>() + "\n").collect()
    }
}

/// A program in a terminal.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    bytes: Receiver<Vec<u8>>,
    grid: Grid,
}

impl Terminal {
    /// With this shell command.
    fn new(command: &str, variables: &[(&str, &str)]) -> Terminal {
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", command, "/dev/null"]);
        script.env("SHELL", "/bin/sh").env("TERM", "xterm").envs(variables.iter().copied());
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script starts");
        let keys = child.stdin.take().expect("its input");
        let mut out = child.stdout.take().expect("its output");
        let (sender, bytes) = channel();
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut some) {
                if sender.send(some[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keys, bytes, grid: Grid::new() }
    }

    /// Waits until the screen is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        while !is_so(&self.grid.text()) {
            let some = self.bytes.recv_timeout(Duration::from_secs(120));
            let Ok(some) = some else { panic!("never: {what}\n{}", self.grid.text()) };
            self.grid.take(&some);
        }
    }

    fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).and_then(|()| self.keys.flush()).expect("pressed");
    }

    /// Waits for its end; its exit code, and all that it wrote.
    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().expect("it ends").code();
        while let Ok(some) = self.bytes.recv() {
            self.grid.take(&some);
        }
        (code, self.grid.all)
    }
}

/// The first picture, the keys, the end, and the terminal as it was before.
#[test]
fn a_drive_is_watched_and_cut_in_a_terminal() {
    if left_out(&[Need::Program("script")]) {
        return;
    }
    let (nbd, control) = (socket("top.nbd"), socket("top.ctl"));
    let mut command = tantalum(&["drive", "serve", "--ram", "16MiB", "--time-scale", "0"]);
    command.arg("--unix").arg(&*nbd).arg("--control").arg(&*control);
    let serving = Serving::start(command);
    let variables =
        [("TOP", env!("CARGO_BIN_EXE_tantalum")), ("AT", control.to_str().expect("text"))];
    for end in ["q", "\x1b", "\x03"] {
        let how = r#"stty rows 24 cols 80; was=$(stty -g)
"$TOP" drive top "$AT" --interval 0.1; code=$?
[ "$(stty -g)" = "$was" ] && echo as before
exit $code"#;
        let mut terminal = Terminal::new(how, &variables);
        terminal.until("a picture", |text| {
            [" ON  ram 16.00 MiB  in memory", "throughput", "stored", "c cut  r restore  q quit"]
                .iter()
                .all(|part| text.contains(part))
        });
        terminal.press("c");
        terminal.until("a question", |text| text.contains("cut the power? y cuts it"));
        terminal.press("n");
        terminal.until("no cut", |text| text.contains("the power was not cut"));
        terminal.press("c");
        terminal.until("a question", |text| text.contains("cut the power? y cuts it"));
        terminal.press("y");
        terminal.until("a cut", |text| text.contains(" OFF  ram"));
        terminal.press("r");
        terminal.until("a restart", |text| text.contains(" ON  ram"));
        terminal.press(end);
        let (code, all) = terminal.end();
        assert_eq!(code, Some(0), "{end:?}: {all}");
        // It goes back to the screen that was there, and typing is shown again.
        let (_, behind) = all.rsplit_once("\x1b[?1049l").expect("the other screen");
        assert!(behind.contains("as before"), "{end:?}: {behind:?}");
    }
    assert_eq!(serving.stop(), (Some(0), String::new()));
}

/// Colours are for a terminal whose user has not declined them.
#[test]
fn a_terminal_shows_colours_unless_they_are_declined() {
    if left_out(&[Need::Program("script")]) {
        return;
    }
    let how = r#""$TOP" run first --quick --cuts 3 --row ycsb-a/durassd/wal/full 2>/dev/null"#;
    let top = ("TOP", env!("CARGO_BIN_EXE_tantalum"));
    let (code, coloured) = Terminal::new(how, &[top, ("NO_COLOR", "")]).end();
    assert!(code == Some(0) && coloured.contains("\x1b[32mkept"), "{coloured:?}");
    let (code, plain) = Terminal::new(how, &[top, ("NO_COLOR", "1")]).end();
    assert!(code == Some(0) && plain.contains("kept") && !plain.contains('\x1b'), "{plain:?}");
}
