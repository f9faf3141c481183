//! One node of the protocol: routes inputs to the engines and applies their effects.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::{MinipageId, NodeId, ThreadId};

use crate::coherence::{Entry, Holder, HolderEvent, Illegal, ManagerEvent, Site};
use crate::effect::{Effect, Effects, World};
use crate::message::{Kind, Message, PageMessage, SyncMessage};
#[cfg(feature = "mutants")]
use crate::mutants;
use crate::sync::{SyncError, SyncInput, SyncTables};

/// What can happen to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields repeat the words of the engines")]
pub enum Input {
    /// A thread trapped on a minipage.
    Fault { thread: ThreadId, minipage: MinipageId, kind: Kind },
    /// A copy is wanted, nobody waits.
    Prefetch { minipage: MinipageId, kind: Kind },
    /// Hand read copies to every node.
    Push { minipage: MinipageId },
    /// A woken thread is about to retry its access.
    Resumed { minipage: MinipageId },
    /// This node allocated the minipage and it was freed.
    Reclaim { minipage: MinipageId },
    /// A thread synchronizes.
    Sync(SyncInput),
    /// A message came in.
    Message { from: NodeId, message: Message },
}

/// An input that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A peer sent what no correct peer sends in this state.
    #[error("protocol violation by {from}: {event} for the {role} in state {state}")]
    Peer {
        /// Who sent it (this node itself for a broken engine).
        from: NodeId,
        /// The role that was asked.
        role: &'static str,
        /// Its state.
        state: String,
        /// What came.
        event: String,
    },
    /// The program broke a rule of the synchronization calls.
    #[error("{0}")]
    Misuse(String),
}

/// The two roles of one minipage on one node.
pub trait Cell {
    /// This node's copy.
    fn holder(&mut self) -> &mut Holder;
    /// The directory entry; asked for on the manager only.
    fn entry(&mut self) -> &mut Entry;
}

/// Where a node keeps its engines' states. The runtime's tables are shared by threads and lock what
/// they lend; the checker's are plain maps.
pub trait Tables {
    /// Lends the states of one minipage.
    type Lent<'a>: Cell
    where
        Self: 'a;
    /// Lends the synchronization states.
    type Sync<'a>: core::ops::DerefMut<Target = SyncTables>
    where
        Self: 'a;

    /// The node that keeps the directory entry of a minipage.
    fn manager(&self, minipage: MinipageId) -> NodeId;
    /// The states of one minipage, locked until dropped.
    fn minipage(&mut self, minipage: MinipageId) -> Self::Lent<'_>;
    /// The synchronization states, locked until dropped.
    fn sync(&mut self) -> Self::Sync<'_>;
}

/// A node: its place in the job and its tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<T> {
    /// This node's rank.
    pub me: NodeId,
    /// Nodes in the job.
    pub nodes: u16,
    /// The engines' states.
    pub tables: T,
}

impl<T: Tables> Node<T> {
    /// One step: the only interpreter of effects. Messages of the node to itself are taken at
    /// once, under the same lock, so a manager serves its own node without any delay.
    ///
    /// # Errors
    /// [`Violation`]; the state is unchanged but for effects already applied.
    pub fn step(&mut self, input: Input, world: &mut impl World) -> Result<(), Violation> {
        match input {
            Input::Fault { thread, minipage, kind } => {
                self.coherence(minipage, Local::Holder(HolderEvent::Fault { thread, kind }), world)
            }
            Input::Prefetch { minipage, kind } => {
                self.coherence(minipage, Local::Holder(HolderEvent::Prefetch { kind }), world)
            }
            Input::Push { minipage } => {
                self.coherence(minipage, Local::Holder(HolderEvent::Push), world)
            }
            Input::Resumed { minipage } => {
                self.coherence(minipage, Local::Holder(HolderEvent::Resumed), world)
            }
            Input::Reclaim { minipage } => {
                self.coherence(minipage, Local::Holder(HolderEvent::Reclaim), world)
            }
            Input::Sync(asked) => self.sync(Err(asked), world),
            Input::Message { from, message: Message::Page { minipage, body } } => {
                self.coherence(minipage, Local::Message(from, body), world)
            }
            Input::Message { from, message: Message::Sync { id, body } } => {
                self.sync(Ok((from, id, body)), world)
            }
        }
    }

