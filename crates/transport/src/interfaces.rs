//! At which address each host of a job is reached by the others: chosen from what is found on each host, so it
//! does not matter how each host resolves names.

use if_addrs::{IfAddr, get_if_addrs};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

/// An address of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// How many of the address' first bits are those of its network.
    pub prefix: u8,
}

/// What is known of a host by which others may reach it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAddresses {
    /// Differs between machines, and between networks of one machine.
    pub machine: String,
    /// Its addresses.
    pub interfaces: Vec<Interface>,
    /// This host's end of the connection that the launcher came by, if it is known.
    pub reached_at: Option<IpAddr>,
}

/// What the addresses of a job have in common, if its user wants them to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceFilter {
    /// An interface of this name.
    Name(String),
    /// A network: an address, and how many of its first bits count.
    Network(IpAddr, u8),
}

/// The filter as a user writes it: `eth0`, `10.1.0.0/16`, `fd00::/8`.
///
/// # Errors
/// What the words are not, for the user.
pub fn parse_filter(text: &str) -> Result<InterfaceFilter, String> {
    let wrong = || {
        format!(
            "'{text}' is neither an interface, such as eth0, nor a network, such as 10.1.0.0/16"
        )
    };
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    match (IpAddr::from_str(address), prefix) {
        (Ok(address), prefix) => {
            let whole = bits(address);
            let prefix = prefix.map_or(Ok(whole), |prefix| prefix.parse().map_err(|_| wrong()))?;
            if prefix > whole {
                Err(wrong())
            } else {
                Ok(InterfaceFilter::Network(address, prefix))
            }
        }
        (Err(_), None) if !text.is_empty() => Ok(InterfaceFilter::Name(text.to_owned())),
        (Err(_), _) => Err(wrong()),
    }
}

impl HostAddresses {
    /// Those of this host.
    ///
    /// # Errors
    /// The system does not tell: there is no /proc, for one.
    pub fn of_this_host() -> io::Result<Self> {
        let (machine, interfaces) = (machine()?, of_this_host()?);
        // The variable is inherited, and may be of a log-in elsewhere.
        let is_own = |at: &IpAddr| interfaces.iter().any(|interface| interface.address == *at);
        let reached_at = reached_at().filter(is_own);
        Ok(Self { machine, interfaces, reached_at })
    }
}

/// The addresses of this host, but for those that reach no other without the name of an interface.
fn of_this_host() -> io::Result<Vec<Interface>> {
    let of = |found: if_addrs::Interface| {
        let usable = !found.is_link_local();
        let prefix = match &found.addr {
            IfAddr::V4(address) => address.prefixlen,
            IfAddr::V6(address) => address.prefixlen,
        };
        usable.then(|| Interface { address: found.ip(), name: found.name, prefix })
    };
    Ok(get_if_addrs()?.into_iter().filter_map(of).collect())
}

/// What tells this machine, and its network, from others.
fn machine() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let network = fs::read_link("/proc/self/ns/net")?;
    Ok(format!("{} {}", boot.trim(), network.display()))
}

/// Where whoever started this process by ssh has found this host: `CLIENT PORT SERVER PORT`.
fn reached_at() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split(' ').nth(2)?.parse().ok()
}

/// The address of each host, in order.
///
/// # Errors
/// The host, by its place in the list, that has none that will do, and why.
pub fn choose(
    hosts: &[HostAddresses],
    filter: Option<&InterfaceFilter>,
) -> Result<Vec<IpAddr>, (usize, String)> {
    if let Some(filter) = filter {
        let chosen = |(place, host): (usize, &HostAddresses)| {
            let found = host.interfaces.iter().find(|interface| fits(interface, filter));
            found.map(|interface| interface.address).ok_or_else(|| (place, has_none(host, filter)))
        };
        let chosen: Result<Vec<IpAddr>, _> = hosts.iter().enumerate().map(chosen).collect();
        return chosen.and_then(|chosen| lead_elsewhere(hosts, chosen));
    }
    let Some((first, others)) = hosts.split_first() else { return Ok(Vec::new()) };
    if others.iter().all(|host| host.machine == first.machine) {
        let near = first.interfaces.iter().find(|interface| interface.address.is_loopback());
        if let Some(near) = near {
            return Ok(vec![near.address; hosts.len()]);
        }
    }
    if let Some(chosen) = in_one_network(first, hosts) {
        return Ok(chosen);
    }
    let alone = |(place, host): (usize, &HostAddresses)| {
        let far = host.interfaces.iter().map(|interface| interface.address);
        let far = host.reached_at.into_iter().chain(far).find(|address| !address.is_loopback());
        let none = "it has no address but that of the loopback interface; bring its network up";
        far.ok_or_else(|| (place, none.to_owned()))
    };
    let chosen: Result<Vec<IpAddr>, _> = hosts.iter().enumerate().map(alone).collect();
    chosen.and_then(|chosen| lead_elsewhere(hosts, chosen))
}

