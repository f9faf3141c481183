//! For each kind of object: which node learns which clock, and when.

use multigrain_protocol::ConditionMessage;

use super::*;

const LOCK: u64 = 4;
const GRANT: SyncMessage = SyncMessage::Lock(LockMessage::Grant);
const WAIT: SyncMessage = SyncMessage::Semaphore(SemaphoreMessage::Grant { thread: ThreadId(0) });
const POST: SyncMessage = SyncMessage::Semaphore(SemaphoreMessage::Post { count: 1 });
const ARRIVE: SyncMessage =
    SyncMessage::Barrier(BarrierMessage::Arrive { arrivals: 1, total: 3, quiescent: 0 });
const RELEASE: SyncMessage =
    SyncMessage::Barrier(BarrierMessage::Release { arrivals: 1, quiescent: false });
const UNLOCK: SyncInput = SyncInput::Unlock { thread: ThreadId(0), id: LOCK };
const NODE: NodeId = NodeId(1);

/// The clock that goes with a message.
fn sent(order: &mut HappensBefore, id: u64, body: SyncMessage, now: &Clock) -> Clock {
    order.on_send(NODE, id, body, now);
    order.on_departure(NODE, id, body)
}

#[test]
fn a_lock_brings_the_clock_of_its_last_unlock_and_none_of_what_the_node_did_since() {
    let mut order = HappensBefore::default();
    let later = Clock::from([9, 9]);
    assert!(sent(&mut order, LOCK, GRANT, &later).is_empty(), "nobody has held it");
    assert_eq!(order.on_receive(LOCK, GRANT, [1, 5].into()), Some([1, 5].into()));
    order.on_request(&UNLOCK, &[3, 5].into());
    assert_eq!(sent(&mut order, LOCK, GRANT, &later), [3, 5].into());
}

#[test]
fn a_lock_that_came_and_goes_unused_brings_what_it_came_with() {
    let mut order = HappensBefore::default();
    assert_eq!(order.on_receive(LOCK, GRANT, [1, 5].into()), Some([1, 5].into()));
    assert_eq!(sent(&mut order, LOCK, GRANT, &[9].into()), [1, 5].into());
}

#[test]
fn a_lock_given_up_for_a_condition_is_unlocked_and_the_condition_orders_nothing() {
    let mut order = HappensBefore::default();
    order.on_request(
        &SyncInput::ConditionWait { thread: ThreadId(0), id: 5, lock: LOCK },
        &[2].into(),
    );
    for message in [
        ConditionMessage::Enqueue { thread: ThreadId(0) },
        ConditionMessage::Queued { thread: ThreadId(0) },
        ConditionMessage::Signal { all: true },
        ConditionMessage::Wake { thread: ThreadId(0) },
    ] {
        let message = SyncMessage::Condition(message);
        assert!(sent(&mut order, 5, message, &[9].into()).is_empty());
        assert_eq!(order.on_receive(5, message, Clock::default()), None);
    }
    assert_eq!(sent(&mut order, LOCK, GRANT, &[9].into()), [2].into());
}

#[test]
fn a_barrier_is_left_with_what_all_brought_and_nobody_learns_by_an_arrival() {
    let mut order = HappensBefore::default();
    assert_eq!(order.on_receive(3, ARRIVE, [0, 4].into()), None, "its manager has not come yet");
    assert_eq!(order.on_receive(3, ARRIVE, [2].into()), None);
    order.on_send(NODE, 3, RELEASE, &[9, 9].into());
    order.on_send(NodeId(0), 3, RELEASE, &[9, 9].into());
    // The release may have to wait for a flush: the next episode is none of it.
    assert_eq!(order.on_receive(3, ARRIVE, [7, 7, 7].into()), None);
    assert_eq!(order.on_departure(NODE, 3, RELEASE), [2, 4].into());
    assert_eq!(order.on_departure(NodeId(0), 3, RELEASE), [2, 4].into());
    assert_eq!(sent(&mut order, 3, RELEASE, &[9].into()), [7, 7, 7].into());
    let left = order.on_receive(3, RELEASE, [2, 4].into());
    assert_eq!(left, Some([2, 4].into()));
}

#[test]
fn an_arrival_brings_what_its_node_knew_when_it_came() {
    let mut order = HappensBefore::default();
    order.on_send(NODE, 3, ARRIVE, &[5].into());
    order.on_send(NODE, 6, ARRIVE, &[6].into());
    assert_eq!(order.on_departure(NODE, 6, ARRIVE), [6].into());
    assert_eq!(order.on_departure(NODE, 3, ARRIVE), [5].into());
}

