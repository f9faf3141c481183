//! Where a node listens, and the sockets for it.
//!
//! Role: text to address, address to listening or connecting socket, and the options every link
//! socket gets. It must not know who may connect.

use crate::error::TransportError;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Waiting connections a listening socket holds; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// Asked for as buffer of a Unix link, in bytes; the kernel caps it at net.core.wmem_max.
const UNIX_BUFFER_BYTES: usize = 4 << 20;
/// A silent TCP peer is probed after this time, and then every second.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 5;
/// Unacknowledged bytes older than this end a TCP link, in milliseconds.
const TCP_USER_TIMEOUT_MS: u32 = 30_000;

/// Where a node listens: `unix:@name`, `unix:/path` or `tcp:1.2.3.4:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix stream socket, for nodes of one host.
    Unix(UnixName),
    /// A TCP socket.
    Tcp(SocketAddr),
}

/// The two sorts of name a Unix socket has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnixName {
    /// In the abstract namespace: leaves no file behind.
    Abstract(String),
    /// A file; whoever binds it removes it.
    Path(PathBuf),
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        let wrong = |why| TransportError::Address { text: text.to_owned(), why };
        if let Some(name) = text.strip_prefix("unix:@") {
            if name.is_empty() || name.len() > 107 {
                return Err(wrong("an abstract name has 1 to 107 bytes"));
            }
            return Ok(Self::Unix(UnixName::Abstract(name.to_owned())));
        }
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') || path.len() > 107 {
                return Err(wrong("a socket path is absolute and has at most 107 bytes"));
            }
            return Ok(Self::Unix(UnixName::Path(PathBuf::from(path))));
        }
        if let Some(host) = text.strip_prefix("tcp:") {
            let address = host.parse().map_err(|_| wrong("expected a numeric host and a port"))?;
            return Ok(Self::Tcp(address));
        }
        Err(wrong("unknown scheme"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(UnixName::Abstract(name)) => write!(out, "unix:@{name}"),
            Self::Unix(UnixName::Path(path)) => write!(out, "unix:{}", path.display()),
            Self::Tcp(address) => write!(out, "tcp:{address}"),
        }
    }
}

fn unix_name(name: &UnixName) -> Result<SocketAddrUnix, Errno> {
    match name {
        UnixName::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        UnixName::Path(path) => SocketAddrUnix::new(path),
    }
}

fn family(address: &SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn stream(family: AddressFamily, flags: SocketFlags) -> Result<OwnedFd, Errno> {
    net::socket_with(family, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)
}

/// A listening socket (close-on-exec) at `address`, and the address with its port resolved.
///
/// # Errors
/// [`TransportError::Bind`] when the kernel does not give it.
pub fn bind(address: &Address) -> Result<(OwnedFd, Address), TransportError> {
    listen(address).map_err(|errno| TransportError::Bind { address: address.clone(), errno })
}

fn listen(address: &Address) -> Result<(OwnedFd, Address), Errno> {
    match address {
        Address::Unix(name) => {
            let socket = stream(AddressFamily::UNIX, SocketFlags::empty())?;
            net::bind(&socket, &unix_name(name)?)?;
            net::listen(&socket, BACKLOG)?;
            Ok((socket, address.clone()))
        }
        Address::Tcp(tcp) => {
            let socket = stream(family(tcp), SocketFlags::empty())?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            net::bind(&socket, tcp)?;
            net::listen(&socket, BACKLOG)?;
            let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
            Ok((socket, Address::Tcp(bound)))
        }
    }
}

/// A socket on its way to `address`; it is connected when it is writable. A Unix connect waits
/// here, for `patience` at most, while the listener's backlog is full.
pub(crate) fn connect(address: &Address, patience: Duration) -> Result<OwnedFd, Errno> {
    match address {
        Address::Unix(name) => {
            let socket = stream(AddressFamily::UNIX, SocketFlags::empty())?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
            net::connect(&socket, &unix_name(name)?)?;
            Ok(socket)
        }
        Address::Tcp(tcp) => {
            let socket = stream(family(tcp), SocketFlags::NONBLOCK)?;
            match net::connect(&socket, tcp) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(errno) => Err(errno),
            }
        }
    }
}

/// Gives a link's socket the options for short round trips and for noticing a dead host.
pub(crate) fn tune(socket: impl AsFd) -> Result<(), Errno> {
    let socket = socket.as_fd();
    if sockopt::socket_domain(socket)? == AddressFamily::UNIX {
        sockopt::set_socket_send_buffer_size(socket, UNIX_BUFFER_BYTES)?;
        return sockopt::set_socket_recv_buffer_size(socket, UNIX_BUFFER_BYTES);
    }
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(socket, TCP_USER_TIMEOUT_MS)
}

/// Who is at the other end, in words, for one line of complaint.
pub(crate) fn describe(socket: impl AsFd) -> String {
    let socket = socket.as_fd();
    if let Ok(credentials) = sockopt::socket_peercred(socket)
        && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
    {
        let (pid, uid) = (credentials.pid.as_raw_nonzero(), credentials.uid.as_raw());
        return format!("process {pid} of user {uid}");
    }
    let address = net::getpeername(socket).ok().flatten().map(SocketAddr::try_from);
    match address {
        Some(Ok(address)) => address.to_string(),
        Some(Err(_)) | None => "an unknown address".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_what_they_print() {
        for text in ["unix:@job-1.0", "unix:/tmp/x.sock", "tcp:127.0.0.1:80", "tcp:[::1]:9"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn text_that_is_no_address_is_named_in_the_error() {
        for text in ["", "unix:@", "unix:relative", "tcp:host:1", "tcp:1.2.3.4", "http://x"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn binding_port_zero_gives_the_real_port() {
        let (_socket, address) = bind(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(matches!(address, Address::Tcp(bound) if bound.port() != 0));
    }
}
