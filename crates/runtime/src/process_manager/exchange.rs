//! What the nodes of a job exchange through its process manager, and what each concludes from it.
//!
//! First each node says where it is and what it runs, and rank 0 the job's id and secret; where TCP is needed,
//! each then says where it listens. All come to the same conclusions, since all know the same: where they make no job,
//! one of them says so, and the others wait for that, for a process manager kills all when one ends.
//!
//! None of this admits anybody from another host: each node has made a key that stays with it, and publishes the
//! digest of its certificate. The secret is for Unix sockets alone, where the kernel tells whose process a peer
//! is, and tells apart the jobs of one user.

use core::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::{IntoRawFd, OwnedFd};

use multigrain_transport::interfaces::{self, HostAddresses, InterfaceFilter, parse_filter};
use multigrain_transport::{
    Address, AddressKind, Credentials, Pin, Ports, Transport, TransportError, UnixName,
};
use multigrain_types::NodeId;
use multigrain_types::in_runs;
use rustix::io::Errno;
use rustix::process::getppid;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::system::uname;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ProcessManager;
use crate::config::{Config, Launch, Variables, choose};
use crate::error::Error;
use crate::program::{Program, build_number, fingerprint};

const CARD: &str = "multigrain-node";
const JOB: &str = "multigrain-job";
const TCP: &str = "multigrain-tcp";

/// What each node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    addresses: HostAddresses,
    /// For nodes of its machine.
    unix: String,
    /// For users.
    host: String,
    /// Of the program and the library.
    build: u64,
    /// Of where the program's functions lie.
    functions: u64,
    /// Addresses are not random there.
    fixed: bool,
    /// Of what all nodes of a job must have alike.
    settings: u64,
    /// The digest of its certificate.
    certificate: Pin,
}

/// What rank 0 makes.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    id: u128,
    secret: [u8; 32],
}

/// What nodes that TCP links prove and hide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encrypt {
    /// All between hosts, and nothing within one.
    Auto,
    On,
    /// Between hosts, ranks are proven.
    Off,
}

impl Encrypt {
    /// What TCP links use; `far`: some of the nodes are on other hosts.
    fn with(self, credentials: Credentials, far: bool) -> Option<Credentials> {
        match self {
            Self::On => Some(credentials),
            Self::Auto => far.then_some(credentials),
            Self::Off => far.then(|| credentials.in_clear()),
        }
    }
}

/// Has this node meet the others: its place in the job, and everybody's addresses.
///
/// # Errors
/// [`Error::Invalid`] for what the user can change, [`Error::System`] for the rest.
pub(super) fn meet(
    config: &Config,
    variables: &Variables<'_>,
    manager: &mut dyn ProcessManager,
) -> Result<Config, Error> {
    let (transport, encrypt) = (config.launch.links.transport, encrypt(variables)?);
    let (filter, ports) = (filter(variables)?, ports(variables)?);
    let (rank, nodes) = (manager.rank(), manager.nodes());
    let own = u16::try_from(rank).ok().filter(|_| nodes <= u16::MAX.into());
    let own = own.ok_or_else(|| Error::Limit(format!("{nodes} nodes are too many")))?;

    let mut listeners = Vec::new();
    let unix = if !transport.uses(AddressKind::Unix) {
        String::new()
    } else {
        let name = format!("multigrain-{:032x}", u128::from_ne_bytes(random()?));
        let (listener, address) = listen(transport.bind(&Address::Unix(UnixName::Abstract(name))))?;
        listeners.push(listener);
        address
    };
    let (credentials, certificate) = Credentials::of_its_own().map_err(system)?;
    let program = Program::of_this_process();
    let card = Card {
        addresses: addresses()?,
        unix,
        host: uname().nodename().to_string_lossy().into_owned(),
        build: build_number()?,
        functions: program.place(),
        fixed: program.is_fixed(),
        settings: fingerprint(format!("{config:?} {encrypt:?}").as_bytes()),
        certificate,
    };
    put(manager, CARD, &card)?;
    if rank == 0 {
        put(manager, JOB, &Job { id: u128::from_ne_bytes(random()?), secret: random()? })?;
    }
    manager.fence().map_err(Error::System)?;
    let job: Job = get(manager, 0, JOB)?;
    let cards = (0..nodes).map(|rank| get(manager, rank, CARD));
    let cards = cards.collect::<Result<Vec<Card>, Error>>()?;
    if let Some((speaker, why)) = disagreement(&cards) {
        if speaker == usize::from(own) {
            // One write: in pieces, a kill in between would cut the line.
            let _ = std::io::stderr().write_all(format!("multigrain: {why}\n").as_bytes());
        }
        let _ = manager.fence();
        return Err(Error::NoJob(why));
    }

    let tcp = match tcp_address(&cards, usize::from(own), transport, filter.as_ref())? {
        None => Vec::new(),
        Some(address) => {
            let (listener, address) = listen(transport.bind_within(address, ports))?;
            listeners.push(listener);
            put(manager, TCP, &address)?;
            manager.fence().map_err(Error::System)?;
            let all = (0..nodes).map(|rank| get(manager, rank, TCP));
            all.collect::<Result<Vec<String>, Error>>()?
        }
    };
    let here = &cards[usize::from(own)].addresses.machine;
    let far = cards.iter().any(|card| card.addresses.machine != *here);
    let credentials = credentials.trusting(cards.iter().map(|card| card.certificate).collect());
    let address = |(rank, card): (usize, &Card)| {
        let near = transport.uses(AddressKind::Unix) && card.addresses.machine == *here;
        let text = if near { &card.unix } else { &tcp[rank] };
        text.parse().map_err(|error| Error::System(format!("node {rank}: {error}")))
    };
    let launch = Launch {
        job: job.id,
        secret: Some(job.secret),
        credentials: encrypt.with(credentials, far),
        peers: cards.iter().enumerate().map(address).collect::<Result<_, _>>()?,
        parent: getppid(),
        listen_fds: listeners.into_iter().map(IntoRawFd::into_raw_fd).collect(),
        ..config.launch.clone()
    };
    Ok(Config { rank: NodeId(own), launch, ..config.clone() })
}

