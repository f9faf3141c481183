//! What a user or a program chooses to carry a job's messages: a backend by its name, or `auto`.

use super::{BACKENDS, Backend};
use crate::address::{Address, AddressKind, Ports};
use crate::error::TransportError;
use core::fmt;
use core::str::FromStr;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What carries the messages of a job: one backend, or for each address the first that serves it.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Transport(Option<&'static dyn Backend>);

impl Transport {
    /// For each address the first backend that serves it: Unix sockets within a host, TCP between hosts.
    pub const AUTO: Self = Self(None);

    /// All that can be chosen.
    pub fn all() -> impl Iterator<Item = Self> {
        core::iter::once(Self::AUTO).chain(BACKENDS.iter().map(|&backend| Self(Some(backend))))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.map_or("auto", Backend::name)
    }

    /// What it is, for a help text.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.0.map_or("Unix sockets between nodes of one host, TCP between others", Backend::help)
    }

    /// Whether nodes reach each other at such addresses, too.
    #[must_use]
    pub fn uses(self, addresses: AddressKind) -> bool {
        self.0.is_none_or(|backend| backend.addresses() == addresses)
    }

    /// Who makes the links of an address.
    pub(super) fn serving(self, address: &Address) -> Result<&'static dyn Backend, Errno> {
        let serves = |backend: &&dyn Backend| backend.addresses() == address.kind();
        let backend = match self.0 {
            Some(backend) => Some(backend).filter(serves),
            None => BACKENDS.iter().copied().find(serves),
        };
        backend.ok_or(Errno::AFNOSUPPORT)
    }

    /// A listening socket (close-on-exec) at `address`, and the address with its port resolved.
    ///
    /// # Errors
    /// [`TransportError::Bind`] when the kernel does not give it.
    pub fn bind(self, address: &Address) -> Result<(OwnedFd, Address), TransportError> {
        self.serving(address)
            .and_then(|backend| backend.listen(address))
            .map_err(|errno| TransportError::Bind { address: address.clone(), errno })
    }

    /// A listening socket at a port that is free at this address: of these, if the user has named some.
    ///
    /// # Errors
    /// [`TransportError::Bind`] when the kernel does not give it, [`TransportError::NoPort`] when all are taken.
    pub fn bind_within(
        self,
        at: IpAddr,
        ports: Option<Ports>,
    ) -> Result<(OwnedFd, Address), TransportError> {
        let bind = |port| self.bind(&Address::Tcp((at, port).into()));
        let Some(ports) = ports else { return bind(0) };
        let is_taken = |error: &TransportError| {
            matches!(error, TransportError::Bind { errno: Errno::ADDRINUSE, .. })
        };
        let mut tried = ports.all().map(bind);
        tried
            .find(|bound| !bound.as_ref().is_err_and(is_taken))
            .unwrap_or(Err(TransportError::NoPort { at, ports }))
    }
}

impl PartialEq for Transport {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Transport {}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Transport({})", self.name())
    }
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.name().to_owned()
    }
}

impl TryFrom<String> for Transport {
    type Error = UnknownTransport;

    fn try_from(name: String) -> Result<Self, UnknownTransport> {
        name.parse()
    }
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        let found = Self::all().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownTransport(name.to_owned()))
    }
}

/// No transport has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: it is {known}", known = names(" or ", |_| true))]
pub struct UnknownTransport(String);

/// The names of those transports that fit, with this between them.
fn names(between: &str, fits: impl Fn(&Transport) -> bool) -> String {
    let names: Vec<_> = Transport::all().filter(fits).map(Transport::name).collect();
    names.join(between)
}

impl Transport {
    /// The names of all that use such addresses: `auto or tcp`.
    #[must_use]
    pub fn that_use(addresses: AddressKind) -> String {
        names(" or ", |one| one.uses(addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_serves_its_addresses_alone() {
        for one in Transport::all() {
            assert_eq!(one.name().parse(), Ok(one));
            assert!(!one.help().is_empty());
            for address in ["unix:@x", "tcp:127.0.0.1:1"] {
                let address: Address = address.parse().unwrap();
                assert_eq!(one.serving(&address).is_ok(), one.uses(address.kind()), "{one}");
            }
        }
        assert_eq!(Transport::AUTO.to_string(), "auto");
        let names: std::collections::BTreeSet<_> = Transport::all().map(Transport::name).collect();
        assert_eq!(names.len(), Transport::all().count(), "no two have one name");
        let why = "pigeon".parse::<Transport>().unwrap_err().to_string();
        assert!(why.starts_with("pigeon: it is auto or unix or tcp"), "{why}");
    }

    #[test]
    fn auto_is_the_first_that_serves_an_address() {
        for (address, name) in [("unix:@x", "unix"), ("tcp:127.0.0.1:1", "tcp")] {
            let serving = Transport::AUTO.serving(&address.parse().unwrap());
            assert_eq!(serving.map(Backend::name), Ok(name));
        }
    }
}
