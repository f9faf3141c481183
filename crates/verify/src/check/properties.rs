//! What holds in every state.

use multigrain_protocol::{Kind, Message, PageMessage};
use multigrain_types::{Access, NodeId};
use stateright::Property;

use super::action::JobModel;
use super::program::{Job, Op, Wanted, minipage_id};
use super::state::{Broken, Phase, State, cell};

type Holds = fn(&JobModel, &State) -> bool;

/// Name and predicate of every property of single states.
const ALWAYS: [(&str, Holds); 11] = [
    ("the engines accept every input", |_, state| {
        !matches!(state.broken, Some(Broken::Protocol(_)))
    }),
    ("the worlds' assertions hold", |_, state| !matches!(state.broken, Some(Broken::World(_)))),
    ("no stale read", |_, state| !matches!(state.broken, Some(Broken::StaleRead(_)))),
    ("single writer or many readers", |_, state| single_writer(state)),
    ("page tables agree with engines", agreement),
    ("copyset covers all holders", copysets),
    ("every copy holds the last value written", |_, state| copies_are_fresh(state)),
    ("queues are bounded", bounded),
    ("an access takes few faults", |model, state| few_faults(&model.job, state)),
    ("mutual exclusion", |model, state| mutual_exclusion(&model.job, state)),
    ("nobody passes a barrier or a semaphore too early", |model, state| {
        barriers(&model.job, state) && semaphores(&model.job, state)
    }),
];

/// The properties as stateright wants them.
pub(super) fn all() -> Vec<Property<JobModel>> {
    ALWAYS.iter().map(|&(name, holds)| Property::always(name, holds)).collect()
}

/// Section 3.2: "there can be either read copies or a single writable copy".
fn single_writer(state: &State) -> bool {
    (0..state.latest.len()).all(|index| {
        let with =
            |access| state.memory.iter().filter(|pages| pages[index].access == access).count();
        let (writers, readers) = (with(Access::ReadWrite), with(Access::ReadOnly));
        writers == 0 || (writers == 1 && readers == 0)
    })
}

fn agreement(_: &JobModel, state: &State) -> bool {
    state.nodes.iter().zip(&state.memory).all(|(node, pages)| {
        (0u8..).zip(pages).all(|(index, page)| cell(node, index).0.access() == page.access)
    })
}

/// Accessible copies are all alike: reads need not happen for staleness to be found.
fn copies_are_fresh(state: &State) -> bool {
    state.memory.iter().all(|pages| {
        pages
            .iter()
            .zip(&state.latest)
            .all(|(page, &latest)| page.access == Access::NoAccess || page.content == latest)
    })
}

/// Exact while no transaction is open. While one is, a holder outside of the copyset is one that
/// has not acknowledged its grant yet, or one that is told to give its copy to the new writer.
fn copysets(model: &JobModel, state: &State) -> bool {
    let job = &model.job;
    (0u8..).zip(&job.minipages).all(|(index, placed)| {
        let entry = &cell(&state.nodes[placed.manager.index()], index).1;
        (0..job.nodes).map(NodeId).all(|node| {
            let holder = &cell(&state.nodes[node.index()], index).0;
            let (listed, holds) =
                (entry.copyset().contains(node), holder.access() != Access::NoAccess);
            if entry.is_idle() {
                return listed == holds;
            }
            let under_way = |from, to, wanted: fn(PageMessage) -> bool| {
                state.links[model.link(from, to)].iter().any(|packet| match packet.message {
                    Message::Page { minipage, body } => {
                        minipage == minipage_id(index) && wanted(body)
                    }
                    Message::Mgs { .. } | Message::Hlrc { .. } | Message::Sync { .. } => false,
                })
            };
            let granted = !holder.is_idle() && !holder.is_fetching();
            !holds
                || listed
                || granted
                || under_way(node, placed.manager, |body| matches!(body, PageMessage::Ack { .. }))
                || under_way(placed.manager, node, |body| {
                    matches!(body, PageMessage::Forward { kind: Kind::Write, .. })
                })
        })
    })
}

/// At most a fetch and a push of every node wait at a manager; a link holds few messages.
fn bounded(model: &JobModel, state: &State) -> bool {
    let job = &model.job;
    let nodes = usize::from(job.nodes);
    let queues = (0u8..).zip(&job.minipages).all(|(index, placed)| {
        cell(&state.nodes[placed.manager.index()], index).1.queued() <= 2 * nodes
    });
    let calls = job.threads.iter().map(|thread| thread.program.len()).sum::<usize>();
    queues && state.links.iter().all(|link| link.len() <= 4 * job.minipages.len() + calls)
}

/// No grant is lost twice before it was used, whatever the others do meanwhile.
fn few_faults(job: &Job, state: &State) -> bool {
    state.threads.iter().zip(&job.threads).all(|(now, thread)| {
        let op = thread.program.get(usize::from(now.done));
        now.faults <= op.map_or(0, |op| op.most_faults())
    })
}

/// A thread has a lock from the end of its lock call to its unlock, but for waits on a condition.
fn mutual_exclusion(job: &Job, state: &State) -> bool {
    let mut held = Vec::new();
    for (index, (now, thread)) in state.threads.iter().zip(&job.threads).enumerate() {
        let done = usize::from(now.done);
        let op = thread.program.get(done);
        let gave_up = now.phase == Phase::Blocked && op.is_some_and(|op| op.awaits().is_some());
        if !gave_up {
            held.extend(job.held(index, done, now.skipped));
        }
    }
    let alone = |&(id, kind): &(u32, Option<Kind>)| {
        let same =
            |other: &&(u32, Option<Kind>)| other.0 == id && other.1.is_some() == kind.is_some();
        held.iter().filter(same).count() == 1
            || held.iter().filter(same).all(|other| other.1 == Some(Kind::Read))
    };
    held.iter().all(alone)
}

/// A thread has left an episode of a barrier only when `total` threads have come to it.
fn barriers(job: &Job, state: &State) -> bool {
    job.threads.iter().flat_map(|thread| &thread.program).all(|op| {
        let &Op::Barrier { id, total, .. } = op else { return true };
        let mut arrived = 0;
        let mut left = 0;
        for (now, thread) in state.threads.iter().zip(&job.threads) {
            let done = usize::from(now.done);
            let is_it = |op: &&Op| matches!(op, Op::Barrier { id: other, .. } if *other == id);
            let passed = thread.program[..done].iter().filter(is_it).count();
            let inside =
                now.phase == Phase::Blocked && thread.program.get(done).as_ref().is_some_and(is_it);
            left += passed;
            arrived += passed + usize::from(inside);
        }
        // Episodes are complete one after the other, each with `total` arrivals.
        left <= arrived - arrived % total as usize
    })
}

/// No more units are taken than were posted.
fn semaphores(job: &Job, state: &State) -> bool {
    let mut units = std::collections::BTreeMap::<u32, i64>::new();
    for (now, thread) in state.threads.iter().zip(&job.threads) {
        for (place, op) in thread.program[..usize::from(now.done)].iter().enumerate() {
            if now.skipped & 1 << place != 0 {
                continue;
            }
            if let Some(Wanted::Unit(id)) = op.wanted() {
                *units.entry(id).or_default() -= 1;
            }
            if let Op::Up(id, count) = op {
                *units.entry(*id).or_default() += i64::from(*count);
            }
        }
    }
    units.values().all(|&left| left >= 0)
}