/// By which interface the host is to be reached.
fn filter(variables: &Variables<'_>) -> Result<Option<InterfaceFilter>, Error> {
    let filter = variables.get("INTERFACE")?.map(|text| parse_filter(&text));
    filter.transpose().map_err(|why| invalid(format!("MULTIGRAIN_INTERFACE: {why}")))
}

fn ports(variables: &Variables<'_>) -> Result<Option<Ports>, Error> {
    let ports = variables.get("PORTS")?.map(|text| text.parse::<Ports>());
    ports.transpose().map_err(|why| invalid(format!("MULTIGRAIN_PORTS: {why}")))
}

fn encrypt(variables: &Variables<'_>) -> Result<Encrypt, Error> {
    let known = [("auto", Encrypt::Auto), ("on", Encrypt::On), ("off", Encrypt::Off)];
    let text = variables.get("ENCRYPT")?;
    text.map_or(Ok(Encrypt::Auto), |text| choose("ENCRYPT", &text, &known))
}

/// Where this process is. An environment that was passed on may name another host's address.
fn addresses() -> Result<HostAddresses, Error> {
    let found = HostAddresses::of_this_host();
    let mut found =
        found.map_err(|error| Error::System(format!("the network interfaces: {error}")))?;
    let own = |at: &IpAddr| found.interfaces.iter().any(|one| one.address == *at);
    found.reached_at = found.reached_at.filter(own);
    Ok(found)
}

/// Why the nodes make no job, and the first node that does not fit.
fn disagreement(cards: &[Card]) -> Option<(usize, String)> {
    let first = cards.first()?;
    let other = |of: fn(&Card) -> u64| {
        let ranks = (0..cards.len()).filter(move |&rank| of(&cards[rank]) != of(first));
        Some(ranks.collect::<Vec<_>>()).filter(|ranks| !ranks.is_empty())
    };
    let of = |ranks: &[usize], verb: &str, verbs: &str| {
        let mut hosts: Vec<&str> = ranks.iter().map(|&rank| cards[rank].host.as_str()).collect();
        hosts.dedup();
        let (hosts, ranks_text) = (hosts.join(", "), in_runs(ranks));
        match ranks.len() {
            1 => format!("node {ranks_text} ({hosts}) {verb}"),
            _ => format!("nodes {ranks_text} ({hosts}) {verbs}"),
        }
    };
    let (nodes, host) = (cards.len(), &first.host);
    if let Some(ranks) = other(|card| card.build) {
        let who = of(&ranks, "runs", "run");
        let why = format!(
            "{who} another build of the program than node 0 ({host}), or another program: start the same file on all, and put \
             it on all hosts; several programs are started by `multigrain run -n 2 ./a : -n 2 ./b`"
        );
        return Some((ranks[0], why));
    }
    if let Some(ranks) = other(|card| card.settings) {
        let who = of(&ranks, "has", "have");
        let why = format!(
            "{who} other variables MULTIGRAIN_* than node 0 ({host}): let mpiexec or srun pass the same to all"
        );
        return Some((ranks[0], why));
    }
    let ranks = other(|card| card.functions)?;
    if first.fixed && ranks.iter().all(|&rank| cards[rank].fixed) {
        let who = of(&ranks, "has", "have");
        let why = format!(
            "{who} loaded other libraries that are linked with Multigrain than node 0 ({host}), or in another order: let all \
             nodes load (dlopen) the same before mg_init"
        );
        return Some((ranks[0], why));
    }
    let who = of(&ranks, "than on node 0", "than on node 0");
    let why = format!(
        "functions of the program lie elsewhere on {who} ({host}): run it without randomization of addresses, as in \
         `mpiexec -n {nodes} setarch -R PROGRAM`"
    );
    Some((ranks[0], why))
}

