//! `tantalum drive mount --files` under an unmodified MariaDB, which uses the ioctl of Fusion-io
//! cards and then writes no page twice. Needs root, and `scripts/install-databases`.
//! A binary of its own: its mount namespaces have copies of all mounts, and keep them in use.

#![allow(clippy::disallowed_methods, reason = "tests start programs and make directories")]

mod mounting;

use mounting::{Mounted, Place, possible, run};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tantalum_testing::{Need, Signal};

const SERVER: [Need; 4] = [
    Need::Program("/usr/sbin/mariadbd"),
    Need::Program("mariadb"),
    Need::Program("mariadb-install-db"),
    Need::Program("setpriv"),
];

/// Runs the command after its first argument in a mount namespace with a /dev of its own, which has
/// the file by which MariaDB detects a card. No other process sees this /dev.
const WITH_CARD: &str = r#"set -e
mkdir "$0"
mount -t tmpfs -o mode=755 tmpfs "$0"
for name in null zero random urandom; do : >"$0/$name"; mount --bind "/dev/$name" "$0/$name"; done
: >"$0/fcta"
mount --rbind "$0" /dev
exec "$@""#;

const AS_MYSQL: [&str; 5] =
    ["setpriv", "--reuid=mysql", "--regid=mysql", "--init-groups", "--inh-caps=-all"];

/// A server whose system tablespace and log are on the drive, and its database `flat`.
struct Server {
    child: Child,
    socket: String,
}

/// Pages that a server has written, and how many of them it wrote twice.
#[derive(Clone, Copy, Debug)]
struct Written {
    all: u64,
    twice: u64,
}

fn options(place: &Place, files: &str) -> Vec<String> {
    let at = |name: &str, value: &str| format!("--{name}={value}");
    vec![
        "--no-defaults".to_string(),
        at("datadir", &place.path("data")),
        // A starting server removes temporary files there, including those of other servers.
        at("tmpdir", &place.path("tmp")),
        at("innodb-data-home-dir", files),
        at("innodb-log-group-home-dir", files),
        at("innodb-log-file-size", "8M"),
    ]
}

impl Server {
    /// Makes the data directory.
    fn create(place: &Place, files: &str) {
        for name in ["data", "tmp"] {
            run("install", &["-d", "-m", "700", "-o", "mysql", "-g", "mysql", &place.path(name)]);
        }
        let options = options(place, files);
        let mut words = AS_MYSQL[1..].to_vec();
        words.push("mariadb-install-db");
        words.extend(options.iter().map(String::as_str));
        words.push("--skip-test-db");
        run(AS_MYSQL[0], &words);
        // A database is a directory; all files of this one are on the drive.
        run("ln", &["-s", files, &place.path("data/flat")]);
    }

    fn start(place: &Place, files: &str, how: &[&str]) -> Server {
        let socket = place.path("data/sock");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WITH_CARD, &place.path("dev")]);
        command.args(AS_MYSQL).arg("/usr/sbin/mariadbd").args(options(place, files));
        command.args(["--skip-networking", "--innodb-stats-persistent=0"]).args(how);
        command.arg(format!("--socket={socket}"));
        let log = std::fs::File::create(place.path("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut server = Server { child: command.spawn().expect("it starts"), socket };
        for _ in 0..1800 {
            if server.ask("select 1") == "1\n" {
                return server;
            }
            assert!(server.child.try_wait().expect("asked").is_none(), "{}", log_of(place));
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it does not take commands: {}", log_of(place));
    }

    /// The output of the statements, or the error.
    fn ask(&self, sql: &str) -> String {
        let words = ["--no-defaults", "-N", "-B", "-uroot", "-S", &self.socket, "-e", sql];
        let said = Command::new("mariadb").args(words).output().expect("the client starts");
        String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()
    }

    fn written(&self) -> Written {
        let number = |name: &str| {
            let said = self.ask(&format!("show global status like '{name}'"));
            said.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
        };
        Written { all: number("Innodb_pages_written"), twice: number("Innodb_dblwr_pages_written") }
    }

    /// Changes all pages of a new table, and has them written.
    fn rewrite(&self, table: &str) -> Written {
        let done = |sql: &str| {
            let flush = format!("flush tables flat.{table} for export; unlock tables");
            assert_eq!(self.ask(&format!("{sql}; {flush}; select 'done'")), "done\n");
        };
        // The first write of a page needs no protection.
        done(&format!(
            "create table flat.{table} (id int primary key, filler varbinary(1000)) engine=innodb;
             insert into flat.{table} select seq, repeat('x', 1000) from flat.seq_1_to_8000"
        ));
        let before = self.written();
        done(&format!("update flat.{table} set filler = repeat('y', 1000)"));
        let now = self.written();
        Written { all: now.all - before.all, twice: now.twice - before.twice }
    }

    fn kill(mut self, place: &Place) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
        let _ = std::fs::remove_dir(place.path("dev"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_of(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).unwrap_or_default()
}

/// A place that the server's account can reach, with a directory that it owns.
fn place(name: &str) -> (Place, String) {
    let dir = std::env::temp_dir().join(format!("tantalum-{name}-{}", std::process::id()));
    run("install", &["-d", "-m", "755", dir.to_str().expect("text")]);
    let place = Place { dir };
    let files = place.path("m");
    run("install", &["-d", "-m", "700", "-o", "mysql", "-g", "mysql", &files]);
    (place, files)
}

#[test]
fn mariadb_writes_no_page_twice_and_survives_a_kill_of_the_drive() {
    if !possible(&SERVER) {
        return;
    }
    let (place, files) = place("mariadb");
    let image = place.image("durassd");
    let mut mounted = Mounted::new(&files, &[&image, &files, "--files"]);
    Server::create(&place, &files);
    let server = Server::start(&place, &files, &[]);
    let written = server.rewrite("a");
    // Single pages may belong to the server's own tables, which are elsewhere.
    assert!(written.all >= 500 && written.twice < 10, "{written:?}");
    // The log is on the drive, so the server cannot continue without it.
    mounted.signal(Signal::KILL);
    mounted.wait();
    server.kill(&place);
    let mounted = Mounted::new(&files, &[&image, &files, "--files"]);
    let server = Server::start(&place, &files, &[]);
    assert_eq!(server.ask("select count(*) from flat.a"), "8000\n");
    let checked = server.ask("check table flat.a extended");
    assert!(checked.ends_with("\tstatus\tOK\n"), "{checked}");
    server.kill(&place);
    // With atomic writes switched off, it writes pages twice.
    let server = Server::start(&place, &files, &["--innodb-use-atomic-writes=0"]);
    let written = server.rewrite("b");
    assert!(written.twice >= 500, "{written:?}");
    server.kill(&place);
    mounted.stop();
    place.assert_clean();
}

#[test]
fn mariadb_protects_itself_where_pages_may_tear() {
    if !possible(&SERVER) {
        return;
    }
    let (place, files) = place("mariadb-torn");
    let image = place.image("volatile");
    let mounted = Mounted::new(&files, &[&image, &files, "--files"]);
    Server::create(&place, &files);
    let server = Server::start(&place, &files, &[]);
    let written = server.rewrite("a");
    assert!(written.twice >= 500, "{written:?}");
    server.kill(&place);
    mounted.stop();
    place.assert_clean();
}
