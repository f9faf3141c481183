//! The engines of a node over its platform: one step takes an input, and its effects become protections,
//! frames and wake-ups before it returns ([`world`]).
//!
//! Any thread may step. States are locked by the tables. When a step ends, all that remains of it are deferred
//! frames in the links, diffs that came before they may be merged ([`pending_diffs`]), results of collective operations for
//! their threads, and minipages that came back for the heap ([`Engine::take_reclaimed`]).

#[cfg(feature = "mutants")]
pub(crate) mod mutants;
mod pending_diffs;
mod world;
mod write_history;
mod write_protected;

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Once};

use multigrain_memory::Twins;
use multigrain_protocol::sync::Operand;
use multigrain_protocol::{
    Cell as _, HlrcMessage, Input, Kind, Message, Node, Tables as _, Violation, World as _,
};
use multigrain_types::false_sharing::Shared;
use multigrain_types::{AreaId, MinipageId, NodeId, ThreadId};

use crate::allocation_sites::AllocationSites;
use crate::error::Error;
use crate::false_sharing::{FalseSharing, Trapped};
use crate::minipage_run::Run;
use crate::platform::Platform;
use crate::races::{Checker, Races};
use crate::shim::{Mutex, lock};
use crate::stats::Stats;
use crate::time_windows::Windows;
use pending_diffs::PendingDiffs;
use world::RealWorld;
pub(crate) use write_history::Expected;
use write_history::WriteHistory;
use write_protected::Openings;

/// The engines of a node and what their effects need.
#[derive(Debug)]
pub(crate) struct Engine {
    platform: Platform,
    twins: Twins,
    openings: Openings,
    writes: WriteHistory,
    pending_diffs: Mutex<PendingDiffs>,
    races: Option<Checker>,
    sharing: Option<FalseSharing>,
    /// Where allocations were made, if a report may ask.
    sites: Option<AllocationSites>,
    windows: Windows,
    step_results: StepResults,
}

/// What steps have led to, until it is taken.
#[derive(Debug, Default)]
struct StepResults {
    reclaimed: Mutex<Vec<MinipageId>>,
    /// What the last acquire took from this node's threads, in order.
    lost: Mutex<Vec<MinipageId>>,
    /// Of collective operations, for threads that wake up.
    results: Mutex<BTreeMap<ThreadId, Arc<[u8]>>>,
}

