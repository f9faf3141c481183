//! Rendezvous: from the addresses of peers to links with them, at boot and afterwards.
//!
//! Role: connects to the peers it is told to reach, and accepts those that reach this node, all handshakes at once in
//! one loop over an epoll set, so that a silent connection delays nobody and a thousand cost no more than those
//! that have something to say. A peer that does not listen yet, or cannot be reached yet, is tried again for a while.
//!
//! Two nodes may reach for each other at the same time. The connection of the higher rank stands: while that is under way,
//! or the link is made, the higher one refuses the lower one's ([`Refusal::Crossed`], without a line), and
//! the lower one accepts the higher one's whatever it has begun itself. So one of the two is accepted, and no other.
//!
//! Invariant: whoever is wrong is gone, with a line for each caller and reason, as long as there were few
//! (`unauthenticated.rs`); the loop goes on for the others.

mod pending;
mod pending_set;
mod setup;
mod shortage;

use crate::address::Address;
use crate::descriptor;
use crate::error::TransportError;
use crate::frame_header::{BYE, Header};
use crate::handshake::{self, Answer, HELLO_BYTES, Identity, Refusal};
use crate::link::{self, Backends, Close, Emulation, Listener};
use crate::unauthenticated::{
    self, ACCEPTED_AT_ONCE, Refusals, is_of_one_connection, send_bytes, turn_away,
};
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use pending::{LinkState, Pending, Progress, Received, Stage, is_silence, may_change};
use pending_set::PendingSet;
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use shortage::{Shortage, is_of_limit, is_of_program};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use setup::{Connected, Connects, RendezvousSetup};

/// Between two tries to connect to a peer that does not listen.
const RETRY: Duration = Duration::from_millis(50);
/// How long a peer is tried whose host does not answer, and after boot's time one that does not listen: a little less than
/// a link's bytes may go unanswered (ADR 45), for a try begins a little after the way was cut. TCP asks at 0, 1 and 3 s.
const SILENCE_LIMIT: Duration = Duration::from_millis(3_500);
/// Between two looks at whether the hosts of the peers that are being reached still answer; and before the next
/// try to reach one whose own connection was said to be under way.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The listeners' key in the epoll set, where connections have numbers, and that of the wake-up.
const LISTENER: u64 = u64::MAX;
const WAKE_UP: u64 = u64::MAX - 1;

/// All connections of a node that are no links yet.
pub(crate) struct Rendezvous {
    identity: Identity,
    peers: Vec<Address>,
    backends: Backends,
    network: Option<Emulation>,
    connects: Connects,
    /// When boot's time is over.
    end: Instant,
    /// The node has those that it begins with.
    booted: bool,
    /// By rank.
    states: Vec<LinkState>,
    listeners: Vec<Listener>,
    pending: PendingSet,
    /// Peers to connect to again: when, and why it failed the last time.
    later: Vec<(Instant, NodeId, Errno)>,
    /// Ends the present or next wait.
    wake_up: Arc<OwnedFd>,
    refusals: Refusals,
    shortage: Shortage,
    /// What has come of it, to be taken.
    connected: Vec<Connected>,
    lines: Vec<String>,
}

impl Rendezvous {
    pub(crate) fn new(
        setup: RendezvousSetup,
        sockets: Vec<OwnedFd>,
    ) -> Result<Self, TransportError> {
        let RendezvousSetup { identity, peers, backends, network, connects, end } = setup;
        let listeners = sockets.into_iter().map(|socket| backends.listener(socket));
        let listeners = listeners.collect::<Result<Vec<_>, _>>();
        let listeners = listeners.map_err(TransportError::system("FIONBIO"))?;
        let wake_up = descriptor::event()?;
        let sources = listeners.iter().map(|listener| (listener.as_fd(), LISTENER));
        let pending = PendingSet::new(sources.chain([(wake_up.as_fd(), WAKE_UP)]))?;
        let states = peers.iter().map(|_| LinkState::Absent).collect();
        Ok(Self {
            identity,
            peers,
            backends,
            network,
            connects,
            end,
            booted: false,
            states,
            listeners,
            pending,
            later: Vec::new(),
            wake_up: Arc::new(wake_up),
            refusals: Refusals::default(),
            shortage: Shortage::default(),
            connected: Vec::new(),
            lines: Vec::new(),
        })
    }

