//! `tantalum drive serve --tls` with clients of other projects: libnbd, qemu, nbdkit.
//! `scripts/tls-certificates` makes the certificates; `scripts/install-nbd-tools` installs the
//! clients.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_testing::{Need, Scratch, Spot, left_out};

/// Bytes to copy.
const FILE_BYTES: usize = 8 << 20;

/// The programs of the clients, and those that make certificates.
const TOOLS: [Need; 5] = [
    Need::Program("openssl"),
    Need::Program("nbdinfo"),
    Need::Program("nbdcopy"),
    Need::Program("qemu-img"),
    Need::Program("nbdkit"),
];

/// Certificates of one authority: for a server on this machine, for alice and for bob.
struct Certificates(Scratch);

impl Certificates {
    fn new() -> Certificates {
        let all = Certificates(Scratch::new());
        all.make(&["server"], &["localhost", "127.0.0.1"]);
        all.make(&["client"], &["alice"]);
        all.make(&["client"], &["bob"]);
        all
    }

    fn make(&self, before: &[&str], after: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/tls-certificates");
        let mut command = Command::new(script);
        let made =
            command.args(before).arg(self.0.path("pki")).args(after).output().expect("it starts");
        assert!(made.status.success(), "{made:?}");
    }

    fn of(&self, name: &str) -> String {
        self.0.path("pki").join(name).to_str().expect("text").to_string()
    }
}

/// A drive behind TLS, at a UNIX socket and at a port.
struct Secured {
    serving: Serving,
    unix: Spot,
    port: String,
}

impl Secured {
    fn new(name: &str, certificates: &Certificates, more: &[&str]) -> Secured {
        let unix = socket(&format!("{name}.sock"));
        let mut command =
            tantalum(&["drive", "serve", "--design", "volatile", "--capacity", "2GiB"]);
        command.args(["--time-scale", "0", "--verbose", "--tcp", "0"]);
        command.args(["--tls", &certificates.of("server"), "--unix"]).arg(&unix).args(more);
        let serving = Serving::start(command);
        let want = format!("nbds+unix:///drive?socket={}", unix.display());
        assert_eq!(serving.uri, want);
        // The address by TCP is the second line.
        let port = serving.second.trim_end().trim_start_matches("nbds://127.0.0.1:");
        let port = port.trim_end_matches("/drive").to_string();
        assert!(port.parse::<u16>().is_ok(), "{}", serving.second);
        Secured { serving, unix, port }
    }

    fn unix(&self, certificates: &str) -> String {
        let socket = self.unix.display();
        format!("nbds+unix:///drive?socket={socket}&tls-certificates={certificates}")
    }

    fn tcp(&self, certificates: &str) -> String {
        format!("nbds://localhost:{}/drive?tls-certificates={certificates}", self.port)
    }
}

/// Runs a program that must exist; returns its output, and whether it succeeded.
fn run(program: &str, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| {
        panic!("{program} does not start ({e}): run scripts/install-nbd-tools");
    });
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.success())
}

fn ok(program: &str, arguments: &[&str]) -> String {
    let (text, success) = run(program, arguments);
    assert!(success, "{program} {arguments:?}:\n{text}");
    text
}

fn refused(program: &str, arguments: &[&str]) -> String {
    let (text, success) = run(program, arguments);
    assert!(!success, "{program} {arguments:?} is taken:\n{text}");
    text
}

#[test]
fn clients_with_a_certificate_copy_there_and_back() {
    if left_out(&TOOLS) {
        return;
    }
    let pki = Certificates::new();
    let served = Secured::new("tls-good", &pki, &[]);
    let alice = pki.of("alice");
    for uri in [served.unix(&alice), served.tcp(&alice)] {
        let info = ok("nbdinfo", &[&uri]);
        assert!(info.contains("with TLS") && info.contains("can_fua: true"), "{info}");
    }
    let (file, back) = (socket("tls.img"), socket("tls.back"));
    let bytes: Vec<u8> = (0..FILE_BYTES).map(|i| (i / 7 + i / 4096) as u8).collect();
    std::fs::write(&file, &bytes).expect("a file");
    let (from, to) = (file.to_str().expect("text"), back.to_str().expect("text"));
    ok("nbdcopy", &["--flush", "--connections=4", from, &served.unix(&alice)]);
    ok("nbdcopy", &["--synchronous", "--request-size=65536", &served.tcp(&alice), to]);
    let got = std::fs::read(&back).expect("got");
    assert!(got.starts_with(&bytes), "what came back is not what was sent");
    drop(got);
    std::fs::remove_file(&back).expect("it is there");

    // qemu's.
    let credentials = format!("tls-creds-x509,id=tls,endpoint=client,dir={alice}");
    let disk = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={},export=drive,tls-creds=tls",
        served.port
    );
    let (said, success) =
        run("qemu-img", &["info", "--object", &credentials, "--image-opts", &disk]);
    assert!(success && said.contains("file format: nbd"), "{said}");
    let compare = ["compare", "--object", &credentials, "--image-opts", &disk];
    let file = format!("driver=raw,file.driver=file,file.filename={from}");
    let (said, _) = run("qemu-img", &[&compare[..], &[&file]].concat());
    assert!(said.contains("identical"), "{said}");

    // nbdkit's, which is a client that takes nothing but TLS.
    let plugin = [
        "-U",
        "-",
        "nbd",
        "hostname=localhost",
        &format!("port={}", served.port),
        "export=drive",
        "tls=require",
        &format!("tls-certificates={alice}"),
        "--run",
        "nbdinfo --size \"$uri\"",
    ];
    let size = ok("nbdkit", &plugin);
    assert!(size.trim().parse::<u64>().is_ok_and(|size| size >= 2 << 30), "{size}");

    let (code, said) = served.serving.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("TLS did not begin"), "{said}");
    std::fs::remove_file(from).expect("it is there");
}