/// At which address a node listens for those of other machines, if TCP is needed.
fn tcp_address(
    cards: &[Card],
    own: usize,
    transport: Transport,
    filter: Option<&InterfaceFilter>,
) -> Result<Option<IpAddr>, Error> {
    let mut hosts: Vec<HostAddresses> = Vec::new();
    for card in cards {
        if hosts.iter().all(|host| host.machine != card.addresses.machine) {
            hosts.push(card.addresses.clone());
        }
    }
    if hosts.len() == 1 && transport.uses(AddressKind::Unix) {
        return Ok(None);
    }
    if !transport.uses(AddressKind::Tcp) {
        let (hosts, others) = (hosts.len(), Transport::that_use(AddressKind::Tcp));
        return Err(invalid(format!(
            "MULTIGRAIN_TRANSPORT cannot be {transport} in a job on {hosts} hosts: it is {others}"
        )));
    }
    let node_of = |host: &HostAddresses| {
        cards.iter().position(|card| card.addresses.machine == host.machine).unwrap_or(0)
    };
    let addresses = interfaces::choose(&hosts, filter).map_err(|(host, why)| {
        invalid(format!("MULTIGRAIN_INTERFACE: the host of node {}: {why}", node_of(&hosts[host])))
    })?;
    let here = &cards[own].addresses.machine;
    Ok(hosts.iter().position(|host| host.machine == *here).map(|host| addresses[host]))
}

fn system(error: impl ToString) -> Error {
    Error::System(error.to_string())
}

fn invalid(why: String) -> Error {
    Error::Invalid(why)
}

/// A listening socket, and its address as text.
fn listen(bound: Result<(OwnedFd, Address), TransportError>) -> Result<(OwnedFd, String), Error> {
    let (socket, address) = bound?;
    Ok((socket, address.to_string()))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let mut bytes = [0; BYTES];
    let mut filled = 0;
    while filled < BYTES {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::System(format!("random numbers: {errno}"))),
        }
    }
    Ok(bytes)
}

/// Not all process managers take every character: hexadecimal digits are taken by all.
fn put(manager: &mut dyn ProcessManager, key: &str, value: &impl Serialize) -> Result<(), Error> {
    let bytes = postcard::to_allocvec(value).map_err(|error| Error::System(error.to_string()))?;
    let text = bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    manager.put(key, &text).map_err(Error::System)
}

