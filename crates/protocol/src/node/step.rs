//! One step of a node: an input goes to its engine, and what the engine wants done to `apply.rs` and `sync_effects.rs`.

use multigrain_types::{MinipageId, NodeId};

use super::apply::released;
use super::dispatch::{Local, NodeContext, run};
use super::flush::{acquire_if_any_runs, flush};
use super::input::{Input, Violation};
use super::migrate;
use super::refusal::{refuse, refused};
use super::state_tables::{SyncCell, Tables};
use super::sync_effects::{self, LocalSync};
use crate::coherence::{self, GrantEvent, HolderEvent};
use crate::effect::Effects;
use crate::hlrc::{self, CopyEvent};
use crate::message::{Kind, Message, SyncMessage};
use crate::mgs::ClientEvent;
use crate::mutant_macro::mutant;
use crate::release::Ready;
use crate::sync::{SyncContext, SyncInput};
use crate::world::World;

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
    /// One step. Messages of the node to itself are taken at once, under the same lock, so a
    /// manager serves its own node without any delay.
    ///
    /// # Errors
    /// [`Violation`]; the state is unchanged but for effects already applied.
    pub fn step(&mut self, input: Input, world: &mut impl World) -> Result<(), Violation> {
        use coherence::AccessEvent as H;
        use hlrc::AccessEvent as C;
        match input {
            Input::Fault { thread, minipage, kind } => self.asked(
                minipage,
                HolderEvent::Access(H::Fault { thread, kind }),
                ClientEvent::Fault { thread, kind },
                CopyEvent::Access(C::Fault { thread, kind }),
                world,
            ),
            Input::PinnedRetry { thread, minipage, kind } => self.asked(
                minipage,
                HolderEvent::Access(H::PinnedRetry { thread, kind }),
                ClientEvent::Fault { thread, kind },
                CopyEvent::Access(C::Fault { thread, kind }),
                world,
            ),
            Input::Prefetch { minipage, kind } => self.asked(
                minipage,
                HolderEvent::Access(H::Prefetch { kind }),
                ClientEvent::Prefetch { kind },
                CopyEvent::Access(C::Prefetch { kind }),
                world,
            ),
            Input::AwaitedPrefetch { minipage } => {
                let kind = Kind::Read;
                let eager = ClientEvent::Prefetch { kind };
                self.asked(
                    minipage,
                    HolderEvent::Access(H::Prefetch { kind }),
                    eager,
                    CopyEvent::Access(C::AwaitedPrefetch),
                    world,
                )
            }
            Input::OpenAhead { minipage } => {
                let event = CopyEvent::Access(C::OpenAhead);
                self.coherence(minipage, Local::Lazy(event), world)
            }
            Input::Push { minipage } => {
                self.coherence(minipage, Local::Sequential(HolderEvent::Access(H::Push)), world)
            }
            Input::Resumed { thread, minipage } => self.coherence(
                minipage,
                Local::Sequential(HolderEvent::Grant(GrantEvent::Resumed { thread })),
                world,
            ),
            Input::Retired { thread, minipage, turn_us } => self.coherence(
                minipage,
                Local::Sequential(HolderEvent::Grant(GrantEvent::Retired { thread, turn_us })),
                world,
            ),
            Input::Reclaim { minipage } => {
                self.coherence(minipage, Local::Sequential(HolderEvent::Reclaim), world)
            }
            Input::Sync(asked) => self.sync(Err(asked), world),
            Input::Release { thread } => {
                let place = self.place();
                let mut guard = self.tables.sync();
                flush(place, &mut guard, world)?;
                guard.tracker().hold(Ready::Wake { thread });
                deliver(place, &mut guard, world)
            }
            Input::Notify { node } => {
                // Until they are on their way nobody may believe that the node was notified: another
                // thread that notifies it too would find nothing left to send.
                let mut tracker = self.tables.tracker();
                if let Some(notices) = tracker.log_mut().notices_for(node, self.nodes, None) {
                    released(world).send_notices(node, notices);
                    mutant!("notified-before-queued" => {
                        return Ok(());
                    });
                    released(world).send_notices_alone();
                }
                Ok(())
            }
            Input::Acquire => {
                let place = self.place();
                acquire_if_any_runs(place, &mut self.tables.sync(), world)
            }
            Input::Message { from, message: Message::Sync { id, body } } => {
                self.sync(Ok((from, id, body)), world)
            }
            Input::Message { from, message } => match message.minipage() {
                Some(minipage) => self.coherence(minipage, Local::Message(from, message), world),
                None => unreachable!("all but synchronization messages are about a minipage"),
            },
            Input::Operand { from, id, operand } => {
                let context = SyncContext::new(self.me, self.nodes, id);
                let mut guard = self.tables.sync();
                let taken = guard.tables().receive_operand(&context, from, *operand);
                taken.map_err(|error| refuse(from, &"an operand", error))
            }
            Input::WriteNotices { from, notices } => {
                let received = self.tables.tracker().log_mut().receive(from, &notices);
                received.map_err(|illegal| refused(from, &"write notices", illegal))
            }
        }
    }

    fn place(&self) -> NodeContext {
        NodeContext { me: self.me, nodes: self.nodes }
    }

    fn asked(
        &mut self,
        minipage: MinipageId,
        sequential: HolderEvent,
        eager: ClientEvent,
        lazy: CopyEvent,
        world: &mut impl World,
    ) -> Result<(), Violation> {
        self.coherence(minipage, Local::Any { sequential, eager, lazy }, world)
    }

    fn coherence(
        &mut self,
        minipage: MinipageId,
        first: Local,
        world: &mut impl World,
    ) -> Result<(), Violation> {
        let place = self.place();
        let mut cell = self.tables.minipage(minipage);
        let acked = run(place, minipage, &mut cell, first, world)?;
        drop(cell);
        if !acked {
            return Ok(());
        }
        // A flush may have ended: what waited for it may go.
        if !self.tables.tracker().has_ready() {
            return Ok(());
        }
        deliver(place, &mut self.tables.sync(), world)
    }

    fn sync(
        &mut self,
        first: Result<(NodeId, u64, SyncMessage), SyncInput>,
        world: &mut impl World,
    ) -> Result<(), Violation> {
        let place = self.place();
        let NodeContext { me, nodes } = place;
        let mut guard = self.tables.sync();
        let mut effects = Effects::new();
        let mut own = LocalSync::new();
        match first {
            Err(asked) => {
                guard
                    .tables()
                    .ask(me, nodes, &asked, &mut effects)
                    .map_err(|error| refuse(me, &asked, error))?;
                world.on_request(&asked);
            }
            Ok(message) => own.push(message),
        }
        run_to_completion(place, &mut guard, &mut effects, &mut own, world)
    }
}

