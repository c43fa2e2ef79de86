//! A server that takes no client without TLS: its answers before TLS, the clients that it takes,
//! and the session after.

#![allow(clippy::disallowed_methods, reason = "tests write certificates to files")]

use crate::common::{Client, serve_tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use tantalum_device::RamDevice;
use tantalum_export::nbd::wire::{self, cmd, opt, rep};
use tantalum_export::nbd::{
    End, Event, Limits, Options, PipeEnd, Refusal, Server, Stream, Tls, TlsError, pipe,
};
use tantalum_rt::{Nanos, Rt, Runtime};

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let mut runtime = Runtime::virtual_time(7);
    let task = test(runtime.handle());
    runtime.block_on(task).expect("the run ends");
}

/// A certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
struct Signed {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Authority { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority") }
    }

    fn sign(&self, number: u64) -> Signed {
        let mut params = CertificateParams::new(["localhost".to_string()]).expect("parameters");
        params.serial_number = Some(SerialNumber::from(number));
        let key = KeyPair::generate().expect("a key");
        let issuer: &Issuer<'static, KeyPair> = &self.issuer;
        Signed { certificate: params.signed_by(&key, issuer).expect("signed"), key }
    }

    /// A list with this revoked certificate, which is valid until this year.
    fn revoke(&self, number: u64, until: i32) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let issuer: &Issuer<'static, KeyPair> = &self.issuer;
        list.signed_by(issuer).and_then(|list| list.pem()).expect("a list")
    }
}

/// A directory with a server's files; removed when dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str, authority: &Authority) -> Directory {
        let name = format!("tantalum-tls-{name}-{}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&directory.0);
        std::fs::create_dir(&directory.0).expect("a directory");
        let server = authority.sign(1);
        directory.put("ca-cert.pem", &authority.issuer.as_ref().pem());
        directory.put("server-cert.pem", &server.certificate.pem());
        directory.put("server-key.pem", &server.key.serialize_pem());
        directory
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    fn tls(&self) -> Tls {
        Tls::from_dir(&self.0, true).expect("certificates")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client's configuration: the authority that it trusts, and perhaps a certificate.
fn config(authority: &Authority, own: Option<&Signed>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.issuer.as_ref().der().to_vec())).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from(own.certificate.der().to_vec())];
            let key = PrivateKeyDer::try_from(own.key.serialize_der()).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("a certificate")
        }
    };
    Arc::new(config)
}

/// The client's end of TLS on a pipe.
struct Line {
    stream: PipeEnd,
    tls: RefCell<ClientConnection>,
    /// The server has closed its side of TLS.
    closed: Cell<bool>,
}

impl Line {
    fn new(stream: PipeEnd, config: &Arc<ClientConfig>) -> Line {
        let name = ServerName::try_from("localhost").expect("a name");
        let tls = ClientConnection::new(config.clone(), name).expect("a client");
        Line { stream, tls: RefCell::new(tls), closed: Cell::new(false) }
    }

    async fn flush(&self) {
        let mut out = Vec::new();
        {
            let mut tls = self.tls.borrow_mut();
            while tls.wants_write() {
                tls.write_tls(&mut out).expect("a vector takes all");
            }
        }
        if !out.is_empty() {
            let _ = self.stream.send(out).await;
        }
    }

    /// The next bytes of the server; none at the end.
    async fn hear(&self) -> Result<Vec<u8>, String> {
        loop {
            let (received, buf) = self.stream.recv(vec![0; 1 << 16], 0).await;
            let count = received.map_err(|e| e.to_string())?;
            if count == 0 {
                return Ok(Vec::new());
            }
            let mut heard = Vec::new();
            let mut rest = &buf[..count];
            while !rest.is_empty() {
                let mut tls = self.tls.borrow_mut();
                tls.read_tls(&mut rest).map_err(|e| e.to_string())?;
                let state = tls.process_new_packets().map_err(|e| e.to_string())?;
                self.closed.set(state.peer_has_closed());
                // The plain text has an end only after the server's close.
                let _ = tls.reader().read_to_end(&mut heard);
            }
            if !heard.is_empty() || self.closed.get() {
                return Ok(heard);
            }
            self.flush().await;
            if !self.tls.borrow().is_handshaking() {
                return Ok(Vec::new());
            }
        }
    }