#[test]
fn a_semaphore_brings_all_posts_so_far_and_its_manager_learns_none_by_them() {
    let mut order = HappensBefore::default();
    assert_eq!(sent(&mut order, 8, POST, &[1, 1].into()), [1, 1].into());
    assert_eq!(order.on_receive(8, POST, [0, 1].into()), None);
    assert_eq!(order.on_receive(8, POST, [0, 0, 2].into()), None);
    assert_eq!(sent(&mut order, 8, WAIT, &[9].into()), [0, 1, 2].into());
    assert_eq!(sent(&mut order, 8, WAIT, &[9].into()), [0, 1, 2].into(), "for every unit");
    assert_eq!(order.on_receive(8, WAIT, [0, 1].into()), Some([0, 1].into()));
}

#[test]
fn a_name_is_followed_by_many_and_a_thread_or_freed_memory_by_one() {
    let mut order = HappensBefore::default();
    let name = Ordered::Name(b"one".to_vec());
    order.keep(name.clone(), [1].into());
    order.keep(name.clone(), [0, 2].into());
    for _ in 0..2 {
        assert_eq!(order.give(&name), [0, 2].into(), "of the last publication");
    }
    for object in [Ordered::Start(1), Ordered::End(1), Ordered::Freed(1)] {
        order.keep(object.clone(), [3].into());
        assert_eq!(order.give(&object), [3].into());
        assert!(order.give(&object).is_empty());
    }
}

#[test]
fn a_clock_waits_for_its_own_message_and_clocks_without_messages_are_not_taken_for_ever() {
    let mut order = HappensBefore::default();
    assert!(order.arrives((NODE, 22, ThreadId(0)), [1].into()));
    assert!(order.arrives((NODE, 72, ThreadId(3)), [2].into()));
    assert!(order.came_with((NodeId(2), 22, ThreadId(0))).is_empty());
    assert!(order.came_with((NODE, 72, ThreadId(0))).is_empty());
    assert_eq!(order.came_with((NODE, 72, ThreadId(3))), [2].into());
    assert_eq!(order.came_with((NODE, 22, ThreadId(0))), [1].into());
    let mut thread = (0..).map(ThreadId);
    let taken = core::iter::from_fn(|| {
        order.arrives((NODE, 72, thread.next()?), Clock::default()).then_some(())
    });
    assert_eq!(taken.count(), MOST_ARRIVED);
    assert!(order.arrives((NodeId(2), 72, ThreadId(0)), [1].into()), "another is not to blame");
}

#[test]
fn ever_new_barriers_and_semaphores_leave_no_clock_each() {
    let mut order = HappensBefore::default();
    for id in 0..100 {
        assert_eq!(order.on_receive(id, ARRIVE, [id].into()), None);
        assert_eq!(sent(&mut order, id, RELEASE, &[9].into()), [id].into());
    }
    assert!(order.barriers.is_empty());
    let nothing = SyncMessage::Semaphore(SemaphoreMessage::Post { count: 0 });
    let most = u64::try_from(MOST_SEMAPHORES).unwrap();
    for id in 0..most + 2 {
        assert_eq!(order.on_receive(id, nothing, [0, id + 1].into()), None);
    }
    assert_eq!(order.semaphores.len(), MOST_SEMAPHORES);
    assert_eq!(sent(&mut order, most, WAIT, &[9].into()), [0, most + 1].into());
    assert_eq!(sent(&mut order, 0, WAIT, &[9].into()), [0, 2].into(), "what those know that rest");
}

#[test]
fn who_gets_a_read_write_lock_follows_all_who_gave_it_back() {
    use ReadWriteMessage::{Grant, Release};
    let mut order = HappensBefore::default();
    for clock in [[3, 0], [0, 4]] {
        let release = SyncMessage::ReadWrite(Release { kind: multigrain_protocol::Kind::Read });
        assert_eq!(order.on_receive(LOCK, release, clock.into()), None);
    }
    let grant = SyncMessage::ReadWrite(Grant { thread: ThreadId(0) });
    assert_eq!(sent(&mut order, LOCK, grant, &[9].into()), [3, 4].into());
    assert_eq!(sent(&mut order, LOCK, WAIT, &[9].into()), Clock::default(), "no semaphore's");
    assert_eq!(order.on_receive(LOCK, grant, [3, 4].into()), Some([3, 4].into()));
}