/// These addresses, if none is one at which another machine finds only itself.
fn lead_elsewhere(
    hosts: &[HostAddresses],
    chosen: Vec<IpAddr>,
) -> Result<Vec<IpAddr>, (usize, String)> {
    for (place, (host, at)) in hosts.iter().zip(&chosen).enumerate() {
        let is_other = |one: &HostAddresses| one.machine != host.machine;
        if at.is_loopback() && hosts.iter().any(is_other) {
            let why = "leads to no other host; name an interface or a network that does";
            return Err((place, format!("{at} {why}")));
        }
        let mut before = hosts.iter().zip(&chosen).take(place);
        if before.any(|(one, its)| its == at && is_other(one)) {
            let help = "name an interface or a network where each has one of its own";
            return Err((place, format!("its address {at} is that of another host, too; {help}")));
        }
    }
    Ok(chosen)
}

/// The addresses in the first network in which each host has one of its own. Networks that machines have
/// inside, such as those of containers, give several of them the same address.
fn in_one_network(first: &HostAddresses, hosts: &[HostAddresses]) -> Option<Vec<IpAddr>> {
    let far = |interface: &&Interface| !interface.address.is_loopback();
    // The network that the launcher came by is one that works.
    let known = |interface: &&Interface| first.reached_at != Some(interface.address);
    let mut networks: Vec<&Interface> = first.interfaces.iter().filter(far).collect();
    networks.sort_by_key(known);
    networks.into_iter().find_map(|network| {
        let filter = InterfaceFilter::Network(network.address, network.prefix);
        let of = |host: &HostAddresses| {
            Some(host.interfaces.iter().find(|one| fits(one, &filter))?.address)
        };
        let chosen: Vec<IpAddr> = hosts.iter().map(of).collect::<Option<_>>()?;
        let shared = |(i, a): (usize, &IpAddr)| {
            let before = chosen[..i].iter().zip(hosts).filter(|(b, _)| *b == a);
            before.into_iter().any(|(_, host)| host.machine != hosts[i].machine)
        };
        (!chosen.iter().enumerate().any(shared)).then_some(chosen)
    })
}

fn fits(interface: &Interface, filter: &InterfaceFilter) -> bool {
    match filter {
        InterfaceFilter::Name(name) => interface.name == *name,
        InterfaceFilter::Network(network, prefix) => {
            let shift = bits(*network) - prefix;
            let top = |address| number(address).checked_shr(shift.into()).unwrap_or(0);
            interface.address.is_ipv4() == network.is_ipv4()
                && top(interface.address) == top(*network)
        }
    }
}