    async fn shake_hands(&self) -> Result<(), String> {
        self.flush().await;
        while self.tls.borrow().is_handshaking() {
            self.hear().await?;
            if self.tls.borrow().is_handshaking() {
                return Err("the server went".to_string());
            }
        }
        self.flush().await;
        Ok(())
    }
}

/// Negotiates in plain text until TLS begins.
async fn begin(rt: &Rt, server: &Server<RamDevice>) -> PipeEnd {
    let (ours, theirs) = pipe(rt, 1 << 16);
    server.accept(theirs, "a pipe");
    exactly(&ours, 18).await;
    let mut said = 3u32.to_be_bytes().to_vec();
    said.extend(option(opt::STARTTLS, b""));
    ours.send(said).await.0.expect("sent");
    let reply = exactly(&ours, 20).await;
    assert_eq!(reply[12..16], rep::ACK.to_be_bytes());
    ours
}

async fn exactly(stream: &PipeEnd, count: usize) -> Vec<u8> {
    let mut buf = vec![0; count];
    let mut filled = 0;
    while filled < count {
        let (received, back) = stream.recv(buf, filled).await;
        buf = back;
        let more = received.expect("a pipe does not fail");
        assert!(more > 0, "the server went");
        filled += more;
    }
    buf
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A client after the TLS handshake.
async fn connect(
    rt: &Rt,
    server: &Server<RamDevice>,
    config: &Arc<ClientConfig>,
) -> Result<(Client, Rc<Line>), String> {
    let line = Rc::new(Line::new(begin(rt, server).await, config));
    line.shake_hands().await?;
    let (ours, theirs) = pipe(rt, 1 << 16);
    let theirs = Rc::new(theirs);
    let (out, to) = (line.clone(), theirs.clone());
    rt.spawn_background("what a client says", async move {
        loop {
            let (received, buf) = to.recv(vec![0; 1 << 16], 0).await;
            let count = received.expect("a pipe does not fail");
            if count == 0 {
                return out.stream.shutdown();
            }
            let mut rest = &buf[..count];
            while !rest.is_empty() {
                let taken = out.tls.borrow_mut().writer().write(rest).expect("encrypted");
                rest = &rest[taken..];
                out.flush().await;
            }
        }
    });
    let heard = line.clone();
    rt.spawn_background("what a client hears", async move {
        loop {
            match heard.hear().await {
                Ok(bytes) if !bytes.is_empty() => drop(theirs.send(bytes).await),
                _ => return theirs.shutdown(),
            }
        }
    });
    Ok((Client::over(ours), line))
}

/// Collects the ends of clients from events.
fn ends() -> (Rc<RefCell<Vec<End>>>, impl Fn(&Event) + 'static) {
    let ends = Rc::new(RefCell::new(Vec::new()));
    let told = ends.clone();
    let tell = move |event: &Event| {
        if let Event::Ended(_, end) = event {
            told.borrow_mut().push(end.clone());
        }
    };
    (ends, tell)
}

/// Waits until this many clients have ended. Returns how the last one ended.
async fn ended(rt: &Rt, ends: &Rc<RefCell<Vec<End>>>, count: usize) -> End {
    while ends.borrow().len() < count {
        rt.sleep(Nanos::from_micros(10)).await;
    }
    ends.borrow().last().cloned().expect("an end")
}

#[test]
fn a_client_with_a_certificate_does_all_that_it_could_without_tls() {
    let (authority, place) = (Authority::new(), Rc::new(Cell::new(None)));
    let directory = Directory::new("good", &authority);
    place.set(Some(directory.tls()));
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, _) = serve_tls(&rt, 4096, Options::default(), place.take(), tell);
        let own = authority.sign(7);
        let (mut c, line) =
            connect(&rt, &server, &config(&authority, Some(&own))).await.expect("TLS");
        // TLS begins only once.
        let again = c.option(opt::STARTTLS, b"").await.expect("an answer");
        assert_eq!(again[0].0, rep::ERR_INVALID);
        let list = c.option(opt::LIST, b"").await.expect("a list");
        assert_eq!(list.len(), 4);
        c.structured().await;
        c.go("one").await.expect("the export");
        // Up to more than a record, than one send, and than one receive.
        for length in [1usize, 512, 16 << 10, 1 << 20, 5 << 20] {
            let data: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
            c.write(4096, &data).await.expect("written");
            assert!(c.read(4096, length as u32).await.expect("read") == data, "{length} bytes");
        }
        // Many requests at once.
        for i in 0..64 {
            c.ask(cmd::WRITE, 0, i * 4096, 4096, &[i as u8; 4096]).await;
        }
        for _ in 0..64 {
            assert_eq!(c.reply().await.expect("a reply").error, 0);
        }
        assert_eq!(c.read(63 * 4096, 4096).await.expect("read"), [63; 4096]);
        // The server closes TLS, so that nobody else can have ended the session.
        c.ask(cmd::DISC, 0, 0, 0, b"").await;
        assert!(c.is_left().await);
        assert!(line.closed.get(), "the end without a word");
        assert_eq!(ended(&rt, &all, 1).await, End::Gone);
    });
}