/// Lets go what no flush holds any more. Messages of the node to itself are taken before the
/// synchronization states are free again: nothing that is said to it later overtakes them.
fn deliver(
    place: NodeContext,
    guard: &mut impl SyncCell,
    world: &mut impl World,
) -> Result<(), Violation> {
    let mut own = LocalSync::new();
    sync_effects::deliver(place, &mut guard.tracker(), &mut own, world);
    run_to_completion(place, guard, &mut Effects::new(), &mut own, world)
}

/// Applies effects and takes messages of the node to itself, until there are none.
fn run_to_completion(
    place: NodeContext,
    guard: &mut impl SyncCell,
    effects: &mut Effects,
    own: &mut LocalSync,
    world: &mut impl World,
) -> Result<(), Violation> {
    let NodeContext { me, nodes } = place;
    let mut taken = 0;
    loop {
        sync_effects::apply(place, effects, own, guard, world)?;
        let Some(&(from, id, message)) = own.get(taken) else { return Ok(()) };
        taken += 1;
        if taken == own.len() {
            own.clear();
            taken = 0;
        }
        world.on_receive(from, id, message);
        migrate::before_taking(place, from, id, message, guard, world)?;
        let done = guard.tables().receive(me, nodes, from, (id, message), effects);
        done.map_err(|error| refuse(from, &message, error))?;
    }
}
