//! `tantalum drive serve`: a drive as a network block device.

use super::create;
use crate::out;
use clap::{Args, ValueEnum};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tantalum_device::{BlockDevice, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_export::activation;
use tantalum_export::nbd::{Event, Export, Limits, OnCut, Options, Server, Volume};
use tantalum_lab::model;
use tantalum_rt::wall::{Backend, Io, Listener, Signal, WallOptions};
use tantalum_rt::{First, Nanos, Rt, Runtime, first};

/// What clients that do not take their answers are waited for at the end.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// For how long a socket may still belong to a process that was killed.
const DYING: Nanos = Nanos::from_secs(1);

/// Arguments of `tantalum drive serve`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive create disk.img --design durassd --capacity 16GiB
  tantalum drive serve disk.img --unix /tmp/drive.sock
  tantalum drive serve --design volatile --capacity 8GiB --tcp 10809 --time-scale 0

Once it can be used, a line for each address says how, for instance
\"nbd+unix:///drive?socket=/tmp/drive.sock\". What clients do with that (U):
  nbdinfo U                                            what there is
  nbdcopy disk.img U                                   copy a file to it
  nbdcopy U disk.img                                   and back
  qemu-img convert -n -O raw disk.qcow2 U              an image of qemu's
  fio --name=x --ioengine=nbd --uri=U --rw=randwrite --bs=4k --iodepth=32 --size=1g
  nbd-client -unix /tmp/drive.sock -N drive /dev/nbd0  as a disk of the kernel

SIGINT and SIGTERM stop it: what is under way is answered before, and the drive loses its power in
good order. To kill it is a power cut: what the drive protects is dumped to its flash by the next one
that uses the image.")]
pub struct ServeArguments {
    /// The image of the drive (see `tantalum drive create`)
    #[arg(value_name = "IMAGE", required_unless_present = "design", conflicts_with = "design")]
    image: Option<PathBuf>,
    /// A blank drive in memory instead, of this design (see `tantalum designs`)
    #[arg(long, value_name = "DESIGN")]
    design: Option<String>,
    /// Its capacity, at least, for instance 8GiB; else the design's own. Memory is taken for what is
    /// written
    #[arg(long, value_name = "SIZE", value_parser = create::bytes, requires = "design")]
    capacity: Option<u64>,
    /// Listen at a UNIX socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Listen at a TCP address; a port alone is one of this machine's own (127.0.0.1), without
    /// anything it is 10809
    #[arg(long, value_name = "[HOST:]PORT", value_parser = parse_tcp, num_args = 0..=1,
          default_missing_value = "10809")]
    tcp: Option<SocketAddr>,
    /// The name of the export; clients that name none get it too
    #[arg(long, value_name = "NAME", default_value = "drive")]
    export: String,
    /// The drive can only be read
    #[arg(long)]
    read_only: bool,
    /// Export it under this name too, to be read only
    #[arg(long, value_name = "NAME")]
    reader: Vec<String>,
    /// Real seconds for each second of the drive's: 1 for its modelled latencies, 0 for as fast
    /// as the code goes
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    time_scale: f64,
    /// How clients notice that the power was cut
    #[arg(long, value_enum, default_value_t = Cut::Errors)]
    on_cut: Cut,
    /// Clients at a time, at most
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    clients: u32,
    /// Requests in flight of each client, at most
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests)]
    requests: u32,
    /// The longest request, in KiB
    #[arg(long, value_name = "KIB", default_value_t = Limits::default().payload >> 10)]
    longest: u32,
    /// What carries out I/O
    #[arg(long, value_enum, default_value_t = IoBackend::Auto)]
    io: IoBackend,
    /// Microseconds to spin before a timer is due, at most: punctuality for processor time
    #[arg(long, value_name = "US", default_value_t = 60)]
    spin: u64,
    /// The seed of whatever is random in the drive
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Say which clients come and go
    #[arg(long, short)]
    verbose: bool,
}