#[test]
fn nothing_is_done_in_plain_text() {
    let authority = Authority::new();
    let directory = Directory::new("plain", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), tell);
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        for (option, data) in [
            (opt::LIST, vec![]),
            (opt::STRUCTURED_REPLY, vec![]),
            (opt::INFO, Client::ask_for("one", &[])),
            (opt::GO, Client::ask_for("one", &[])),
            (opt::LIST_META_CONTEXT, vec![0; 8]),
            (opt::SET_META_CONTEXT, vec![0; 8]),
            (4711, vec![0; 8]),
            (4711, vec![0; 100_000]),
        ] {
            let replies = c.option(option, &data).await.expect("an answer");
            assert_eq!(replies.len(), 1);
            assert_eq!(replies[0].0, rep::ERR_TLS_REQD, "option {option}");
        }
        let odd = c.option(opt::STARTTLS, b"x").await.expect("an answer");
        assert_eq!(odd[0].0, rep::ERR_INVALID);
        assert_eq!(c.option(opt::ABORT, b"").await.expect("an answer")[0].0, rep::ACK);
        assert!(c.is_left().await);
        // The option takes no error, so the connection just ends.
        for flags in [0, 3] {
            let mut c = Client::connect(&rt, &server);
            c.greet(flags).await.expect("a greeting");
            c.say_option(opt::EXPORT_NAME, b"one").await;
            assert!(c.is_left().await);
        }
        assert_eq!(ended(&rt, &all, 3).await, End::Refused(Refusal::NoTls));
    });
}

/// An attacker who adds plain text before TLS begins cannot affect what comes after.
#[test]
fn what_is_said_behind_starttls_in_plain_text_is_not_taken_as_said_in_tls() {
    let authority = Authority::new();
    let directory = Directory::new("behind", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), tell);
        for (i, split) in [false, true].into_iter().enumerate() {
            let mut c = Client::connect(&rt, &server);
            c.greet(3).await.expect("a greeting");
            let more = option(opt::LIST, b"");
            let mut first = option(opt::STARTTLS, b"");
            if split {
                // They arrive after the answer was sent, and are not TLS.
                c.say(&first).await;
                assert_eq!(c.exact(20).await.expect("an answer")[12..16], rep::ACK.to_be_bytes());
                c.say(&more).await;
            } else {
                first.extend(&more);
                c.say(&first).await;
            }
            // The server sends at most an alert.
            let mut said = Vec::new();
            while let Some(byte) = c.exact(1).await {
                said.extend(byte);
            }
            assert!(said.is_empty() || split && said[0] == 21, "{said:?}");
            match ended(&rt, &all, i + 1).await {
                End::Refused(Refusal::Behind) => assert!(!split),
                End::Tls(_) => assert!(split),
                other => panic!("{other}"),
            }
        }
    });
}

#[test]
fn what_was_agreed_on_before_does_not_count() {
    let authority = Authority::new();
    let directory = Directory::new("before", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), |_| {});
        let own = authority.sign(7);
        let (mut c, _) = connect(&rt, &server, &config(&authority, Some(&own))).await.expect("TLS");
        // Metadata contexts need structured replies, agreed on in TLS.
        let data = [&0u32.to_be_bytes()[..], &0u32.to_be_bytes()].concat();
        let refused = c.option(opt::SET_META_CONTEXT, &data).await.expect("an answer");
        assert_eq!(refused[0].0, rep::ERR_INVALID);
    });
}

