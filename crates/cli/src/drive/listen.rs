//! Listening where another process may have listened before.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tantalum_rt::Nanos;
use tantalum_rt::wall::{Io, Listener};

/// For how long a socket may still belong to a process that was killed.
const DYING: Nanos = Nanos::from_secs(1);

/// Listens at a UNIX socket. One whose process was just killed is closed a little later.
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

/// An address on the command line; a port alone is one of this machine's own.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
    port.or_else(|_| text.parse::<SocketAddr>())
        .map_err(|_| "it should be a port, or an address as 192.0.2.1:10809, [::1]:10809".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        assert_eq!(address("7"), Ok("127.0.0.1:7".parse().unwrap()));
        assert_eq!(address("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(address("drive:7").is_err());
    }
}