/// How clients notice a cut.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cut {
    /// Their commands fail, until they connect again after the power is back
    Errors,
    /// Their connections drop
    Drop,
}

/// What carries out I/O.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum IoBackend {
    /// io_uring, or poll where that is denied
    Auto,
    /// io_uring
    Uring,
    /// poll, read and write
    Poll,
}

fn parse_tcp(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    port.or_else(|_| text.parse::<SocketAddr>())
        .map_err(|_| "it should be a port, or an address as 192.0.2.1:10809, [::1]:10809".into())
}

/// Carries it out; gives the exit code.
pub fn serve(arguments: &ServeArguments) -> u8 {
    let design = match arguments.design.as_deref().map(|name| design(name, arguments.capacity)) {
        None => None,
        Some(Ok(design)) => Some(design),
        Some(Err(message)) => return out::error(message, out::USAGE),
    };
    match run(arguments, design.as_ref()) {
        Ok(()) => out::OK,
        Err(message) => out::error(message, out::FAILED),
    }
}

fn design(name: &str, capacity: Option<u64>) -> Result<Design, String> {
    let mut design = model::ssd_preset(name)?;
    if let Some(bytes) = capacity {
        design = design.with_capacity(bytes).map_err(|e| e.to_string())?;
    }
    design.check().map_err(|e| e.to_string())?;
    Ok(design)
}

/// The drive to be served, without power.
fn plug(rt: &Rt, arguments: &ServeArguments, design: Option<&Design>) -> Result<Drive, String> {
    match (&arguments.image, design) {
        (Some(path), _) => {
            Drive::on_image(rt, path).map_err(|e| format!("{}: {e}", path.display()))
        }
        (None, Some(design)) => Drive::new(rt, design, Payload::Bytes).map_err(|e| e.to_string()),
        (None, None) => Err("give an image, or a design".to_string()),
    }
}

fn run(arguments: &ServeArguments, design: Option<&Design>) -> Result<(), String> {
    let backend = match arguments.io {
        IoBackend::Auto => Backend::Auto,
        IoBackend::Uring => Backend::Uring,
        IoBackend::Poll => Backend::Poll,
    };
    let options = WallOptions {
        io: backend,
        time_scale: arguments.time_scale,
        spin: Nanos::from_micros(arguments.spin),
    };
    let mut runtime = Runtime::wall_time(arguments.seed, options)
        .map_err(|e| format!("the wall clock does not start: {e}"))?;
    let rt = runtime.handle();
    let io = rt.io().ok_or("the clock has no way to sockets")?;
    let drive = plug(&rt, arguments, design)?;
    let server = server(&rt, arguments, &drive)?;
    let places = Places {
        name: escape(&arguments.export),
        unix: arguments.unix.clone(),
        tcp: arguments.tcp,
    };
    let live = async move {
        let listeners = listeners(&io, &places).await?;
        live(rt, io, drive, server, listeners).await
    };
    runtime.block_on(live).map_err(|e| format!("the drive stands still: {e}"))?
}

fn server(rt: &Rt, arguments: &ServeArguments, drive: &Drive) -> Result<Server<Drive>, String> {
    let volume = Volume::new(rt, drive.clone());
    let about = format!("{} by tantalum", drive.design().name);
    let export = |name: &String| Export::new(name, &volume).described(about.clone());
    let main = export(&arguments.export);
    let mut exports = vec![if arguments.read_only { main.read_only() } else { main }];
    exports.extend(arguments.reader.iter().map(|name| export(name).read_only()));
    let limits = Limits {
        clients: arguments.clients,
        requests: arguments.requests,
        payload: arguments.longest.saturating_mul(1 << 10),
        ..Limits::default()
    };
    let on_cut = match arguments.on_cut {
        Cut::Errors => OnCut::Errors,
        Cut::Drop => OnCut::Drop,
    };
    let verbose = arguments.verbose;
    let tell = move |event: &Event| {
        if verbose {
            out::note(event);
        }
    };
    Server::new(rt, exports, Options { limits, on_cut }, tell).map_err(|e| e.to_string())
}