#[test]
fn who_has_no_good_certificate_is_not_taken() {
    let (authority, other) = (Authority::new(), Authority::new());
    let directory = Directory::new("bad", &authority);
    directory.put("ca-crl.pem", &authority.revoke(8, 2100));
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), tell);
        let (good, revoked, foreign) = (authority.sign(7), authority.sign(8), other.sign(7));
        let bad = [None, Some(&foreign), Some(&revoked)];
        for (i, own) in bad.into_iter().enumerate() {
            // With TLS 1.3 the client learns of its refusal with its first read.
            if let Ok((mut c, _)) = connect(&rt, &server, &config(&authority, own)).await {
                assert_eq!(c.option(opt::LIST, b"").await, None);
            }
            let end = ended(&rt, &all, i + 1).await;
            assert!(matches!(end, End::Tls(_)), "{i}: {end}");
        }
        // A client that trusts another authority does not trust the server.
        let suspicious = config(&other, Some(&good));
        assert!(connect(&rt, &server, &suspicious).await.is_err());
        let (mut c, _) =
            connect(&rt, &server, &config(&authority, Some(&good))).await.expect("TLS");
        c.go("one").await.expect("the export");
    });
}

#[test]
fn a_list_that_is_out_of_date_admits_nobody() {
    let authority = Authority::new();
    let directory = Directory::new("late", &authority);
    directory.put("ca-crl.pem", &authority.revoke(8, 2021));
    let tls = directory.tls();
    run(|rt| async move {
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), |_| {});
        let good = authority.sign(7);
        if let Ok((mut c, _)) = connect(&rt, &server, &config(&authority, Some(&good))).await {
            assert_eq!(c.option(opt::LIST, b"").await, None);
        }
    });
}

#[test]
fn any_client_is_taken_only_if_the_user_says_so() {
    let authority = Authority::new();
    let directory = Directory::new("any", &authority);
    // Then client certificates are not checked.
    std::fs::remove_file(directory.0.join("ca-cert.pem")).expect("it was there");
    let tls = Tls::from_dir(&directory.0, false).expect("certificates");
    run(|rt| async move {
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), |_| {});
        let (mut c, _) = connect(&rt, &server, &config(&authority, None)).await.expect("TLS");
        c.go("one").await.expect("the export");
    });
}

/// A client that stalls in the handshake is disconnected after a time. Others are served meanwhile.
#[test]
fn who_stalls_in_the_handshake_is_left_and_costs_nobody_anything() {
    let authority = Authority::new();
    let directory = Directory::new("stall", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let limits = Limits { handshake: Nanos::from_secs(5), ..Limits::default() };
        let (server, _) =
            serve_tls(&rt, 256, Options { limits, ..Options::default() }, Some(tls), tell);
        let own = authority.sign(7);
        let config = config(&authority, Some(&own));
        let mut stalled = Vec::new();
        for bytes in [0, 1, 5, 100] {
            let line = Line::new(begin(&rt, &server).await, &config);
            let mut hello = Vec::new();
            line.tls.borrow_mut().write_tls(&mut hello).expect("a hello");
            assert!(hello.len() > bytes);
            hello.truncate(bytes);
            if bytes > 0 {
                line.stream.send(hello).await.0.expect("sent");
            }
            stalled.push(line);
        }
        let (mut c, _) = connect(&rt, &server, &config).await.expect("TLS");
        c.go("one").await.expect("the export");
        c.write(0, &[1; 4096]).await.expect("written");
        assert!(all.borrow().is_empty() && rt.now() < Nanos::from_secs(1));
        assert_eq!(ended(&rt, &all, 4).await, End::TooSlow);
        assert!(rt.now() >= Nanos::from_secs(5));
        assert_eq!(c.read(0, 4096).await.expect("read"), [1; 4096]);
    });
}

