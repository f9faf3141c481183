//! Messages as words and back, and any of them in any order given to the protocol: an answer or a
//! violation, never a panic, nothing sent beyond the job, and no queue without bound.
//!
//! Input: the node, then steps: what its own threads do, and messages and write notices of its peers. Of the
//! minipages all are sequentially consistent, or one is so, one eagerly and one lazily release consistent,
//! and one auto.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::Input as Bytes;
use multigrain_fuzz::fuzz_target;
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::migration::MigrationPlan;
use multigrain_protocol::release::{WriteNotice, WriteNotices};
use multigrain_protocol::sync::{Operand, SyncInput, Withdrawable};
use multigrain_protocol::{
    Attach, Input, Kind, Message, Node, OwnedTables, ReleaseWorld, Turns, Words, World,
};
use multigrain_types::tree::Fan;
use multigrain_types::{Access, Consistency, MinipageId, NodeId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const NODES: u16 = 4;
const MINIPAGES: u64 = 4;

/// Knows which access each minipage has, and what has been done in this step.
struct Watched {
    me: NodeId,
    access: BTreeMap<MinipageId, Access>,
    twins: BTreeSet<MinipageId>,
    /// Whether all minipages but the first are release consistent.
    relaxed: bool,
    /// Whether minipages nobody asked for yet are zero.
    zero: bool,
    effects: usize,
}

impl Watched {
    fn access(&self, minipage: MinipageId) -> Access {
        let first = if owner(minipage) == self.me { Access::ReadWrite } else { Access::NoAccess };
        self.access.get(&minipage).copied().unwrap_or(first)
    }

    fn change(&mut self, minipage: MinipageId, from: Access, to: Access) {
        assert_eq!(self.access(minipage), from, "{minipage} to {to:?}");
        self.access.insert(minipage, to);
        self.effects += 1;
    }
}

impl World for Watched {
    fn send_operand(&mut self, to: NodeId, id: u64, _: &Operand) {
        assert!(to != self.me && to.0 < NODES, "an operand of {id:#x} to {to}");
    }

    fn result(&mut self, thread: ThreadId, _: Arc<[u8]>) {
        panic!("a result for {thread:?}, and no thread of this node collects");
    }

    fn send(&mut self, to: NodeId, message: Message) {
        assert!(to != self.me && to.0 < NODES, "{message:?} to {to}");
        match (message, message.attach()) {
            (Message::Page { minipage, .. }, Attach::Page) => {
                assert_ne!(self.access(minipage), Access::ReadWrite, "{message:?} while written");
            }
            (_, Attach::Diff) => {
                let twin = message.minipage().is_some_and(|id| self.twins.contains(&id));
                assert!(twin, "{message:?} without a twin");
            }
            (_, Attach::Nothing | Attach::Page) => {}
        }
        self.effects += 1;
    }

    fn hold(&mut self, _: ThreadId, _: MinipageId, _: Turns, _: bool) {
        self.effects += 1;
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        self.send(to, message);
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        self.change(minipage, Access::NoAccess, access);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        self.change(minipage, from, to);
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        assert_eq!(self.access(minipage), access);
        self.effects += 1;
    }

    fn refuse(&mut self, _: ThreadId) {
        self.effects += 1;
    }

    fn wake(&mut self, _: ThreadId) {
        self.effects += 1;
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        let sequential = !self.relaxed || minipage.0 == 0;
        assert!(!sequential || self.access(minipage) == Access::ReadWrite);
        self.effects += 1;
    }

    fn competing(&mut self, _: MinipageId) {
        self.effects += 1;
    }

    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for Watched {
    fn send_notices(&mut self, to: NodeId, _: WriteNotices) {
        assert!(to != self.me && to.0 < NODES, "write notices to {to}");
        self.effects += 1;
    }

    fn make_twin(&mut self, minipage: MinipageId) {
        assert!(self.twins.insert(minipage), "{minipage} has a twin");
    }

    fn drop_twin(&mut self, minipage: MinipageId) {
        assert!(self.twins.remove(&minipage), "{minipage} has no twin");
    }

    fn store(&mut self, minipage: MinipageId) {
        assert_eq!(self.access(minipage), Access::NoAccess, "{minipage} is stored while in use");
    }

    fn buffer_diff(&mut self, _: MinipageId) {
        self.effects += 1;
    }

    fn merge_diffs(&mut self, _: MinipageId, _: bool) {}

    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        self.change(minipage, Access::NoAccess, access);
    }

    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        if self.zero {
            self.change(minipage, Access::ReadWrite, Access::NoAccess);
        }
        self.zero
    }

    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool {
        assert!(self.twins.contains(&minipage), "{minipage} has no twin");
        if self.zero {
            self.change(minipage, Access::ReadWrite, Access::ReadOnly);
        }
        self.zero
    }

    fn send_notices_alone(&mut self) {}

    fn closing(&mut self, _: &[MinipageId]) {}
    fn losing(&mut self, _: &[MinipageId]) {}

    fn send_batched(&mut self) {}

    fn track(&mut self, minipage: MinipageId, _: Access) {
        unreachable!("no home of this world is tracked: {minipage}")
    }

    fn written(&mut self) -> Vec<MinipageId> {
        Vec::new()
    }

    /// One that came goes on: it needs no twin here.
    fn forward_diff(&mut self, to: NodeId, message: Message) {
        assert!(to != self.me && to.0 < NODES, "{message:?} to {to}");
        self.effects += 1;
    }
}