fn get<T: DeserializeOwned>(
    manager: &mut dyn ProcessManager,
    rank: u32,
    key: &str,
) -> Result<T, Error> {
    let text = manager.get(rank, key).map_err(Error::System)?;
    let digits = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
    let value = bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok());
    value.ok_or_else(|| {
        Error::System(format!(
            "the process manager gives nonsense for {key} of node {rank}: do all run the same program?"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Barrier, Mutex};

    /// Nodes as threads, with a space of values between them.
    struct InProcess {
        rank: u32,
        space: Arc<Mutex<BTreeMap<(u32, String), String>>>,
        barrier: Arc<Barrier>,
        nodes: u32,
    }

    impl ProcessManager for InProcess {
        fn rank(&self) -> u32 {
            self.rank
        }

        fn nodes(&self) -> u32 {
            self.nodes
        }

        fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
            self.space.lock().unwrap().insert((self.rank, key.to_owned()), value.to_owned());
            Ok(())
        }

        fn fence(&mut self) -> Result<(), String> {
            self.barrier.wait();
            Ok(())
        }

        fn get(&mut self, rank: u32, key: &str) -> Result<String, String> {
            let value = self.space.lock().unwrap().get(&(rank, key.to_owned())).cloned();
            value.ok_or_else(|| format!("no {key} of {rank}"))
        }

        fn finalize(self: Box<Self>) -> Result<(), String> {
            Ok(())
        }
    }

    fn all_meet(nodes: u32, said: &'static [(&str, &str)]) -> Vec<Config> {
        let (space, barrier) = (Arc::default(), Arc::new(Barrier::new(nodes as usize)));
        let threads = (0..nodes).map(|rank| {
            let (space, barrier) = (Arc::clone(&space), Arc::clone(&barrier));
            std::thread::spawn(move || {
                let environment = |name: &str| {
                    let said = said.iter().find(|(known, _)| name == format!("MULTIGRAIN_{known}"));
                    said.map(|(_, value)| value.into())
                };
                let mut manager = InProcess { rank, space, barrier, nodes };
                let config = Config::of_job(&environment).unwrap();
                meet(&config, &Variables::new(&environment), &mut manager).unwrap()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no interfaces")]
    fn all_nodes_know_one_job_and_where_everybody_listens() {
        const AUTO: &[(&str, &str)] = &[];
        for (transport, scheme) in [(AUTO, "unix:@"), (&[("TRANSPORT", "tcp")], "tcp:")] {
            let nodes = all_meet(3, transport);
            assert!(
                nodes.iter().all(|node| node.launch.credentials.is_none()),
                "all are on one host"
            );
            for (rank, node) in (0..).zip(&nodes) {
                assert_eq!(node.rank, NodeId(rank));
                let (node, first) = (&node.launch, &nodes[0].launch);
                assert_eq!(node.peers.len(), 3);
                assert_eq!((node.job, node.secret), (first.job, first.secret));
                assert_eq!(node.peers, first.peers);
                assert_eq!(node.listen_fds.len(), 1);
                assert!(node.peers.iter().all(|peer| peer.to_string().starts_with(scheme)));
            }
            let Launch { peers, secret, .. } = &nodes[0].launch;
            assert!(peers[0] != peers[1] && peers[1] != peers[2] && *secret != Some([0; 32]));
        }
    }

    fn card(machine: &str, address: &str) -> Card {
        let (name, address) = ("eth0".to_owned(), address.parse().unwrap());
        let interfaces = vec![interfaces::Interface { name, address, prefix: 24 }];
        let addresses = HostAddresses { machine: machine.to_owned(), interfaces, reached_at: None };
        Card {
            addresses,
            unix: "unix:@x".to_owned(),
            host: "h".to_owned(),
            build: 1,
            functions: 1,
            fixed: false,
            settings: 1,
            certificate: [0; 32],
        }
    }

    #[test]
    fn hosts_that_differ_meet_over_tcp_and_not_over_unix_sockets() {
        let cards = [card("a", "10.0.0.1"), card("a", "10.0.0.1"), card("b", "10.0.0.2")];
        let of = |own, transport| tcp_address(&cards, own, transport, None);
        let second = Some("10.0.0.2".parse().unwrap());
        assert_eq!(of(2, Transport::AUTO).unwrap(), second);
        assert_eq!(of(1, "tcp".parse().unwrap()).unwrap(), Some("10.0.0.1".parse().unwrap()));
        let why = of(0, "unix".parse().unwrap()).unwrap_err().to_string();
        assert!(why.ends_with("cannot be unix in a job on 2 hosts: it is auto or tcp"), "{why}");
        assert_eq!(tcp_address(&cards[..2], 0, Transport::AUTO, None).unwrap(), None);
        let filter = InterfaceFilter::Name("ib0".to_owned());
        let why = tcp_address(&cards, 0, Transport::AUTO, Some(&filter)).unwrap_err().to_string();
        assert!(
            why.contains("the host of node 0: it has no address on the interface ib0"),
            "{why}"
        );
    }

    #[test]
    fn nodes_that_do_not_fit_are_named_with_their_hosts_and_the_first_of_them_speaks() {
        let good = card("a", "10.0.0.1");
        let on = |host: &str, card: &Card| Card { host: host.to_owned(), ..card.clone() };
        let (first, second) = (on("a", &good), on("b", &good));
        assert!(disagreement(&[first.clone(), second.clone()]).is_none());
        let other = Card { settings: 2, ..second.clone() };
        let (speaker, why) = disagreement(&[first.clone(), first.clone(), other]).unwrap();
        assert_eq!(speaker, 2);
        assert!(
            why.starts_with("node 2 (b) has other variables MULTIGRAIN_* than node 0 (a): "),
            "{why}"
        );
        let elsewhere = Card { functions: 2, ..second.clone() };
        let (_, why) = disagreement(&[first.clone(), elsewhere]).unwrap();
        let start = "functions of the program lie elsewhere on node 1 (b) than on node 0 (a): ";
        assert!(why.starts_with(start) && why.contains("setarch -R"), "{why}");
        let loaded = |card: &Card, functions| Card { functions, fixed: true, ..card.clone() };
        let (_, why) = disagreement(&[loaded(&first, 1), loaded(&second, 2)]).unwrap();
        let start = "node 1 (b) has loaded other libraries that are linked with Multigrain than ";
        assert!(why.starts_with(start) && !why.contains("random"), "{why}");
        // Another program's functions may lie elsewhere, too.
        let built = |card: &Card| Card { build: 2, functions: 2, ..card.clone() };
        let all = [first.clone(), built(&first), built(&second), second];
        let (speaker, why) = disagreement(&all).unwrap();
        assert_eq!(speaker, 1);
        let start = "nodes 1 and 2 (a, b) run another build of the program than node 0 (a), or ";
        assert!(why.starts_with(start), "{why}");
    }
}
