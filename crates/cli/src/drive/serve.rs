//! `tantalum drive serve`: a drive as a network block device.

use super::listen;
use super::live::{
    self, Build, Failure, Front, Live, LiveArguments, OnCut, ServedBox, Site, Trouble,
};
use crate::members::Group;
use crate::{out, units};
use clap::Args;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tantalum_device::LiveBox;
use tantalum_export::activation;
use tantalum_export::control::Clients;
use tantalum_export::nbd::{Event, Export, Limits, Options, Server, Tls, Volume};
use tantalum_rt::wall::{Io, Listener};
use tantalum_rt::{Nanos, Rt};

/// How long the end waits for clients that do not take their answers.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// Arguments of `tantalum drive serve`.
#[derive(Args, Clone)]
#[command(
    override_usage = "tantalum drive serve [OPTIONS] IMAGE\n       \
                      tantalum drive serve [OPTIONS] --design DESIGN | --disk MODEL | --ram SIZE | --file PATH",
    after_help = "\
Examples:
  tantalum drive create disk.img --design durassd --capacity 16GiB
  tantalum drive serve disk.img --unix drive.sock
  tantalum drive serve --design volatile --capacity 8GiB --tcp 10809 --time-scale 0
  tantalum drive serve --ram 1GiB --unix ram.sock --control ram.control
  tantalum drive serve --disk 4xdisk-15k --capacity 8GiB --unix raid.sock
  tantalum drive serve --file /dev/sdb --unix sdb.sock
  tantalum drive serve --file disk.raw --capacity 8GiB --unix raw.sock
  tantalum drive serve disk.img --tcp 192.0.2.1:10809 --tls /etc/pki/tantalum

When the drive is ready, a line for each address prints its URI, for instance
\"nbd+unix:///drive?socket=/srv/drive.sock\". Clients use this URI (U):
  nbdinfo U                                            what there is
  nbdcopy disk.raw U                                   copy a file of whole blocks to it
                                       (`truncate -s %4096 disk.raw` fills the last one)
  nbdcopy U disk.raw                                   and back
  qemu-img convert -n -O raw disk.qcow2 U              an image of qemu's
  fio --name=x --ioengine=nbd --uri=U --rw=randwrite --bs=4k --iodepth=32 --size=1g
  nbd-client -unix drive.sock -N drive /dev/nbd0  as a disk of the kernel

A socket opened by systemd (LISTEN_FDS) is served, too, without --unix or --tcp;
its unit needs Accept=no. docs/control.md has a pair of units.

Power cuts, from another terminal:
  tantalum drive cut disk.img                          cuts the power, with I/O in flight
  tantalum drive restore disk.img                      restores it: clients connect again
  tantalum drive serve disk.img --unix S --cut-every 5s..20s --restore-after 1s
                                                       does both automatically, at random

SIGINT and SIGTERM stop the server: requests under way are answered first, and
the drive is switched off in good order. Killing the process is a power cut: the
next process that uses the image dumps the protected memory to flash.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be served; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready."
)]
pub struct ServeArguments {
    /// The image of the drive (see `tantalum drive create`); not with --design, --disk, --ram or
    /// --file
    #[arg(value_name = "IMAGE", conflicts_with = "blank")]
    image: Option<PathBuf>,
    /// Listen at a UNIX socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Who may connect to the UNIX socket, as the octal mode of its file: 660 also admits its group
    #[arg(long, value_name = "MODE", value_parser = listen::mode, default_value = "600",
          requires = "unix")]
    mode: u32,
    /// Listen at a TCP address; a port alone is on 127.0.0.1, the default port is 10809
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen::address, num_args = 0..=1,
          default_missing_value = "10809")]
    tcp: Option<SocketAddr>,
    /// Require TLS on all sockets. The directory has ca-cert.pem, server-cert.pem, server-key.pem
    /// and optionally ca-crl.pem; clients must have a certificate of that authority (docs/tls.md)
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Also admit clients without a certificate: TLS then only encrypts the traffic
    #[arg(long, requires = "tls")]
    tls_any_client: bool,
    /// The name of the export; clients that name none also get it
    #[arg(long, value_name = "NAME", default_value = "drive")]
    export: String,
    /// Serve the drive read-only. A file of --file is opened for reading only
    #[arg(long)]
    read_only: bool,
    /// Also export the drive under this name, read-only
    #[arg(long, value_name = "NAME")]
    reader: Vec<String>,
    /// Most clients at the same time
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients,
          value_parser = units::whole::<u32>(..))]
    clients: u32,
    /// Most requests in flight of each client
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests,
          value_parser = units::whole::<u32>(..))]
    requests: u32,
    /// The longest request: 1MiB; a number alone is of KiB
    #[arg(long, value_name = "SIZE", default_value = "32MiB",
          value_parser = units::bytes_within::<u32>(64 << 10..=1 << 30, 1 << 10))]
    longest: u32,
    /// Most memory for requests and answers of all clients together
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "256MiB")]
    memory: u64,
    /// Print when clients connect and disconnect
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    live: LiveArguments,
}