fn owner(minipage: MinipageId) -> NodeId {
    NodeId(u16::from(minipage.0 == 2))
}

/// Something a thread of the node does.
fn deed(input: &mut Bytes<'_>) -> Input {
    let (op, low) = (input.byte(), input.byte());
    let thread = ThreadId(u32::from(low & 3));
    let minipage = MinipageId(u64::from(low >> 2) % MINIPAGES);
    let kind = if op & 16 == 0 { Kind::Read } else { Kind::Write };
    let (id, all) = (u64::from(low >> 2) % 5, op & 16 != 0);
    let (lock, small) = (u64::from(op >> 5), u32::from(op >> 4));
    let from = [Withdrawable::Lock(id), Withdrawable::Semaphore(id), Withdrawable::Condition(id)];
    match op % 16 {
        _ if low & 128 != 0 => Input::Sync(match op % 8 {
            0 => SyncInput::TryLock { thread, id },
            1 => SyncInput::TimedLock { thread, id },
            2 => SyncInput::SemaphoreTry { thread, id },
            3 => SyncInput::ReadWriteLock { thread, id, kind, tries: low & 64 != 0 },
            4 => SyncInput::ReadWriteUnlock { thread, id },
            of => SyncInput::Withdraw { thread, from: from[usize::from(of) - 5] },
        }),
        0 | 1 => Input::Fault { thread, minipage, kind },
        2 => Input::Prefetch { minipage, kind },
        3 => Input::Push { minipage },
        4 => Input::Resumed { thread, minipage },
        5 => Input::Reclaim { minipage },
        6 => Input::Sync(SyncInput::Lock { thread, id }),
        7 if all => {
            Input::Sync(SyncInput::UnlockToReacquire { thread, id, at_once: low & 64 != 0 })
        }
        7 => Input::Sync(SyncInput::Unlock { thread, id }),
        8 => Input::Sync(SyncInput::Barrier {
            thread,
            id,
            local: small & 3,
            total: small,
            quiescent: all,
        }),
        9 => Input::Sync(SyncInput::SemaphoreWait { thread, id }),
        10 => Input::Sync(SyncInput::ConditionWait { thread, id, lock }),
        11 if all => Input::Sync(SyncInput::LockWindowOver { id }),
        11 => Input::Sync(SyncInput::Begin { thread }),
        12 => Input::Sync(SyncInput::End { thread }),
        13 => Input::PinnedRetry { thread, minipage, kind },
        14 => Input::Retired { thread, minipage, turn_us: 0 },
        _ => Input::Sync(SyncInput::ConditionSignal { id, all }),
    }
}