/// Where to listen, beside what is handed over.
struct Places {
    /// Of the export, as a part of an address.
    name: String,
    unix: Option<PathBuf>,
    tcp: Option<SocketAddr>,
}

/// Listens at a UNIX socket. One whose process was just killed is closed a little later.
async fn listen_unix(io: &Io, path: &Path) -> io::Result<Listener> {
    let mut left = DYING;
    loop {
        match io.listen_unix(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && left > Nanos::ZERO => {
                let step = Nanos::from_millis(50);
                io.sleep(step).await;
                left = left.saturating_sub(step);
            }
            listener => return listener,
        }
    }
}

/// Where to listen, and how to get there.
async fn listeners(io: &Io, places: &Places) -> Result<Vec<(Listener, String)>, String> {
    let name = &places.name;
    let mut all = Vec::new();
    for fd in activation::descriptors().map_err(|e| e.to_string())? {
        let listener = io.from_fd(fd).map_err(|e| format!("a socket that was handed over: {e}"))?;
        let uri = match listener.address() {
            Ok(address) => format!("nbd://{address}/{name}"),
            Err(_) => "a socket that was handed over".to_string(),
        };
        all.push((listener, uri));
    }
    if let Some(path) = &places.unix {
        let listener = listen_unix(io, path).await.map_err(|e| cannot(path.display(), &e))?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        all.push((listener, format!("nbd+unix:///{name}?socket={}", escape_path(&path))));
    }
    if let Some(at) = places.tcp {
        let listener = io.listen_tcp(at).map_err(|e| cannot(at, &e))?;
        let at = listener.address().map_err(|e| cannot(at, &e))?;
        if !at.ip().is_loopback() {
            out::note("note: whoever reaches this address can read and write the drive");
        }
        all.push((listener, format!("nbd://{at}/{name}")));
    }
    match all.is_empty() {
        true => Err("there is nowhere to listen: give --unix PATH or --tcp PORT".to_string()),
        false => Ok(all),
    }
}

fn cannot(what: impl std::fmt::Display, error: &io::Error) -> String {
    format!("can not listen at {what}: {error}")
}

/// As a part of an address.
fn escape(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let each = |b: u8| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") };
    name.bytes().map(each).collect()
}

fn escape_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// The drive's life: from power to the signal that ends it.
async fn live(
    rt: Rt,
    io: Io,
    drive: Drive,
    server: Server<Drive>,
    listeners: Vec<(Listener, String)>,
) -> Result<(), String> {
    let mut signals = io
        .signals(&[Signal::Interrupt, Signal::Terminate])
        .map_err(|e| format!("can not wait for signals: {e}"))?;
    {
        // Somebody waits for it: at time scale 0 its flash is not waited for.
        let _announced = rt.outstanding("the start of the drive");
        drive.start().await.map_err(|e| match drive.last_failure() {
            Some(failure) => failure.to_string(),
            None => e.to_string(),
        })?;
    }
    let mut addresses = String::new();
    for (listener, uri) in listeners {
        let server = server.clone();
        rt.spawn_background("clients to come", async move { server.serve(listener).await });
        addresses.push_str(&uri);
        addresses.push('\n');
    }
    out::bytes(addresses.as_bytes());
    signals.next().await.map_err(|e| format!("can not wait for signals: {e}"))?;
    let stop = async {
        if !server.stop(PATIENCE).await {
            out::note("some clients did not take their answers");
        }
        let flushed = drive.device().flush().await;
        let _announced = rt.outstanding("the end of the drive");
        drive.cut();
        drive.off().await;
        flushed.map_err(|e| format!("the last flush failed: {e}"))
    };
    match first(stop, signals.next()).await {
        First::A(stopped) => stopped,
        First::B(_) => Err("stopped at once, as asked for twice".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(parse_tcp("7"), Ok("127.0.0.1:7".parse().unwrap()));
        assert_eq!(parse_tcp("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(parse_tcp("drive:7").is_err());
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("my drive?"), "my%20drive%3F");
    }
}