fn has_none(host: &HostAddresses, filter: &InterfaceFilter) -> String {
    let what = match filter {
        InterfaceFilter::Name(name) => format!("on the interface {name}"),
        InterfaceFilter::Network(network, prefix) => format!("in the network {network}/{prefix}"),
    };
    let has = |one: &Interface| format!("{} on {}", one.address, one.name);
    let all: Vec<String> = host.interfaces.iter().map(has).collect();
    format!("it has no address {what}; it has {}", all.join(", "))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Bits of an address of its kind.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(machine: &str, addresses: &[&str]) -> HostAddresses {
        let interface = |text: &&str| {
            let (name, rest) = text.split_once(' ').unwrap();
            let (address, prefix) = rest.split_once('/').unwrap();
            let (address, prefix) = (address.parse().unwrap(), prefix.parse().unwrap());
            Interface { name: name.to_owned(), address, prefix }
        };
        let interfaces = addresses.iter().map(interface).collect();
        HostAddresses { machine: machine.to_owned(), interfaces, reached_at: None }
    }

    fn chosen(hosts: &[HostAddresses], filter: Option<&str>) -> Vec<String> {
        let filter = filter.map(|text| parse_filter(text).unwrap());
        let chosen = choose(hosts, filter.as_ref()).unwrap();
        chosen.iter().map(IpAddr::to_string).collect()
    }

    const LO: &str = "lo 127.0.0.1/8";
    const DOCKER: &str = "docker0 172.17.0.1/16";

    #[test]
    fn hosts_meet_in_the_network_they_share() {
        let a = host("a", &[LO, DOCKER, "eth1 192.168.7.2/24", "eth0 10.1.0.2/16"]);
        let b = host("b", &[LO, DOCKER, "eth0 10.1.3.4/16", "eth1 192.168.9.3/24"]);
        assert_eq!(chosen(&[a.clone(), b.clone()], None), ["10.1.0.2", "10.1.3.4"]);
        assert_eq!(chosen(&[a.clone(), b.clone()], Some("eth1")), ["192.168.7.2", "192.168.9.3"]);
        assert_eq!(chosen(&[a, b], Some("192.168.0.0/16")), ["192.168.7.2", "192.168.9.3"]);
    }

    #[test]
    fn without_a_network_of_all_they_meet_where_the_launcher_found_them() {
        let mut a = host("a", &[LO, "x 10.8.0.1/24", "y 10.1.0.2/24"]);
        let b = host("b", &[LO, "x 10.2.0.2/24"]);
        a.reached_at = Some("10.1.0.2".parse().unwrap());
        assert_eq!(chosen(&[a, b], None), ["10.1.0.2", "10.2.0.2"]);
    }

    #[test]
    fn six_will_do_and_one_machine_needs_no_network() {
        let hosts = [host("a", &["eth0 fd77::2/64"]), host("b", &["eth0 fd77::3/64"])];
        assert_eq!(chosen(&hosts, None), ["fd77::2", "fd77::3"]);
        let hosts = [host("a", &[LO]), host("a", &[LO, DOCKER])];
        assert_eq!(chosen(&hosts, None), ["127.0.0.1", "127.0.0.1"]);
    }

    #[test]
    fn addresses_at_which_other_machines_find_themselves_are_refused() {
        let apart = [host("a", &[LO, DOCKER]), host("b", &[LO, DOCKER])];
        let refused = |hosts: &[HostAddresses], filter: Option<&str>| {
            choose(hosts, filter.map(|text| parse_filter(text).unwrap()).as_ref()).unwrap_err()
        };
        let (place, why) = refused(&apart, Some("lo"));
        assert!(place == 0 && why.starts_with("127.0.0.1 leads to no other host; "), "{why}");
        for filter in [Some("docker0"), None] {
            let (place, why) = refused(&apart, filter);
            assert!(place == 1 && why.contains("172.17.0.1 is that of another host"), "{why}");
        }
        let near = [host("a", &[LO, DOCKER]), host("a", &[LO, DOCKER])];
        assert_eq!(chosen(&near, Some("lo")), ["127.0.0.1", "127.0.0.1"]);
        assert_eq!(chosen(&near, Some("docker0")), ["172.17.0.1", "172.17.0.1"]);
    }

    #[test]
    fn a_host_without_an_address_is_told_which_it_has() {
        let hosts = [host("a", &[LO, "eth0 10.1.0.2/16"]), host("b", &[LO])];
        assert_eq!(choose(&hosts, None).unwrap_err().0, 1);
        let (place, why) =
            choose(&hosts, Some(&InterfaceFilter::Name("ib0".to_owned()))).unwrap_err();
        assert_eq!(place, 0);
        assert!(why.contains("ib0") && why.contains("10.1.0.2 on eth0"), "{why}");
    }

    #[test]
    fn a_filter_is_a_name_or_a_network() {
        assert_eq!(parse_filter("eth0"), Ok(InterfaceFilter::Name("eth0".to_owned())));
        let six = InterfaceFilter::Network("fd77::".parse().unwrap(), 64);
        assert_eq!(parse_filter("fd77::/64"), Ok(six));
        let one = InterfaceFilter::Network("10.0.0.1".parse().unwrap(), 32);
        assert_eq!(parse_filter("10.0.0.1"), Ok(one));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/x", "eth0/8"] {
            assert!(parse_filter(wrong).is_err(), "{wrong}");
        }
    }
}