/// Runs the command; returns the exit code.
pub fn serve(arguments: &ServeArguments, of: Option<Group>) -> u8 {
    if let Err(e) = limits(arguments).check() {
        return out::error(e, out::USAGE);
    }
    if let Some(at) = arguments.tcp
        && let Err(why) = may_listen(at, arguments)
    {
        return out::error(why, out::USAGE);
    }
    let tls = arguments.tls.as_deref().map(|dir| Tls::from_dir(dir, !arguments.tls_any_client));
    let tls = match tls.transpose() {
        Ok(tls) => tls,
        Err(e) => return out::error(format_args!("--tls: {e}"), out::FAILED),
    };
    let build = Serve { arguments: arguments.clone(), tls };
    live::run(&arguments.live, arguments.image.as_deref(), of, build)
}

/// Checks that clients of this address must have a certificate, or that the user waives this.
fn may_listen(at: SocketAddr, arguments: &ServeArguments) -> Result<(), String> {
    let known = arguments.tls.is_some() && !arguments.tls_any_client;
    if known || arguments.live.insecure || !listen::is_for_others(at) {
        return Ok(());
    }
    let way = match arguments.tls {
        Some(_) => "leave --tls-any-client out",
        None => "let clients show a certificate with --tls DIR",
    };
    Err(format!(
        "{at}: everybody who reaches this address could read and write the drive: {way}, or allow this \
         with --insecure"
    ))
}

fn usage(why: String) -> Failure {
    (why, out::USAGE)
}

/// How the server is built.
struct Serve {
    arguments: ServeArguments,
    tls: Option<Tls>,
}

impl Build for Serve {
    type Front = NbdFront<ServedBox>;

    fn is_read_only(&self) -> bool {
        self.arguments.read_only
    }

    async fn build(self, site: Site<ServedBox>) -> Result<NbdFront<ServedBox>, Failure> {
        NbdFront::new(site, &self.arguments, self.tls).await
    }
}

/// The server in front of the box.
struct NbdFront<B: LiveBox> {
    rt: Rt,
    server: Server<Live<B>>,
    /// Listeners that are not served yet, each with its URI.
    listeners: RefCell<Vec<(Listener, String)>>,
    on_cut: OnCut,
    limits: Limits,
}

impl<B: LiveBox> NbdFront<B> {
    async fn new(
        site: Site<B>,
        arguments: &ServeArguments,
        tls: Option<Tls>,
    ) -> Result<NbdFront<B>, Failure> {
        let server = server(&site, arguments, tls).map_err(usage)?;
        let listeners = RefCell::new(listeners(&site.io, arguments).await?);
        let (on_cut, limits) = (arguments.live.on_cut, limits(arguments));
        Ok(NbdFront { rt: site.rt, server, listeners, on_cut, limits })
    }
}

impl<B: LiveBox> Front for NbdFront<B> {
    async fn start(&self) -> Result<String, String> {
        let mut addresses = String::new();
        for (listener, uri) in self.listeners.take() {
            let server = self.server.clone();
            let serve = async move { server.serve(listener).await };
            self.rt.spawn_background("clients to come", serve);
            addresses.push_str(&uri);
            addresses.push('\n');
        }
        Ok(addresses)
    }

    async fn cut(&self) {
        if self.on_cut == OnCut::Drop {
            self.server.drop_clients();
        }
    }

    async fn before_restore(&self) -> Result<(), String> {
        Ok(())
    }