    fn coherence(
        &mut self,
        minipage: MinipageId,
        first: Local,
        world: &mut impl World,
    ) -> Result<(), Violation> {
        let manager = self.tables.manager(minipage);
        let site = Site { me: self.me, nodes: self.nodes, minipage, manager };
        let mut cell = self.tables.minipage(minipage);
        let mut effects = Effects::new();
        let mut own = VecDeque::new();
        let mut next = Some(first);
        while let Some(local) = next {
            dispatch(&site, &mut cell, local, &mut effects)?;
            apply(self.me, &mut effects, &mut own, world);
            next = own.pop_front().map(|message| match message {
                Message::Page { body, .. } => Local::Message(self.me, body),
                Message::Sync { .. } => unreachable!("coherence engines send no synchronization"),
            });
        }
        Ok(())
    }

    fn sync(
        &mut self,
        first: Result<(NodeId, u32, SyncMessage), SyncInput>,
        world: &mut impl World,
    ) -> Result<(), Violation> {
        let (me, nodes) = (self.me, self.nodes);
        let mut tables = self.tables.sync();
        let mut effects = Effects::new();
        let mut own = VecDeque::new();
        match first {
            Err(asked) => {
                #[cfg(feature = "mutants")]
                let asked = mutants::asked(asked);
                tables
                    .ask(me, nodes, &asked, &mut effects)
                    .map_err(|error| refuse(me, &asked, error))?;
                #[cfg(feature = "mutants")]
                mutants::answered(&asked, &mut effects);
            }
            Ok(message) => own.push_back(message),
        }
        loop {
            let mut sent = VecDeque::new();
            apply(me, &mut effects, &mut sent, world);
            own.extend(sent.into_iter().map(|message| match message {
                Message::Sync { id, body } => (me, id, body),
                Message::Page { .. } => unreachable!("synchronization engines move no pages"),
            }));
            let Some((from, id, message)) = own.pop_front() else { return Ok(()) };
            #[cfg(feature = "mutants")]
            mutants::heard(id, message, &mut effects);
            if let Err(error) = tables.receive(me, nodes, from, (id, message), &mut effects) {
                return Err(refuse(from, &message, error));
            }
        }
    }
}

enum Local {
    Holder(HolderEvent),
    Message(NodeId, PageMessage),
}

/// Routes one event of a minipage to the role it is meant for.
fn dispatch(
    site: &Site,
    cell: &mut impl Cell,
    local: Local,
    out: &mut Effects,
) -> Result<(), Violation> {
    let (from, message) = match local {
        Local::Holder(event) => return hold(site, cell, site.me, event, out),
        Local::Message(from, message) => (from, message),
    };
    check_director(site, from, message)?;
    let event = match message {
        PageMessage::Request { kind } => {
            return manage(site, cell, from, ManagerEvent::Fetch(kind), out);
        }
        PageMessage::ReclaimRequest => return manage(site, cell, from, ManagerEvent::Reclaim, out),
        PageMessage::PushRequest => return manage(site, cell, from, ManagerEvent::Push, out),
        PageMessage::InvalidateReply => {
            return manage(site, cell, from, ManagerEvent::InvalidateReply, out);
        }
        PageMessage::Ack => return manage(site, cell, from, ManagerEvent::Ack, out),
        PageMessage::Forward { kind, requester, hurry } => {
            HolderEvent::Forward { kind, requester, hurry }
        }
        PageMessage::PushForward { target } => HolderEvent::PushForward { target },
        PageMessage::Reply { kind, attach, hurry } => HolderEvent::Reply { kind, attach, hurry },
        PageMessage::PushReply => HolderEvent::PushReply,
        PageMessage::InvalidateRequest => HolderEvent::Invalidate,
        PageMessage::Hurry => HolderEvent::Hurry,
    };
    hold(site, cell, from, event, out)
}

