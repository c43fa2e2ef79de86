//! Listening where another process may have listened before.

use crate::out;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use tantalum_rt::Nanos;
use tantalum_rt::wall::{Io, Listener};

/// How long a socket may still belong to a process that was just killed.
const DYING: Nanos = Nanos::from_secs(1);

/// Listens at a UNIX socket. The socket of a process that was just killed closes a little later, so
/// it tries again for that long.
pub async fn unix(listen: impl Fn() -> io::Result<Listener>, io: &Io) -> io::Result<Listener> {
    let mut left = DYING;
    loop {
        match listen() {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse && left > Nanos::ZERO => {
                let step = Nanos::from_millis(50);
                io.sleep(step).await;
                left = left.saturating_sub(step);
            }
            listener => return listener,
        }
    }
}

/// Why nobody can listen at this path. The request is invalid, as that of a file that cannot be made
/// or is in use.
pub fn no_socket(path: &Path, error: &io::Error) -> (String, u8) {
    (out::cannot("listen at", path, error), out::USAGE)
}

/// The same of an address, for what `does` says.
pub fn no_address(does: &str, at: SocketAddr, error: &io::Error) -> (String, u8) {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => out::IN_USE.to_string(),
        io::ErrorKind::PermissionDenied => {
            "you may not use that port: give one from 1024 on, or run this as root".to_string()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: give one of its own".to_string()
        }
        _ => error.to_string(),
    };
    (format!("cannot {does} {at}: {why}"), out::USAGE)
}

/// An address on the command line; a port alone is on 127.0.0.1.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    port.or_else(|_| text.parse::<SocketAddr>())
        .map_err(|_| "it should be a port, or an address as 192.0.2.1:10809, [::1]:10809".into())
}

/// The mode of a socket on the command line.
pub fn mode(text: &str) -> Result<u32, String> {
    let octal = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mode = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "it should be an octal number from 0 to 777, as in 660".to_string())
}

/// Whether programs on other machines may reach this address.
pub fn is_for_others(at: SocketAddr) -> bool {
    !at.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machines_own() {
        for own in ["127.0.0.1:7", "127.3.2.1:7", "[::1]:7", "[::ffff:127.0.0.1]:7"] {
            assert!(!is_for_others(own.parse().unwrap()), "{own}");
        }
        for others in ["0.0.0.0:7", "192.0.2.1:7", "[::]:7", "[::ffff:192.0.2.1]:7", "[fe80::1]:7"]
        {
            assert!(is_for_others(others.parse().unwrap()), "{others}");
        }
    }

    #[test]
    fn modes_are_octal() {
        for (text, want) in [("660", 0o660), ("0600", 0o600), ("0", 0), ("777", 0o777)] {
            assert_eq!(mode(text), Ok(want), "{text}");
        }
        for text in ["", "rw", "1777", "680", "+66", "0o600", "-1", "99999999999999"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(address("7"), Ok("127.0.0.1:7".parse().unwrap()));
        assert_eq!(address("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(address("drive:7").is_err());
    }
}