    async fn after_restore(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    async fn stop(&self) -> Result<(), String> {
        if !self.server.stop(PATIENCE).await {
            out::note("some clients did not take their answers");
        }
        Ok(())
    }

    fn descriptors(&self) -> (u64, u64) {
        (1, self.limits.clients.into())
    }

    fn clients(&self) -> Option<Clients> {
        let memory = self.server.memory();
        Some(Clients {
            connected: self.server.clients() as u64,
            memory_limit_bytes: memory.limit,
            memory_bytes: memory.used,
            memory_most_bytes: memory.most,
            waiting: memory.waiting,
        })
    }
}

fn limits(arguments: &ServeArguments) -> Limits {
    Limits {
        clients: arguments.clients,
        requests: arguments.requests,
        payload: arguments.longest,
        memory: arguments.memory,
        ..Limits::default()
    }
}

fn server<B: LiveBox>(
    site: &Site<B>,
    arguments: &ServeArguments,
    tls: Option<Tls>,
) -> Result<Server<Live<B>>, String> {
    let Site { rt, drive, .. } = site;
    let volume = Volume::new(rt, drive.clone());
    let about = format!("{} by tantalum", drive.inner().title());
    let export = |name: &String| Export::new(name, &volume).described(about.clone());
    let main = export(&arguments.export);
    let mut exports = vec![if arguments.read_only { main.read_only() } else { main }];
    exports.extend(arguments.reader.iter().map(|name| export(name).read_only()));
    let limits = limits(arguments);
    let on_cut = arguments.live.on_cut.into();
    let verbose = arguments.verbose;
    let trouble = Trouble::new(&site.io);
    let tell = move |event: &Event| match event {
        Event::Trouble(_) => trouble.tell(event),
        event if verbose => out::note(event),
        _ => {}
    };
    let options = Options { limits, on_cut };
    Server::with_tls(rt, exports, options, tls, tell).map_err(|e| e.to_string())
}

/// The error if systemd passes a connection instead of a socket to listen at.
const CONNECTION: &str = "systemd passed a connection, not a listening socket: one process serves all \
                          clients of a drive, so its socket unit needs Accept=no";

const NOWHERE: &str = "no place to listen: give --unix PATH or --tcp PORT, or a socket of systemd \
                       (LISTEN_FDS)";

/// All listeners, each with its URI.
async fn listeners(
    io: &Io,
    arguments: &ServeArguments,
) -> Result<Vec<(Listener, String)>, Failure> {
    let failed = |why: String| (why, out::FAILED);
    let name = &escape(&arguments.export);
    let scheme = if arguments.tls.is_some() { "nbds" } else { "nbd" };
    let mut all = Vec::new();
    for fd in activation::descriptors().map_err(|e| failed(e.to_string()))? {
        if activation::is_connection(&fd) {
            return Err(usage(CONNECTION.to_string()));
        }
        let listener = io.from_fd(fd);
        let listener = listener.map_err(|e| failed(format!("a socket passed by systemd: {e}")))?;
        let uri = match listener.address() {
            Ok(address) => {
                may_listen(address, arguments).map_err(usage)?;
                warn(address, arguments);
                format!("{scheme}://{address}/{name}")
            }
            Err(_) => "a socket passed by systemd".to_string(),
        };
        all.push((listener, uri));
    }
    if let Some(path) = &arguments.unix {
        let listener = listen::unix(|| io.listen_unix_as(path, arguments.mode), io).await;
        let listener = listener.map_err(|e| listen::no_socket(path, &e))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        all.push((listener, format!("{scheme}+unix:///{name}?socket={}", escape_path(&path))));
    }
    if let Some(at) = arguments.tcp {
        let cannot = |e| listen::no_address("listen at", at, &e);
        let listener = io.listen_tcp(at).map_err(cannot)?;
        let at = listener.address().map_err(cannot)?;
        warn(at, arguments);
        all.push((listener, format!("{scheme}://{at}/{name}")));
    }
    match all.is_empty() {
        // inetd, and systemd with StandardInput=socket, pass a connection as standard input.
        true if activation::is_connection(io::stdin()) => Err(usage(CONNECTION.to_string())),
        true => Err(usage(NOWHERE.to_string())),
        false => Ok(all),
    }
}

/// Warns if everybody can use this address.
fn warn(at: SocketAddr, arguments: &ServeArguments) {
    let known = arguments.tls.is_some() && !arguments.tls_any_client;
    if !known && listen::is_for_others(at) {
        out::note(format_args!("note: everybody who reaches {at} can read and write the drive"));
    }
}

/// The name as part of a URI.
fn escape(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let each = |b: u8| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") };
    name.bytes().map(each).collect()
}

fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("my drive?"), "my%20drive%3F");
    }
}