fn hold(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: HolderEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    #[cfg(feature = "mutants")]
    let Some(event) = mutants::told(cell.holder(), event) else { return Ok(()) };
    let result = cell.holder().handle(site, &event, out);
    #[cfg(feature = "mutants")]
    mutants::held(&event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}

/// A holder is directed by its manager alone, and only towards nodes of the job.
fn check_director(site: &Site, from: NodeId, message: PageMessage) -> Result<(), Violation> {
    let towards = match message {
        PageMessage::Forward { requester, .. } => requester,
        PageMessage::PushForward { target } => target,
        PageMessage::InvalidateRequest | PageMessage::Hurry => site.me,
        PageMessage::Request { .. }
        | PageMessage::ReclaimRequest
        | PageMessage::PushRequest
        | PageMessage::Reply { .. }
        | PageMessage::PushReply
        | PageMessage::InvalidateReply
        | PageMessage::Ack => return Ok(()),
    };
    if from == site.manager && towards.0 < site.nodes {
        return Ok(());
    }
    let state = format!("managed by {}, in a job of {} nodes", site.manager, site.nodes);
    Err(Violation::Peer { from, role: "holder", state, event: format!("{message:?}") })
}

fn manage(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: ManagerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if site.me != site.manager {
        let illegal = Illegal { role: "manager", state: format!("managed by {}", site.manager) };
        return Err(refused(from, &event, illegal));
    }
    #[cfg(feature = "mutants")]
    cell.entry().bend(from, event);
    let result = cell.entry().handle(site, from, event, out);
    #[cfg(feature = "mutants")]
    cell.entry().bend_after(site, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}

fn refused(from: NodeId, event: &impl core::fmt::Debug, illegal: Illegal) -> Violation {
    Violation::Peer { from, role: illegal.role, state: illegal.state, event: format!("{event:?}") }
}

fn refuse(from: NodeId, event: &impl core::fmt::Debug, error: SyncError) -> Violation {
    match error {
        SyncError::Misuse(text) => Violation::Misuse(text),
        SyncError::Illegal(state) => {
            refused(from, event, Illegal { role: "synchronization", state })
        }
    }
}

/// Applies effects in order; messages to the node itself go to `own`.
fn apply(me: NodeId, effects: &mut Effects, own: &mut VecDeque<Message>, world: &mut impl World) {
    for effect in effects.drain(..) {
        match effect {
            Effect::Send { to, message } | Effect::SendLater { to, message } if to == me => {
                own.push_back(message);
            }
            Effect::Send { to, message } => world.send(to, message),
            Effect::SendLater { to, message } => world.send_later(to, message),
            Effect::Install { minipage, access } => world.install(minipage, access),
            Effect::Protect { minipage, from, to } => world.protect(minipage, from, to),
            Effect::Reprotect { minipage, access } => world.reprotect(minipage, access),
            Effect::Wake { thread } => world.wake(thread),
            Effect::Reclaimed { minipage } => world.reclaimed(minipage),
            Effect::Competing { minipage } => world.competing(minipage),
        }
    }
}

/// Tables that own their states, for the simulator, the model checker and tests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedTables {
    me: NodeId,
    /// Manager and allocating node of each minipage.
    sites: BTreeMap<MinipageId, (NodeId, NodeId)>,
    cells: BTreeMap<MinipageId, (Holder, Entry)>,
    sync: SyncTables,
}

impl OwnedTables {
    /// Tables of node `me` for minipages given with their manager and their allocating node.
    pub fn new(
        me: NodeId,
        minipages: impl IntoIterator<Item = (MinipageId, NodeId, NodeId)>,
    ) -> Self {
        let sites =
            minipages.into_iter().map(|(id, manager, owner)| (id, (manager, owner))).collect();
        Self { me, sites, cells: BTreeMap::new(), sync: SyncTables::default() }
    }

    /// Adds one minipage.
    pub fn add(&mut self, minipage: MinipageId, manager: NodeId, owner: NodeId) {
        self.sites.insert(minipage, (manager, owner));
    }

    /// The states of one minipage, if it was ever used here.
    #[must_use]
    pub fn cell(&self, minipage: MinipageId) -> Option<&(Holder, Entry)> {
        self.cells.get(&minipage)
    }

    /// The synchronization states.
    #[must_use]
    pub fn sync_tables(&self) -> &SyncTables {
        &self.sync
    }
}

impl Cell for &mut (Holder, Entry) {
    fn holder(&mut self) -> &mut Holder {
        &mut self.0
    }
    fn entry(&mut self) -> &mut Entry {
        &mut self.1
    }
}

impl Tables for OwnedTables {
    type Lent<'a> = &'a mut (Holder, Entry);
    type Sync<'a> = &'a mut SyncTables;

    fn manager(&self, minipage: MinipageId) -> NodeId {
        self.sites.get(&minipage).map_or(NodeId(0), |site| site.0)
    }

    fn minipage(&mut self, minipage: MinipageId) -> Self::Lent<'_> {
        let (me, sites) = (self.me, &self.sites);
        self.cells.entry(minipage).or_insert_with(|| {
            let owner = sites.get(&minipage).map_or(NodeId(0), |site| site.1);
            let holder = if owner == me { Holder::owner() } else { Holder::default() };
            (holder, Entry::owned_by(owner))
        })
    }

    fn sync(&mut self) -> Self::Sync<'_> {
        &mut self.sync
    }
}