    /// What ends a wait: any thread may write a number of eight bytes to it.
    pub(crate) fn wake_up(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wake_up)
    }

    /// The descriptors that it keeps as long as it lives, and those of connections that it has just now: a peer that is through
    /// with its boot may be making a link while this node's ends.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let own =
            self.listeners.iter().map(|listener| listener.as_fd()).chain([self.wake_up.as_fd()]);
        let connected = self.connected.iter().flat_map(|(_, link)| link::descriptors(&**link));
        own.map(|own| own.as_raw_fd()).chain(connected).chain(self.pending.descriptors())
    }

    /// The links made since the last call.
    pub(crate) fn take_connected(&mut self) -> Vec<Connected> {
        core::mem::take(&mut self.connected)
    }

    /// A line for each connection refused since the last call that gets one.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines)
    }

    /// A peer that could not be connected to the last time, and why; or whose host does not answer.
    pub(crate) fn not_reached(&self) -> Option<TransportError> {
        let refused = self.later.first().map(|&(_, peer, errno)| (peer, errno));
        let silent = || Some((self.pending.unanswered()?, Errno::TIMEDOUT));
        refused.or_else(silent).map(|(peer, errno)| self.unreachable(peer, errno))
    }

    /// Boot is over, but not the rendezvous: from now on each peer is tried for a time of its own.
    pub(crate) fn goes_on(&mut self) {
        self.booted = true;
    }

    /// No more links are needed: whoever is still there is refused.
    pub(crate) fn close(mut self) -> (Vec<Listener>, Refusals, Vec<String>) {
        for mut late in self.pending.take_all() {
            match late.receive(HELLO_BYTES) {
                Received::Open => self.refuse(&late, Refusal::Complete),
                Received::Ended | Received::Failed(_) => self.refuse(&late, Refusal::Cut),
            }
        }
        (self.listeners, self.refusals, self.lines)
    }

    /// No more links are needed, and this node leaves: a peer that has its HELLO may have welcomed it, and sees it leave.
    pub(crate) fn leave(mut self) {
        let bye = Header { kind: BYE, from: self.identity.rank.0, ..Header::default() }.encode();
        let all = self.pending.take_all();
        for asked in all.filter(|one| matches!(one.stage, Stage::Asked { .. })) {
            send_bytes(&*asked.link, &bye);
            asked.link.close(Close::Sending);
        }
    }

    /// Begins to connect to a peer, now or later, unless that is done.
    pub(crate) fn reach(&mut self, peer: NodeId) -> Result<(), TransportError> {
        if self.states[peer.index()] != LinkState::Absent {
            return Ok(());
        }
        self.may_take_longer(peer);
        self.connect(peer)
    }

    /// From now on a peer may take all the time there is, unless it has come.
    fn may_take_longer(&mut self, peer: NodeId) {
        let until =
            if self.booted { self.end.max(Instant::now() + SILENCE_LIMIT) } else { self.end };
        let silent_until = until.min(Instant::now() + SILENCE_LIMIT);
        let state = &mut self.states[peer.index()];
        if *state != LinkState::Connected {
            *state = LinkState::Connecting { silent_until, until };
        }
    }

    fn connect(&mut self, peer: NodeId) -> Result<(), TransportError> {
        let LinkState::Connecting { until, .. } = self.states[peer.index()] else { return Ok(()) };
        let until = until.min(Instant::now() + SILENCE_LIMIT);
        let patience = until.saturating_duration_since(Instant::now());
        // A patience of zero would mean for ever.
        let patience = patience.max(Duration::from_millis(1));
        match self.backends.connect(&self.peers[peer.index()], patience) {
            Ok(link) => self.pending.keep(Pending::new(link, Stage::Connecting { peer, until })),
            Err(errno) => self.reach_later(peer, errno),
        }
    }

    fn reach_later(&mut self, peer: NodeId, errno: Errno) -> Result<(), TransportError> {
        let LinkState::Connecting { silent_until, until } = self.states[peer.index()] else {
            return Ok(());
        };
        let at = Instant::now() + RETRY;
        // Of a peer that does not listen yet boot says itself when its time is over.
        let soon = is_silence(errno) || is_of_program(errno);
        let is_over = if soon { at >= silent_until } else { self.booted && at >= until };
        let may_change = may_change(errno) || (self.booted && is_of_limit(errno));
        if !may_change || is_over {
            return Err(self.unreachable(peer, errno));
        }
        self.later.push((at, peer, errno));
        Ok(())
    }

    /// A peer has refused this node for no fault of its own, and is tried again, not at once.
    fn reach_anew(&mut self, peer: NodeId) -> Progress {
        self.may_take_longer(peer);
        self.later.push((Instant::now() + RETRY, peer, Errno::CONNREFUSED));
        Progress::Gone
    }

    /// A peer's own connection to this node is under way. If it does not come, the next try shows whether the peer's host
    /// answers.
    fn was_crossed(&mut self, peer: NodeId) {
        if self.booted {
            self.may_take_longer(peer);
            self.later.push((Instant::now() + POLL_INTERVAL, peer, Errno::TIMEDOUT));
        }
    }

    fn unreachable(&self, peer: NodeId, errno: Errno) -> TransportError {
        match errno {
            // A limit of this node's own is no matter of the peer's.
            errno if is_of_limit(errno) => TransportError::System { call: "socket", errno },
            errno => {
                TransportError::Connect { peer, address: self.peers[peer.index()].clone(), errno }
            }
        }
    }

    fn reach_again(&mut self) -> Result<(), TransportError> {
        let now = Instant::now();
        let is_due = |&(at, ..): &(Instant, NodeId, Errno)| at <= now;
        // One by one: an error may be about one peer alone, and the others stay.
        while let Some(place) = self.later.iter().position(is_due) {
            let (_, peer, _) = self.later.remove(place);
            self.connect(peer)?;
        }
        Ok(())
    }

    /// Waits until there is something to do.
    pub(crate) fn wait(&self) -> Result<BTreeSet<u64>, TransportError> {
        let again = self.later.iter().map(|(at, ..)| *at);
        let look = self.pending.is_connecting().then(|| Instant::now() + POLL_INTERVAL);
        let end = (!self.booted).then_some(self.end);
        let keys = self.pending.wait(again.chain(look).chain(end))?;
        if keys.contains(&WAKE_UP) {
            // Before anybody looks what it was rung for. It only fails when it was not.
            let _ = rustix::io::read(&*self.wake_up, &mut [0; 8]);
        }
        Ok(keys)
    }

    /// Deals with the events that a wait has named, and with what is due. An error that speaks of a peer is the end of the way to it
    /// alone.
    pub(crate) fn turn(&mut self, keys: BTreeSet<u64>) -> Result<(), TransportError> {
        for &key in &keys {
            let Some(mut one) = self.pending.take(key) else { continue };
            let progress = match (self.advance(&mut one), one.peer()) {
                // It has come by a connection of its own meanwhile.
                (Err(_), Some(peer)) if self.states[peer.index()] == LinkState::Connected => {
                    Progress::Gone
                }
                (progress, _) => progress?,
            };
            self.settle(one, progress)?;
        }
        self.end_silent();
        match keys.contains(&LISTENER) {
            true => (0..self.listeners.len()).try_for_each(|index| self.accept_from(index))?,
            // Without a descriptor left accept fails also where nobody waits.
            false => self.shortage.is_over(),
        }
        self.reach_again()?;
        self.end_unanswered()
    }

    /// Gives up the peers whose hosts do not answer at all.
    fn end_unanswered(&mut self) -> Result<(), TransportError> {
        match self.pending.take_unanswered().and_then(|one| one.peer()) {
            Some(peer) => Err(self.unreachable(peer, Errno::TIMEDOUT)),
            None => Ok(()),
        }
    }

    /// Refuses those whose time is over.
    fn end_silent(&mut self) {
        while let Some(one) = self.pending.take_silent() {
            self.refuse(&one, Refusal::Silence);
        }
    }

    fn settle(&mut self, one: Pending, progress: Progress) -> Result<(), TransportError> {
        match progress {
            Progress::Wait => self.pending.keep(one)?,
            Progress::Joined(peer) => {
                self.pending.forget(&one)?;
                one.link.tune().map_err(TransportError::system("setsockopt"))?;
                let link = match self.network {
                    None => one.link,
                    Some(network) => link::emulate(one.link, network)
                        .map_err(TransportError::system("timerfd_create"))?,
                };
                self.states[peer.index()] = LinkState::Connected;
                self.connected.push((peer, link));
            }
            // A closed one leaves the set by itself.
            Progress::Gone => {}
        }
        Ok(())
    }

    fn accept_from(&mut self, listener: usize) -> Result<(), TransportError> {
        for _ in 0..ACCEPTED_AT_ONCE {
            let link = match self.listeners[listener].accept() {
                Ok(link) => link,
                Err(Errno::AGAIN) => {
                    self.shortage.is_over();
                    return Ok(());
                }
                Err(errno) if is_of_one_connection(errno) => continue,
                Err(errno) if self.booted && self.shortage.wait(errno) => return Ok(()),
                Err(errno) => return Err(TransportError::System { call: "accept", errno }),
            };
            self.shortage.is_over();
            let until = Instant::now() + unauthenticated::handshake_timeout(self.identity.nodes);
            let mut one = Pending::new(link, Stage::Accepted { until });
            if let Poll::Ready(Err(why)) = one.link.authenticate() {
                self.refuse(&one, why);
                continue;
            }
            one.is_outsider = unauthenticated::is_outsider(&*one.link, &self.peers);
            self.make_room(one.is_outsider);
            let progress = self.advance(&mut one)?;
            self.settle(one, progress)?;
        }
        Ok(())
    }

    fn make_room(&mut self, is_outsider: bool) {
        let most = unauthenticated::most(self.identity.nodes, is_outsider);
        if let Some(oldest) = self.pending.take_oldest_of(most, is_outsider) {
            self.refuse(&oldest, Refusal::TooMany);
        }
    }

    fn advance(&mut self, one: &mut Pending) -> Result<Progress, TransportError> {
        match one.stage {
            Stage::Accepted { .. } => Ok(self.judge(one)),
            Stage::Connecting { peer, .. } => self.begin(one, peer),
            Stage::Authenticating { peer } => self.ask(one, peer),
            Stage::Asked { peer } => self.receive_answer(one, peer),
        }
    }

    fn judge(&mut self, one: &mut Pending) -> Progress {
        match one.link.authenticate() {
            Poll::Pending => return Progress::Wait,
            Poll::Ready(Err(why)) => {
                self.refuse(one, why);
                return Progress::Gone;
            }
            Poll::Ready(Ok(())) => {}
        }
        let got = one.receive(HELLO_BYTES);
        let own = self.identity.over(one.link.proves_rank());
        let expects = |peer| self.expects(peer);
        let verdict = handshake::judge(&one.said[..one.have], &own, expects);
        let verdict = verdict
            .and_then(|peer| peer.map(|peer| one.link.may_be(peer).map(|()| peer)).transpose());
        let why = match (verdict, got) {
            (Ok(Some(peer)), _) => {
                let answer = handshake::welcome(&self.identity);
                if send_bytes(&*one.link, &answer) {
                    return Progress::Joined(peer);
                }
                Refusal::Cut
            }
            (Ok(None), Received::Open) => return Progress::Wait,
            (Ok(None), Received::Ended | Received::Failed(_)) => Refusal::Cut,
            (Err(why), _) => why,
        };
        self.refuse(one, why);
        Progress::Gone
    }

    /// Whether a peer that connects is welcome.
    fn expects(&self, peer: NodeId) -> Result<(), Refusal> {
        let own = self.identity.rank;
        match (self.connects, self.states[peer.index()]) {
            (Connects::HigherRank, state) => {
                handshake::only_higher(own, peer, state == LinkState::Connected)
            }
            (Connects::Either, LinkState::Absent) => Ok(()),
            (Connects::Either, _) if peer < own => Err(Refusal::Crossed),
            (Connects::Either, LinkState::Connecting { .. }) => Ok(()),
            (Connects::Either, LinkState::Connected) => Err(Refusal::Duplicate(peer.0)),
        }
    }

    fn begin(&mut self, one: &mut Pending, peer: NodeId) -> Result<Progress, TransportError> {
        if let Err(errno) = one.link.connected() {
            self.reach_later(peer, errno)?;
            return Ok(Progress::Gone);
        }
        self.may_take_longer(peer);
        // Nothing else would tell that the way to the peer is cut before the handshake is over.
        one.link.tune().map_err(TransportError::system("setsockopt"))?;
        one.stage = Stage::Authenticating { peer };
        self.ask(one, peer)
    }

    fn ask(&mut self, one: &mut Pending, peer: NodeId) -> Result<Progress, TransportError> {
        let proven = match one.link.authenticate() {
            Poll::Pending => return Ok(Progress::Wait),
            // Others pushed us out before it knew who we are, or it is gone.
            Poll::Ready(Err(Refusal::Cut)) => {
                self.reach_later(peer, Errno::CONNREFUSED)?;
                return Ok(Progress::Gone);
            }
            Poll::Ready(proven) => proven.and_then(|()| one.link.may_be(peer)),
        };
        proven.map_err(|reason| TransportError::Untrusted { peer, reason })?;
        // If it hung up already, its answer says why.
        send_bytes(&*one.link, &handshake::hello(&self.identity.over(one.link.proves_rank())));
        one.stage = Stage::Asked { peer };
        Ok(Progress::Wait)
    }

    fn receive_answer(
        &mut self,
        one: &mut Pending,
        peer: NodeId,
    ) -> Result<Progress, TransportError> {
        // Not a byte more than the answer: the peer's first frame may be right behind it.
        let got = one.receive(Header::BYTES);
        if let Some(said) = one.said.first_chunk().filter(|_| one.have == Header::BYTES) {
            return match handshake::answer(said, &self.identity, peer) {
                Answer::Welcome => Ok(Progress::Joined(peer)),
                // Others pushed us out before it received our HELLO; this node was stopped meanwhile, or the way to the peer was cut.
                Answer::Refused(Refusal::TooMany | Refusal::Silence) => Ok(self.reach_anew(peer)),
                // Its own connection to this node is under way.
                Answer::Refused(Refusal::Crossed) if self.connects == Connects::Either => {
                    self.was_crossed(peer);
                    Ok(Progress::Gone)
                }
                Answer::Refused(reason) => Err(TransportError::Refused { peer, reason }),
                Answer::Malformed(why) => Err(TransportError::Handshake { peer, why }),
            };
        }
        match got {
            Received::Open => Ok(Progress::Wait),
            Received::Failed(errno) if may_change(errno) => {
                self.reach_later(peer, errno)?;
                Ok(Progress::Gone)
            }
            Received::Ended | Received::Failed(_) => {
                if let Poll::Ready(Err(reason)) = one.link.authenticate() {
                    return Err(TransportError::Untrusted { peer, reason });
                }
                // Over TLS a peer cannot say that others pushed us out before it received our HELLO; over TCP what it said is lost
                // with what it had not read.
                let is_reset = matches!(got, Received::Failed(Errno::CONNRESET));
                if one.have == 0 && (one.link.proves_rank() || is_reset) {
                    self.reach_later(peer, Errno::CONNREFUSED)?;
                    return Ok(Progress::Gone);
                }
                let why = "it closed the connection".to_owned();
                Err(TransportError::Handshake { peer, why })
            }
        }
    }

    fn refuse(&mut self, one: &Pending, why: Refusal) {
        if why == Refusal::Crossed {
            // Two nodes have done what they may.
            send_bytes(&*one.link, &handshake::refused(self.identity.rank, why));
            return;
        }
        let line = turn_away(&*one.link, self.identity.rank, why, &self.refusals);
        self.lines.extend(line);
    }
}

#[cfg(test)]
mod tests;