/// A record that is not authentic ends the connection. Records before it count, and records after
/// it never do.
#[test]
fn a_record_that_was_tampered_with_ends_the_connection() {
    let authority = Authority::new();
    let directory = Directory::new("tampered", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, devices) = serve_tls(&rt, 256, Options::default(), Some(tls), tell);
        let own = authority.sign(7);
        let config = config(&authority, Some(&own));
        let line = Line::new(begin(&rt, &server).await, &config);
        line.shake_hands().await.expect("TLS");
        let say = |bytes: &[u8]| {
            let mut out = Vec::new();
            let mut tls = line.tls.borrow_mut();
            tls.writer().write_all(bytes).expect("encrypted");
            while tls.wants_write() {
                tls.write_tls(&mut out).expect("a vector takes all");
            }
            out
        };
        let write = |block: u64, value: u8| {
            let request = tantalum_export::nbd::Request {
                flags: 0,
                kind: cmd::WRITE,
                cookie: block,
                offset: block * 4096,
                length: 4096,
            };
            [&request.encode()[..], &[value; 4096]].concat()
        };
        let go = say(&option(opt::GO, &Client::ask_for("one", &[])));
        line.stream.send(go).await.0.expect("sent");
        assert!(!line.hear().await.expect("an answer").is_empty());
        let mut all_bytes = say(&write(1, 0xaa));
        let mut tampered = say(&write(2, 0xbb));
        *tampered.last_mut().expect("bytes") ^= 1;
        all_bytes.extend(tampered);
        all_bytes.extend(say(&write(3, 0xcc)));
        line.stream.send(all_bytes).await.0.expect("sent");
        assert_eq!(ended(&rt, &all, 1).await, End::Io(std::io::ErrorKind::InvalidData));
        use tantalum_device::{Block, BlockDevice, PowerCycle};
        let device = devices[0].device();
        for (block, value) in [(1, 0xaa), (2, 0), (3, 0)] {
            let mut data = vec![1; 4096];
            let into = tantalum_device::DataMut::Bytes(&mut data);
            device.read(Block(block), into).await.expect("read");
            assert!(data == [value; 4096], "block {block} begins with {}", data[0]);
        }
    });
}

/// A client that closes TLS in the middle of the handshake, and sends more, does not keep the
/// server busy.
#[test]
fn an_end_in_the_handshake_is_one() {
    let authority = Authority::new();
    let directory = Directory::new("end", &authority);
    let tls = directory.tls();
    run(|rt| async move {
        let (all, tell) = ends();
        let (server, _) = serve_tls(&rt, 256, Options::default(), Some(tls), tell);
        let own = authority.sign(7);
        let config = config(&authority, Some(&own));
        // An alert "close_notify" in plain text, in place of a hello and after it.
        let close = [21, 3, 3, 0, 2, 1, 0];
        for (i, hello_first) in [false, true].into_iter().enumerate() {
            let line = Line::new(begin(&rt, &server).await, &config);
            let mut said = Vec::new();
            if hello_first {
                line.tls.borrow_mut().write_tls(&mut said).expect("a hello");
            }
            said.extend(close);
            said.extend([22, 3, 3, 0, 4, 1, 0, 0, 0]);
            line.stream.send(said).await.0.expect("sent");
            let end = ended(&rt, &all, i + 1).await;
            assert!(matches!(end, End::Tls(_)), "{end}");
        }
    });
}

#[test]
fn what_is_wrong_with_a_directory_is_said() {
    let authority = Authority::new();
    let directory = Directory::new("wrong", &authority);
    let why = |dir: &Path| match Tls::from_dir(dir, true) {
        Ok(_) => panic!("{} is taken", dir.display()),
        Err(e @ (TlsError::File { .. } | TlsError::Content { .. } | TlsError::Refused(_))) => {
            e.to_string()
        }
    };
    assert!(why(Path::new("/nonexistent")).contains("/nonexistent/server-cert.pem"));
    for name in ["server-cert.pem", "server-key.pem", "ca-cert.pem", "ca-crl.pem"] {
        let was = std::fs::read_to_string(directory.0.join(name)).ok();
        directory.put(name, "nothing of use");
        assert!(why(&directory.0).contains(name), "{name}: {}", why(&directory.0));
        match was {
            Some(text) => directory.put(name, &text),
            None => std::fs::remove_file(directory.0.join(name)).expect("it is there"),
        }
    }
    directory.tls();
    // The key of another certificate.
    directory.put("server-key.pem", &authority.sign(9).key.serialize_pem());
    assert!(why(&directory.0).contains("server-cert.pem"));
}
