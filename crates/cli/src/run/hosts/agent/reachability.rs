//! Whether other hosts are reached from this one, as its nodes would reach theirs (`multigrain doctor`): an agent
//! listens at one port, and connects to those of others.

use super::super::super::listen::{self, ListenAt, Listener};
use super::super::messages::ANSWER_WAIT;
use multigrain_transport::{Address, Ports, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Between two looks at connections.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Where other hosts look whether they reach this one, and what comes of looking at them.
#[derive(Default)]
pub(super) struct Reachability {
    listener: Option<Listener>,
    connecting: Option<Connecting>,
}

impl Reachability {
    /// Listens as a node would, for so many hosts; where.
    ///
    /// # Errors
    /// Why it cannot, in words.
    pub(super) fn listen(
        &mut self,
        at: IpAddr,
        ports: Option<Ports>,
        hosts: u32,
    ) -> Result<String, String> {
        let listener = listen(at, ports, hosts)?;
        Ok(self.listener.insert(listener).address.clone())
    }

    /// Begins to connect to these addresses, all at once.
    pub(super) fn connect(&mut self, addresses: &[String]) {
        self.connecting = Some(Connecting::begin(addresses));
    }

    /// Until when to look again, at the latest, if connections are being made.
    pub(super) fn poll_interval(&self) -> Option<Duration> {
        self.connecting.as_ref().map(|_| POLL_INTERVAL)
    }

    /// What has come of them, once that is known of all.
    pub(super) fn results(&mut self) -> Option<Vec<Result<(), String>>> {
        let answers = self.connecting.as_mut()?.results()?;
        self.connecting = None;
        Some(answers)
    }
}

fn listen(at: IpAddr, ports: Option<Ports>, hosts: u32) -> Result<Listener, String> {
    let place = ListenAt::Tcp(at, ports);
    let bound = listen::bind_all(Transport::default(), &[place], "", 0..1, hosts);
    let bound = bound.map_err(|(_, error)| error.to_string())?;
    bound.into_iter().flatten().next().ok_or_else(|| "no socket".to_owned())
}

/// Connections to other hosts that are being made, and what has come of those that are not.
struct Connecting {
    until: Instant,
    /// By their place among the answers.
    under_way: Vec<(usize, OwnedFd)>,
    answers: Vec<Result<(), String>>,
}

impl Connecting {
    fn begin(addresses: &[String]) -> Self {
        let mut all = Self {
            until: Instant::now() + ANSWER_WAIT,
            under_way: Vec::new(),
            answers: Vec::new(),
        };
        for (place, address) in addresses.iter().enumerate() {
            all.answers.push(match connect(address) {
                Ok(socket) => {
                    all.under_way.push((place, socket));
                    Err(format!("no answer in {} s", ANSWER_WAIT.as_secs()))
                }
                Err(why) => Err(why),
            });
        }
        all
    }

    fn results(&mut self) -> Option<Vec<Result<(), String>>> {
        let answers = &mut self.answers;
        self.under_way.retain(|(place, socket)| {
            let mut set = [PollFd::new(socket, PollFlags::OUT)];
            let is_open = poll(&mut set, Some(&Timespec::default())) != Ok(1);
            if !is_open {
                let error = sockopt::socket_error(socket).and_then(|error| error);
                answers[*place] = error.map_err(|errno| errno.to_string());
            }
            is_open
        });
        let is_over = self.under_way.is_empty() || Instant::now() >= self.until;
        is_over.then(|| std::mem::take(&mut self.answers))
    }
}

fn connect(address: &str) -> Result<OwnedFd, String> {
    let Ok(Address::Tcp(at)) = address.parse() else {
        return Err("no address of TCP".to_owned());
    };
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|errno| errno.to_string())?;
    match net::connect(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn who_listens_is_reached_and_who_does_not_is_not() {
        let one = listen(Ipv4Addr::LOCALHOST.into(), None, 2).unwrap();
        let gone = listen(Ipv4Addr::LOCALHOST.into(), None, 2).unwrap().address;
        let mut all = Connecting::begin(&[one.address.clone(), gone, "unix:@x".to_owned()]);
        let answers = loop {
            if let Some(answers) = all.results() {
                break answers;
            }
        };
        assert_eq!(answers[0], Ok(()));
        assert!(answers[1].as_ref().unwrap_err().starts_with("Connection refused"), "{answers:?}");
        assert_eq!(answers[2], Err("no address of TCP".to_owned()));
    }
}
