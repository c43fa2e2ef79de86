//! The live page of a drive, a log and a cache as a browser shows it: Chromium without a screen, as
//! wide as a telephone and as a screen, light and dark.
//!
//! `TANTALUM_PICTURES=DIR` keeps pictures of the pages, to be looked at.

mod browser;

use crate::common::live::{Nbd, Serving, socket, tantalum};
use crate::common::{ends, path};
use browser::Page;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use tantalum_testing::{Need, left_out};

/// The width of a small telephone.
const WIDTH: u32 = 400;

/// The widths in which a page is looked at.
const WIDTHS: [u32; 2] = [1100, WIDTH];

/// All elements that are shown and reach beyond the sides of the window.
const BEYOND: &str = "[...document.querySelectorAll('body *')].filter(at => { \
     const box = at.getBoundingClientRect(); \
     return box.width > 0 && (box.right > innerWidth + .5 || box.left < -.5); })\
     .map(at => at.outerHTML.slice(0, 200))";

/// All text whose contrast to what is behind it is below 4.5, as WCAG 2 computes it (level AA).
/// Buttons that cannot be pressed need none.
const FAINT: &str = "(() => {
    const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
    const light = colour => {
        const [r, g, b] = numbers(colour).map(n => n / 255)
            .map(n => n <= .04045 ? n / 12.92 : ((n + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const behind = at => {
        for (; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (numbers(colour).length === 3) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const faint = [];
    while (texts.nextNode()) {
        const text = texts.currentNode, at = text.parentElement;
        const skipped = at.closest('script, noscript, [hidden], :disabled');
        if (skipped || !text.data.trim()) continue;
        const style = getComputedStyle(at);
        const both = [at.closest('svg') ? style.fill : style.color, behind(at)].map(light);
        const contrast = (Math.max(...both) + .05) / (Math.min(...both) + .05);
        if (!(contrast >= 4.5)) faint.push(`${contrast.toFixed(2)}: ${text.data}`);
    }
    return faint;
})()";

/// How light the page's background is: 0 to 255.
const BACKGROUND: &str =
    "Math.max(...getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number))";

/// What the page says of the power.
fn power_is(word: &str) -> String {
    format!("document.getElementById('power').innerText === '{word}'")
}

/// A served volume, and where its page is.
struct Served {
    serving: Serving,
    volume: PathBuf,
    host: String,
    /// What it still says has a reader.
    _said: BufReader<ChildStderr>,
}

impl Served {
    /// Serves an image or a description.
    fn new(group: &str, at: &Path, volume: &Path, more: &[&str]) -> Served {
        let mut command = tantalum(&[group, "serve"]);
        command.arg(at).args(["--http", "0"]).args(more);
        command.arg("--unix").arg(volume);
        let mut serving = Serving::start(command);
        let mut said = BufReader::new(serving.child.stderr.take().expect("standard error"));
        let lines = said.by_ref().lines().map(|line| line.expect("text"));
        let of_page = |line: String| {
            let host = line.strip_prefix("status and metrics: http://")?;
            Some(host.trim_end_matches('/').to_string())
        };
        let host = { lines }.find_map(of_page).expect("an address");
        Served { serving, volume: volume.to_path_buf(), host, _said: said }
    }

    fn nbd(&self) -> Nbd {
        Nbd::connect(&self.volume).expect("a server")
    }
}

/// The page says nothing wrong, asks nobody else, fits, and can be read, light and dark.
fn check(page: &mut Page, served: &Served, name: &str) {
    for (width, theme) in WIDTHS.into_iter().flat_map(|width| [(width, "light"), (width, "dark")]) {
        page.size(width, 800);
        page.theme(theme);
        page.open(&format!("http://{}/", served.host));
        page.until("the power is shown", &power_is("ON"));
        let background = page.value(BACKGROUND).as_u64().expect("a number");
        let is_so = if theme == "dark" { background < 64 } else { background > 224 };
        assert!(is_so, "{name}: the background of the {theme} page is {background}");
        let is = page.value("document.documentElement.scrollWidth");
        assert_eq!((page.value("innerWidth"), is), (width.into(), width.into()), "{name}");
        assert_eq!(page.value(BEYOND), serde_json::json!([]), "{name}: beyond the sides");
        assert_eq!(page.value(FAINT), serde_json::json!([]), "{name}, {theme}: too faint");
        page.picture(&format!("{name}-{theme}-{width}"));
    }
    assert_eq!(page.troubles(&served.host), Vec::<String>::new(), "{name}");
}

/// The figures follow what is written.
fn is_live(page: &mut Page, served: &Served, name: &str) {
    let writes = "[...document.querySelectorAll('#counters .row > :first-child')]\
                  .some(at => at.innerText === 'write')";
    assert_eq!(page.value(writes), false, "{name}: nothing is written yet");
    let mut nbd = served.nbd();
    for block in 0..7 {
        nbd.write(block, &[7; 4096]).expect("written");
    }
    let counted = "document.getElementById('counters').innerText.includes('7 done, 0 failed')";
    page.until("seven writes are counted", counted);
    // The second line of a rate is what there is now: "3/s, 12 KiB/s".
    let rate = "[...document.querySelectorAll('#throughput .rate')].some(at => \
                at.innerText.includes('write') && !/\\b0\\/s, 0 B\\/s/.test(at.innerText))";
    page.until_with("a rate of writes", rate, || {
        nbd.write(8, &[8; 4096]).expect("written");
    });
    let latency = "/write\\s*median/.test(document.getElementById('latency').innerText)";
    page.until_with("a latency of writes", latency, || {
        nbd.write(9, &[9; 4096]).expect("written");
    });
}

/// The page of what is served so, with and without its buttons.
fn is_as_it_should_be(group: &str, at: &Path) {
    let volume = socket(&format!("page-{group}.sock"));
    let mut page = Page::new(WIDTH, 800);
    let shown = "document.getElementById('buttons').checkVisibility()";

    let served = Served::new(group, at, &volume, &[]);
    check(&mut page, &served, &format!("{group}-fresh"));
    is_live(&mut page, &served, group);
    check(&mut page, &served, &format!("{group}-used"));
    assert_eq!(page.value(shown), false, "{group}");
    assert_eq!(served.serving.stop_quietly(), Some(0));

    let served = Served::new(group, at, &volume, &["--allow-control"]);
    check(&mut page, &served, &format!("{group}-control"));
    assert_eq!(page.value(shown), true, "{group}");
    let can = |id: &str| format!("!document.getElementById('{id}').disabled");
    assert_eq!((page.value(&can("cut")), page.value(&can("restore"))), (true.into(), false.into()));
    page.press("cut", true);
    page.until("the power is off", &format!("{} && {}", power_is("OFF"), can("restore")));
    assert_eq!(page.value(&can("cut")), false, "{group}: it is off already");
    assert!(page.text("cuts").contains("last cut"), "{group}");
    assert_eq!(page.value(BEYOND), serde_json::json!([]), "{group}: beyond the sides, off");
    assert_eq!(page.value(FAINT), serde_json::json!([]), "{group}: too faint, off");
    page.picture(&format!("{group}-off"));
    page.press("restore", false);
    page.until("the power is on", &format!("{} && {}", power_is("ON"), can("cut")));
    assert!(page.text("cuts").contains("restored"), "{group}");
    assert_eq!(served.nbd().read(3).expect("read"), [7; 4096], "{group}");
    page.picture(&format!("{group}-restored"));
    assert_eq!(page.troubles(&served.host), Vec::<String>::new(), "{group}");

    // Without its server the page says so.
    assert_eq!(served.serving.stop_quietly(), Some(0));
    page.until("the server is gone", &power_is("GONE"));
    assert!(page.text("state").contains("does not answer"), "{group}");
}

fn run(words: &[&str], paths: &[&Path]) {
    let mut command = tantalum(words);
    ends(&command.args(paths).output().expect("it starts"), 0);
}

#[test]
fn the_page_of_a_drive_is_live_in_a_browser() {
    if left_out(&[Need::Program("chromium")]) {
        return;
    }
    let image = path("page.img");
    run(&["drive", "create", "--design", "durassd", "--capacity", "2GiB"], &[&image]);
    is_as_it_should_be("drive", &image);
}

#[test]
fn the_page_of_a_log_is_live_in_a_browser() {
    if left_out(&[Need::Program("chromium")]) {
        return;
    }
    let at = path("page-log.toml");
    let [a, b, disk] = ["page.a", "page.b", "page.disk"].map(path);
    let words = ["log", "create", "--size", "16MiB", "--backing-size", "32MiB"];
    let [device, backing] = ["--device", "--backing"].map(Path::new);
    run(&words, &[&at, device, &a, device, &b, backing, &disk]);
    is_as_it_should_be("log", &at);
}

#[test]
fn the_page_of_a_cache_is_live_in_a_browser() {
    if left_out(&[Need::Program("chromium")]) {
        return;
    }
    let at = path("page-cache.toml");
    let [flash, slow] = ["page.flash", "page.slow"].map(path);
    let words = ["cache", "create", "--flash-size", "8MiB", "--slow-size", "8MiB"];
    run(&words, &[&at, Path::new("--flash"), &flash, Path::new("--slow"), &slow]);
    is_as_it_should_be("cache", &at);
}

/// The checks above find what they are for.
/// The page of an experiment: what is too wide scrolls in a box of its own.
#[test]
fn the_page_of_an_experiment_fits_a_small_window() {
    if left_out(&[Need::Program("chromium")]) {
        return;
    }
    let html = path("page-experiment.html");
    let few = ["run", "first", "--quick", "--cuts", "3", "--row", "ycsb-a", "--html"];
    run(&few, &[&html]);
    for width in [WIDTH, 1100] {
        let mut page = Page::new(width, 800);
        for theme in ["light", "dark"] {
            page.theme(theme);
            page.open(&format!("file://{}", html.display()));
            let all = page.value("document.documentElement.scrollWidth");
            assert_eq!((page.value("innerWidth"), all), (width.into(), width.into()), "{theme}");
            let gains = "[...document.querySelectorAll('li')].some(at => \
                         / beside .* times the tx\\/s/.test(at.innerText) && at.offsetWidth > 0)";
            assert_eq!(page.value(gains), true, "{theme}");
            page.picture(&format!("experiment-{width}-{theme}"));
        }
    }
}

#[test]
fn what_is_wrong_with_a_page_is_found() {
    if left_out(&[Need::Program("chromium")]) {
        return;
    }
    let mut page = Page::new(WIDTH, 800);
    page.open(
        "data:text/html,<body style='background:white'><p style='width:500px'>wide</p>\
         <p style='color:lightgray'>faint</p><img src='http://elsewhere.invalid/picture'>\
         <script>console.error('said'); nothing();</script>",
    );
    let found = |list: serde_json::Value| list.to_string();
    assert!(found(page.value(BEYOND)).contains("wide"));
    let faint = found(page.value(FAINT));
    assert!(faint.contains("faint") && !faint.contains("wide"), "{faint}");
    assert_eq!(page.value(BACKGROUND), 255);
    let troubles = page.troubles("127.0.0.1:1").join("\n");
    for trouble in ["said", "nothing is not defined", "http://elsewhere.invalid/picture"] {
        assert!(troubles.contains(trouble), "{trouble} is not in {troubles}");
    }
}