/// Write notices of a peer, of nodes and minipages that exist.
fn write_notices(input: &mut Bytes<'_>) -> WriteNotices {
    let node = |byte: u8| NodeId(u16::from(byte) % NODES);
    let clock = |input: &mut Bytes<'_>| -> Vec<u64> {
        (0..NODES).map(|_| u64::from(input.byte() & 3)).collect()
    };
    let told = clock(input);
    let lazy = |byte: u8| MinipageId(2 + u64::from(byte >> 5 & 1));
    let count = input.byte() % 4;
    let notice = |byte: u8| WriteNotice {
        writer: node(byte),
        interval: (byte >> 6).into(),
        minipage: lazy(byte),
    };
    let notices = (0..count).map(|_| notice(input.byte())).collect();
    let floor = clock(input);
    let last = input.byte();
    let turn = (last & 1 == 1).then(|| MigrationPlan {
        epoch: 1,
        clock: told.clone(),
        moves: vec![(lazy(last), node(last >> 1))],
    });
    WriteNotices {
        below: turn.is_none() && told.len() % 2 == 1,
        clock: told,
        notices,
        floor,
        plan: turn,
    }
}

/// The words of a peer; half of the time with numbers that make sense.
fn words(input: &mut Bytes<'_>, wild: bool) -> Words {
    let (kind, flags) = (input.byte(), input.byte());
    if wild {
        return Words {
            kind,
            flags,
            thread: input.word(),
            subject: input.long(),
            value: input.long(),
            extra: input.long(),
        };
    }
    let (thread, subject) = (input.byte(), input.byte());
    let value = match kind {
        19 => (input.byte() & 15).into(),
        23 => input.byte().into(),
        // A flush, or an epoch.
        50.. => (input.byte() & 15).into(),
        _ => 0,
    };
    let extra = if kind == 57 { (input.byte() & 15).into() } else { 0 };
    Words { kind, flags, thread: thread.into(), subject: subject.into(), value, extra }
}

/// The message of some words, which must spell it alone.
fn spelled(words: &Words) -> Option<Message> {
    let message = Message::from_words(words).ok()?;
    assert_eq!(message.to_words(), *words);
    Some(message)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Bytes(data);
    let choice = input.byte();
    let me = NodeId(u16::from(choice) % NODES);
    let manager = |minipage: MinipageId| NodeId(u16::from(choice >> 2) * minipage.0 as u16 % NODES);
    // As long a chain as so few nodes can make.
    let chain = TreeShape { fan: Fan(1), beyond: 1 };
    let mut tables = OwnedTables::new(me, []).with_invalidations(chain);
    let relaxed = choice & 0x80 != 0;
    for id in (0..MINIPAGES).map(MinipageId) {
        let kind = if relaxed { Consistency::ALL[id.0 as usize] } else { Consistency::Sequential };
        tables.add(id, manager(id), owner(id), kind);
    }
    let mut node = Node { me, nodes: NODES, tables };
    let (access, twins) = (BTreeMap::new(), BTreeSet::new());
    let mut world = Watched { me, access, twins, relaxed, zero: choice & 0x40 != 0, effects: 0 };
    let mut steps = 0;
    while !input.is_empty() {
        let op = input.byte();
        let step = if op & 1 == 0 {
            deed(&mut input)
        } else {
            let from = NodeId((me.0 + 1 + u16::from(op >> 2) % (NODES - 1)) % NODES);
            if relaxed && op & 0x80 != 0 {
                Input::WriteNotices { from, notices: Box::new(write_notices(&mut input)) }
            } else {
                let Some(message) = spelled(&words(&mut input, op & 2 != 0)) else { continue };
                // The receiver lets no other through.
                if message.minipage().is_some_and(|minipage| minipage.0 >= MINIPAGES) {
                    continue;
                }
                Input::Message { from, message }
            }
        };
        let hostile = matches!(step, Input::Message { .. } | Input::WriteNotices { .. });
        steps += 1;
        world.effects = 0;
        if node.step(step, &mut world).is_err() && hostile {
            return;
        }
        // A step may serve all that earlier ones left waiting, but nothing twice.
        assert!(world.effects <= 4 * (steps + usize::from(NODES)), "{} effects", world.effects);
        for minipage in (0..MINIPAGES).map(MinipageId) {
            let queued = node.tables.cell(minipage).map_or(0, |(_, entry)| entry.queued());
            assert!(queued <= 2 * usize::from(NODES), "{queued} requests wait for {minipage}");
        }
    }
});
