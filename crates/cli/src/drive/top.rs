//! `tantalum drive top`: a running drive, on a screen.

mod commands;
mod history;
mod layout;
mod panel;
mod screen;
mod text;

use super::{remote, words};
use crate::{out, units};
use clap::Args;
use history::{History, Sample};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use screen::Screen;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tantalum_export::control::{Client, Power};
use tantalum_rt::Nanos;

/// Arguments of `tantalum drive top`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive top disk.img
  tantalum drive top disk.img --once           one picture, as text
  tantalum drive top disk.img --interval 200ms

Keys: c and then y cuts the power, r restores it, q ends. Throughput is in real time;
latencies are by the drive's clock. The histogram and the rates cover the last 10
intervals.
Exit codes: 0; 1, the terminal cannot be used; 2, standard output is no
terminal, or no such drive runs.")]
pub struct TopArguments {
    /// The image of a running drive, or its control socket
    #[arg(value_name = "IMAGE|SOCKET")]
    drive: PathBuf,
    /// Time between two updates: 1s, 200ms; a number alone is of seconds
    #[arg(long, value_name = "TIME", default_value = "1s",
          value_parser = units::time_within(Nanos::from_millis(50)..=Nanos::from_secs(3600), "s"))]
    interval: Nanos,
    /// Print one screen of 80 columns and 24 lines as text, after an interval
    #[arg(long)]
    once: bool,
}

/// Runs the command; returns the exit code.
pub fn top(arguments: &TopArguments) -> u8 {
    let client = match remote::connect(&arguments.drive) {
        Ok(client) => client,
        Err(why) => return out::error(why, out::USAGE),
    };
    let mut watch = Watch::new(&arguments.drive, client);
    let interval = Duration::from_nanos(arguments.interval.0);
    if arguments.once {
        return match once(&mut watch, interval) {
            Ok(text) => out::bytes(text.as_bytes()),
            Err(why) => out::error(why, out::FAILED),
        };
    }
    if !std::io::stdout().is_terminal() {
        return out::error("standard output is no terminal: --once prints a picture", out::USAGE);
    }
    let ended = match ratatui::try_init() {
        Ok(mut terminal) => run(&mut watch, &mut terminal, interval),
        Err(e) => Err(e),
    };
    ratatui::restore();
    match ended {
        Ok(()) => out::OK,
        Err(e) => out::error(
            format_args!("the terminal cannot be used: {e}; --once prints a picture"),
            out::FAILED,
        ),
    }
}

/// What is watched.
struct Watch {
    drive: PathBuf,
    client: Option<Client>,
    history: History,
    /// The message in the last lines.
    message: String,
    /// Why the last sample could not be taken: what is on the screen is old.
    gone: Option<String>,
    /// The user has asked for a cut, and was asked whether that is meant.
    asked: bool,
    said: (Sender<String>, Receiver<String>),
}

impl Watch {
    fn new(drive: &Path, client: Client) -> Watch {
        Watch {
            drive: drive.to_owned(),
            client: Some(client),
            history: History::default(),
            message: String::new(),
            gone: None,
            asked: false,
            said: channel(),
        }
    }

    /// Takes a sample; connects to a new process if the old one is gone.
    fn sample(&mut self) -> Result<(), String> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => remote::connect(&self.drive)?,
        };
        let sample = client.status().and_then(|status| {
            let stats = client.stats()?;
            Ok(Sample { status, stats })
        });
        let sample = sample.map_err(|e| e.to_string())?;
        self.history.add(sample);
        self.client = Some(client);
        Ok(())
    }

    /// Carries out a command in the background; its result is shown later.
    #[allow(clippy::disallowed_methods, reason = "the edge: a restart is waited for by a thread")]
    fn command(&mut self, what: &str, ask: fn(&mut Client) -> Result<String, String>) {
        self.message = format!("{what} …");
        let (drive, say) = (self.drive.clone(), self.said.0.clone());
        let asked = move || {
            let said = remote::connect(&drive).and_then(|mut client| ask(&mut client));
            // If the screen is gone, nothing shows the result.
            let _ = say.send(said.unwrap_or_else(|e| e));
        };
        if std::thread::Builder::new().spawn(asked).is_err() {
            self.message = "no thread can be started".to_string();
        }
    }

    fn screen(&self) -> Screen<'_> {
        let message = self.gone.as_deref().unwrap_or(&self.message);
        Screen { history: &self.history, message, gone: self.gone.is_some() }
    }

    /// Takes a sample, and remembers if there is none.
    fn look(&mut self) {
        self.gone = self.sample().err();
    }

    /// Asks before it cuts.
    fn ask(&mut self) {
        self.asked = true;
        self.message = "cut the power? y cuts it, any other key does not".to_string();
    }

    /// The key behind the question.
    fn answered(&mut self, yes: bool) {
        self.asked = false;
        match yes {
            true => self.command("cutting the power", cut),
            false => self.message = "the power was not cut".to_string(),
        }
    }
}

fn cut(client: &mut Client) -> Result<String, String> {
    let cut = client.cut().map_err(|e| e.to_string())?;
    Ok(match cut.was {
        Power::On | Power::Starting => {
            format!("the drive was off after {}", words::time(cut.real_ns))
        }
        Power::Off | Power::Dying => "the drive had no power".to_string(),
    })
}

fn restore(client: &mut Client) -> Result<String, String> {
    let r = client.restore(false).map_err(|e| e.to_string())?;
    Ok(match r.was {
        Power::On => "the drive has power".to_string(),
        _ => format!(
            "restored: commands after {}, all after {}",
            words::time(r.ready_ns),
            words::time(r.whole_ns)
        ),
    })
}

#[allow(clippy::disallowed_methods, reason = "the edge: a picture is of an interval of real time")]
fn once(watch: &mut Watch, interval: Duration) -> Result<String, String> {
    watch.sample()?;
    std::thread::sleep(interval);
    watch.sample()?;
    let mut terminal =
        Terminal::new(TestBackend::new(80, 24)).map_err(|e| format!("no picture: {e}"))?;
    let draw = |frame: &mut ratatui::Frame<'_>| frame.render_widget(&watch.screen(), frame.area());
    terminal.draw(draw).map_err(|e| format!("no picture: {e}"))?;
    Ok(screen::text(terminal.backend().buffer()))
}

#[allow(clippy::disallowed_methods, reason = "the edge: pictures at intervals of real time")]
#[allow(clippy::disallowed_types, reason = "the edge: pictures at intervals of real time")]
fn run(
    watch: &mut Watch,
    terminal: &mut DefaultTerminal,
    interval: Duration,
) -> std::io::Result<()> {
    let mut due = std::time::Instant::now();
    loop {
        let now = std::time::Instant::now();
        if now >= due {
            watch.look();
            due = now + interval;
        }
        while let Ok(said) = watch.said.1.try_recv() {
            watch.message = said;
            // Show the result at once.
            due = now;
        }
        terminal.draw(|frame| frame.render_widget(&watch.screen(), frame.area()))?;
        // Messages of other threads come between two samples, too.
        let patience = due.saturating_duration_since(now).min(Duration::from_millis(100));
        if !event::poll(patience)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            code if watch.asked => watch.answered(code == KeyCode::Char('y')),
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') => watch.ask(),
            KeyCode::Char('r') => watch.command("restoring the power", restore),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
