//! Where a node listens, as text and back. What is done with an address is up to the links.

use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a node listens: `unix:@name`, `unix:/path` or `tcp:1.2.3.4:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix stream socket, for nodes of one host.
    Unix(UnixName),
    /// A TCP socket.
    Tcp(SocketAddr),
}

/// The kinds of address, each of which other backends serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// [`Address::Unix`].
    Unix,
    /// [`Address::Tcp`].
    Tcp,
}

impl AddressKind {
    /// Whether links to such an address may lead to other hosts.
    #[must_use]
    pub fn leave_host(self) -> bool {
        match self {
            Self::Unix => false,
            Self::Tcp => true,
        }
    }
}

impl Address {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> AddressKind {
        match self {
            Self::Unix(_) => AddressKind::Unix,
            Self::Tcp(_) => AddressKind::Tcp,
        }
    }
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
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |why| AddressError { text: text.to_owned(), why };
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
            let address =
                host.parse().map_err(|_| wrong("an address of TCP is tcp:1.2.3.4:port"))?;
            return Ok(Self::Tcp(address));
        }
        Err(wrong("an address is unix:@name, unix:/path or tcp:1.2.3.4:port"))
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

/// Where a firewall lets nodes listen: ports from the one to the other, `30000-30100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Each of them, ascending.
    #[must_use]
    pub fn all(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl FromStr for Ports {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |why| AddressError { text: text.to_owned(), why };
        let form = || wrong("a range of ports is FIRST-LAST, such as 30000-30100");
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true if !text.is_empty() => Ok(text.parse::<u16>().ok().filter(|&port| port > 0)),
            true | false => Err(form()),
        };
        let (first, last) = text.split_once('-').ok_or_else(form)?;
        let (Some(first), Some(last)) = (number(first)?, number(last)?) else {
            return Err(wrong("ports are numbers from 1 to 65535"));
        };
        let order = "the first port of a range is the lower one, as in 30000-30100";
        if first > last { Err(wrong(order)) } else { Ok(Self { first, last }) }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' will not do: {why}")]
pub struct AddressError {
    text: String,
    why: &'static str,
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
    fn a_range_of_ports_reads_back_what_it_prints_and_others_are_refused() {
        assert_eq!("30000-30100".parse::<Ports>().unwrap().to_string(), "30000-30100");
        assert_eq!("7-7".parse::<Ports>().unwrap().all(), 7..=7);
        let why = |wrong: &str| wrong.parse::<Ports>().unwrap_err().to_string();
        for wrong in ["", "7", "x", "1-2-3", "-5", "5-", "+5-9", "1-x"] {
            assert!(why(wrong).contains("FIRST-LAST"), "{}", why(wrong));
        }
        for wrong in ["0-7", "1-70000", "70000-99999999999999999999"] {
            assert!(why(wrong).contains("from 1 to 65535"), "{}", why(wrong));
        }
        assert!(why("9-8").contains("the lower one"), "{}", why("9-8"));
    }

    #[test]
    fn text_that_is_no_address_is_named_in_the_error() {
        for text in ["", "unix:@", "unix:relative", "tcp:host:1", "tcp:1.2.3.4", "http://x"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }
}