#[test]
fn clients_without_a_good_certificate_are_not_taken() {
    if left_out(&TOOLS) {
        return;
    }
    let (pki, other) = (Certificates::new(), Certificates::new());
    // bob's certificate is revoked.
    let revoked = Command::new("sh")
        .args(["-c", REVOKE, "sh", &pki.of("authority"), &pki.of("bob"), &pki.of("server")])
        .output()
        .expect("it starts");
    assert!(revoked.status.success(), "{revoked:?}");
    let served = Secured::new("tls-bad", &pki, &[]);
    let (alice, bob, stranger) = (pki.of("alice"), pki.of("bob"), other.of("alice"));
    // Clients that trust the server, but have no certificate, or one of another authority.
    for (name, certificate) in [("none", None), ("odd", Some(&stranger))] {
        let dir = pki.of(name);
        std::fs::create_dir(&dir).expect("a directory");
        let copy = |from: &str, file: &str| {
            std::fs::copy(format!("{from}/{file}"), format!("{dir}/{file}")).expect("copied");
        };
        copy(&alice, "ca-cert.pem");
        if let Some(from) = certificate {
            copy(from, "client-cert.pem");
            copy(from, "client-key.pem");
        }
        for uri in [served.unix(&dir), served.tcp(&dir)] {
            refused("nbdinfo", &[&uri]);
        }
    }
    refused("nbdinfo", &[&served.unix(&bob)]);
    // A client that does not trust the server.
    refused("nbdinfo", &[&served.tcp(&stranger)]);
    // Clients that use plain text, with the new and the old negotiation.
    let plain = format!("nbd+unix:///drive?socket={}", served.unix.display());
    let said = refused("nbdinfo", &[&plain]);
    assert!(said.contains("TLS"), "{said}");
    refused("nbdinfo", &[&format!("nbd://localhost:{}/drive", served.port)]);
    refused("qemu-img", &["info", &plain]);
    assert!(Nbd::connect(&served.unix).is_err());
    // After all that, a client with a valid certificate.
    ok("nbdinfo", &[&served.unix(&alice)]);
    let (code, said) = served.serving.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("TLS did not begin: "), "{said}");
}

/// A list of revoked certificates, made by openssl.
const REVOKE: &str = r#"set -e
cd "$1"
: >index.txt
echo 01 >crlnumber
printf '%s\n' '[ca]' 'default_ca = it' '[it]' 'database = index.txt' 'crlnumber = crlnumber' \
  'default_md = sha256' 'default_crl_days = 30' 'crl_extensions = extensions' \
  '[extensions]' 'authorityKeyIdentifier = keyid' >revoke.cnf
openssl ca -config revoke.cnf -cert ca-cert.pem -keyfile ca-key.pem -revoke "$2/client-cert.pem"
openssl ca -config revoke.cnf -cert ca-cert.pem -keyfile ca-key.pem -gencrl -out "$3/ca-crl.pem"
"#;

#[test]
fn any_client_is_taken_if_the_user_says_so_and_needs_tls_all_the_same() {
    if left_out(&TOOLS) {
        return;
    }
    let pki = Certificates::new();
    let served = Secured::new("tls-any", &pki, &["--tls-any-client"]);
    let dir = pki.of("none");
    std::fs::create_dir(&dir).expect("a directory");
    let authority = format!("{}/ca-cert.pem", pki.of("alice"));
    std::fs::copy(authority, format!("{dir}/ca-cert.pem")).expect("copied");
    ok("nbdinfo", &[&served.tcp(&dir)]);
    refused("nbdinfo", &[&format!("nbd://localhost:{}/drive", served.port)]);
    assert_eq!(served.serving.stop().0, Some(0));
}

#[test]
fn invalid_tls_is_refused() {
    if left_out(&TOOLS[..1]) {
        return;
    }
    let pki = Certificates::new();
    let blank = ["drive", "serve", "--design", "volatile", "--capacity", "2GiB"];
    let (server, alice) = (pki.of("server"), pki.of("alice"));
    for (words, code, why) in [
        (&["--tcp", "0", "--tls", "/nonexistent"][..], 1, "/nonexistent/server-cert.pem"),
        (&["--tcp", "0", "--tls", &alice], 1, "server-cert.pem"),
        (&["--tcp", "0", "--tls-any-client"], 2, "--tls"),
        // TLS without client certificates authenticates no client.
        (&["--tcp", "0.0.0.0:0", "--tls", &server, "--tls-any-client"], 2, "--insecure"),
        (&["--tcp", "0", "--tls", &server, "--http", "0.0.0.0:0"], 2, "--insecure"),
    ] {
        let output = tantalum(&blank).args(words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    // Every client must have a certificate, so all addresses are allowed.
    let mut command = tantalum(&blank);
    command.args(["--time-scale", "0", "--tcp", "0.0.0.0:0", "--tls", &server]);
    let serving = Serving::start(command);
    assert!(serving.uri.starts_with("nbds://0.0.0.0:"), "{}", serving.uri);
    let (code, said) = serving.stop();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}