impl Engine {
    /// # Errors
    /// No timer is left for windows.
    pub(crate) fn new(
        platform: Platform,
        checks_races: bool,
        counts_sharing: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            platform,
            twins: Twins::new(),
            openings: Openings::default(),
            writes: WriteHistory::default(),
            pending_diffs: Mutex::default(),
            races: checks_races.then(Checker::default),
            sharing: counts_sharing.then(FalseSharing::default),
            sites: (checks_races || counts_sharing).then(|| AllocationSites::new(checks_races)),
            windows: Windows::new()?,
            step_results: StepResults::default(),
        })
    }

    pub(crate) fn platform(&self) -> &Platform {
        &self.platform
    }

    pub(crate) fn races(&self) -> Races<'_> {
        Races::new(self.races.as_ref(), self.sites.as_ref(), &self.platform)
    }

    /// An area is being retired: no thread of this node has states of any minipage.
    pub(crate) fn forget_twins(&self, id: AreaId) {
        self.twins.forget_area(id);
    }

    /// An area has been retired.
    pub(crate) fn forget_sharing(&self, id: AreaId) {
        if let Some(sharing) = &self.sharing {
            sharing.relaxed().forget_area(id, &self.platform);
        }
    }

    /// A thread has trapped at an address of a minipage; none if sharing is not counted.
    pub(crate) fn trapped(&self, place: (MinipageId, usize), kind: Kind) -> Option<Trapped> {
        let sharing = self.sharing.as_ref()?;
        let consistency = self.platform.tables().consistency_of(place.0);
        consistency.is_sequential().then(|| sharing.trapped(place, kind, &self.platform))
    }

    /// It has what it trapped for.
    pub(crate) fn served(&self, trapped: Option<Trapped>) {
        if let (Some(sharing), Some(trapped)) = (&self.sharing, trapped) {
            sharing.served(trapped, &self.platform);
        }
    }

    /// A thread of this node releases or acquires.
    pub(crate) fn end_interval(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.end_interval();
        }
    }

    /// Allocations whose minipages this node lost, if that is counted.
    pub(crate) fn sharing(&self) -> Option<Vec<Shared>> {
        let sharing = self.sharing.as_ref()?;
        Some(sharing.report(self.sites.as_ref(), &self.platform))
    }

    /// What this node is likely to write.
    pub(crate) fn writes(&self) -> &WriteHistory {
        &self.writes
    }

    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The file descriptors that this node keeps open as long as it lives.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.platform.descriptors().chain([self.windows.descriptor()]).collect()
    }

    /// This node's counters. Its threads that have not ended have lived for `living_ns` nanoseconds in sum.
    pub(crate) fn stats(&self, living_ns: u64) -> Stats {
        let platform = &self.platform;
        let (counters, mesh, tables) = (platform.counters(), platform.mesh(), platform.tables());
        Stats::read(counters, mesh, tables, &self.twins, living_ns)
    }

    /// Freed minipages of which no other node has a copy any more, since it was asked last.
    pub(crate) fn take_reclaimed(&self) -> Vec<MinipageId> {
        core::mem::take(&mut lock(&self.step_results.reclaimed))
    }

    /// Lazily consistent minipages that the last acquire took from this node's threads, in order, unless they were asked
    /// for before.
    pub(crate) fn take_lost(&self) -> Vec<MinipageId> {
        core::mem::take(&mut lock(&self.step_results.lost))
    }

    /// The result of the collective operation that a thread was woken from.
    pub(crate) fn take_result(&self, thread: ThreadId) -> Arc<[u8]> {
        lock(&self.step_results.results).remove(&thread).unwrap_or_default()
    }

    /// Raises the limit of pending diffs for `minipages` more minipages, of diffs up to `longest` bytes each.
    pub(crate) fn allow_diffs(&self, minipages: usize, longest: usize) {
        lock(&self.pending_diffs).allow(minipages, longest);
    }

    /// Lowers it again.
    pub(crate) fn disallow_diffs(&self, minipages: usize, longest: usize) {
        lock(&self.pending_diffs).disallow(minipages, longest);
    }

    /// One protocol step. A program's misuse is returned; a peer's violation ends the node.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] and [`Error::Limit`].
    pub(crate) fn step(&self, input: Input) -> Result<(), Error> {
        self.step_with(input, None, false)
    }

    /// A step that no program can misuse.
    pub(crate) fn step_sure(&self, input: Input) {
        self.sure(self.step(input));
    }

    /// Whether this node has access to a minipage; the page tables agree then.
    pub(crate) fn maps(&self, minipage: MinipageId, kind: Kind) -> bool {
        let mut cell = self.platform.tables().lock(minipage);
        let access = cell.access();
        if access < kind.access() {
            return false;
        }
        RealWorld::new(self, self.platform.me(), None, false).reprotect(minipage, access);
        true
    }

    /// The step of a message that has arrived, with its diff.
    pub(crate) fn step_received(&self, from: NodeId, message: Message, diff: Option<&[u8]>) {
        if let Err(error) = self.step_with(Input::Message { from, message }, diff, false) {
            self.platform.fatal(&format!("{error} (at a message of {from})"));
        }
    }

    /// What a collective operation's next message of that node belongs to; false if it makes no sense.
    pub(crate) fn receive_operand(&self, from: NodeId, id: u64, body: &[u8]) -> bool {
        let Ok(operand) = Operand::from_bytes(body) else { return false };
        let operand = Input::Operand { from, id, operand: Box::new(operand) };
        let taken = self.step_with(operand, None, false);
        self.sure(taken);
        true
    }

    /// A step whose requests for lazily consistent minipages are deferred, to travel with others to the
    /// same node; its batch, which the driver has, lets them go.
    pub(crate) fn step_batched(&self, input: Input) {
        self.sure(self.step_with(input, None, true));
    }

    /// One step for each minipage of a run, under the locks of them all.
    pub(crate) fn step_run(&self, run: Run, input: impl Fn(MinipageId) -> Input) {
        self.sure(self.steps_of_run(run, self.platform.me(), None, false, input));
    }

    /// The same, as [`Engine::step_batched`].
    pub(crate) fn step_run_batched(&self, run: Run, input: impl Fn(MinipageId) -> Input) {
        self.sure(self.steps_of_run(run, self.platform.me(), None, true, input));
    }

    /// The steps of a message about a run that has arrived.
    pub(crate) fn step_received_run(&self, from: NodeId, message: Message, run: Run) {
        let input = |minipage| Input::Message { from, message: message.about(minipage) };
        if let Err(error) = self.steps_of_run(run, from, Some(message), false, input) {
            self.platform.fatal(&format!("{error} (at a message of {from})"));
        }
    }

    /// `message`: what has arrived, if anything has.
    fn steps_of_run(
        &self,
        run: Run,
        from: NodeId,
        message: Option<Message>,
        batches: bool,
        input: impl Fn(MinipageId) -> Input,
    ) -> Result<(), Error> {
        let states = self.platform.tables().lock_run(run);
        let (me, nodes) = (self.platform.me(), self.platform.nodes());
        let mut node = Node { me, nodes, tables: &states };
        let mut world = RealWorld::of_run(self, from, batches).answering(message);
        // Another node asks for what may be fresh.
        let fetches =
            matches!(message, Some(Message::Hlrc { body: HlrcMessage::Fetch { .. }, .. }));
        if fetches && self.platform.tables().consistency_of(run.first()).is_lazy() {
            let fresh = |minipage: &MinipageId| (&states).minipage(*minipage).copy().is_fresh();
            world.close_zeros(run.minipages().filter(fresh));
        }
        let done = {
            #[cfg(feature = "mutants")]
            let mut world = mutants::MutantWorld::new(&mut world);
            run.minipages().try_for_each(|minipage| node.step(input(minipage), &mut world))
        };
        world.carry_out_run();
        world.reopen_zeros();
        drop(states);
        world.finish();
        done.map_err(|violation| self.judge(from, violation))
    }

    fn sure(&self, done: Result<(), Error>) {
        if let Err(error) = done {
            self.platform.fatal(&error.to_string());
        }
    }

    fn step_with(&self, input: Input, diff: Option<&[u8]>, batches: bool) -> Result<(), Error> {
        let me = self.platform.me();
        let sender = if let Input::Message { from, .. } | Input::Operand { from, .. } = input {
            Some(from)
        } else {
            None
        };
        let from = sender.unwrap_or(me);
        let mut node = Node { me, nodes: self.platform.nodes(), tables: self.platform.tables() };
        let message =
            if let Input::Message { message, .. } = &input { Some(*message) } else { None };
        let mut world = RealWorld::new(self, from, diff, batches).answering(message);
        let done = {
            #[cfg(feature = "mutants")]
            let mut world = mutants::MutantWorld::new(&mut world);
            node.step(input, &mut world)
        };
        world.finish();
        done.map_err(|violation| self.judge(from, violation))
    }

    /// Who broke a rule: the program, which is told, or a node, which is the end of the job. What a message
    /// of `cause` leads this node to tell itself is of that node, too.
    fn judge(&self, cause: NodeId, violation: Violation) -> Error {
        let me = self.platform.me();
        match violation {
            Violation::Misuse(text) => Error::NotPermitted(text),
            Violation::Limit { from, text } if from == me => {
                // A C program sees the code alone.
                static TOLD: Once = Once::new();
                TOLD.call_once(|| self.platform.launcher().warn(&text));
                Error::Limit(text)
            }
            Violation::Limit { from, text } => self.platform.peer_beyond_limit(from, text),
            Violation::Peer { from, .. } if from != me || cause != me => {
                self.platform.peer_broke(if from == me { cause } else { from }, violation.what())
            }
            violation @ (Violation::Peer { .. } | _) => self.platform.fatal(&violation.to_string()),
        }
    }
}
