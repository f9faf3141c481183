//! Three nodes that notify each other.

use super::*;
use crate::message::LockMessage;
use crate::migration::MigrationPlan;

const M: MinipageId = MinipageId(7);
const N: MinipageId = MinipageId(9);
const GRANT: Option<SyncMessage> = Some(SyncMessage::Lock(LockMessage::Grant));
const NODES: u16 = 3;

fn job() -> [IntervalLog; 3] {
    [0, 1, 2].map(|node| IntervalLog::new(NodeId(node)))
}

fn write(job: &mut [IntervalLog], node: u16, minipage: MinipageId) {
    job[usize::from(node)].close_interval(vec![minipage]);
}

fn say(
    job: &mut [IntervalLog],
    from: u16,
    to: u16,
    body: Option<SyncMessage>,
) -> Option<WriteNotices> {
    let notices = job[usize::from(from)].notices_for(NodeId(to), NODES, body)?;
    job[usize::from(to)].receive(NodeId(from), &notices).unwrap();
    Some(notices)
}

/// Everybody comes to a barrier that node 0 manages; who turned, and where homes move to.
fn quiescent_barrier(job: &mut [IntervalLog], homes: &[(MinipageId, NodeId)]) {
    let arrive = BarrierMessage::Arrive { arrivals: 1, total: 3, quiescent: 1 };
    for node in [1, 2] {
        say(job, node, 0, Some(SyncMessage::Barrier(arrive)));
    }
    job[0].announce(NODES, homes.to_vec());
    assert_eq!(job[0].switch(NodeId(0)), homes);
    let release = BarrierMessage::Release { arrivals: 1, quiescent: true };
    for node in [1, 2] {
        say(job, 0, node, Some(SyncMessage::Barrier(release)));
    }
    for log in &mut job[1..] {
        log.take_pending();
        assert_eq!(log.switch(NodeId(0)), homes);
    }
    job[0].take_pending();
}

fn pending(job: &mut [IntervalLog], node: u16) -> Vec<MinipageId> {
    job[usize::from(node)].take_pending().into_iter().collect()
}

#[test]
fn a_job_that_writes_nothing_has_no_notices() {
    let mut job = job();
    assert_eq!(say(&mut job, 0, 1, GRANT), None);
    write(&mut job, 0, M);
    job[1].close_interval(Vec::new());
    assert_eq!(say(&mut job, 1, 0, GRANT), None, "a flush without notices is no interval");
}

#[test]
fn nothing_is_sent_twice() {
    let mut job = job();
    write(&mut job, 1, M);
    let notice = WriteNotice { writer: NodeId(1), interval: 1, minipage: M };
    assert_eq!(say(&mut job, 1, 2, GRANT).map(|notices| notices.notices), Some(vec![notice]));
    assert_eq!(say(&mut job, 1, 2, GRANT), None);
    assert_eq!(say(&mut job, 2, 1, GRANT), None, "nor sent back");
    write(&mut job, 1, N);
    let notice = WriteNotice { writer: NodeId(1), interval: 2, minipage: N };
    assert_eq!(say(&mut job, 1, 2, GRANT).map(|notices| notices.notices), Some(vec![notice]));
    assert_eq!(pending(&mut job, 2), [M, N]);
    assert!(pending(&mut job, 2).is_empty(), "an acquire forgets once");
}

#[test]
fn what_a_node_received_it_sends_on() {
    let mut job = job();
    write(&mut job, 0, M);
    say(&mut job, 0, 1, GRANT);
    write(&mut job, 1, N);
    say(&mut job, 1, 2, GRANT);
    assert_eq!(pending(&mut job, 2), [M, N]);
    say(&mut job, 2, 0, GRANT);
    assert_eq!(pending(&mut job, 0), [N], "its own writes it need not forget");
}

#[test]
fn notices_that_come_a_second_time_by_another_way_invalidate_nothing() {
    let mut job = job();
    write(&mut job, 0, M);
    say(&mut job, 0, 1, GRANT);
    say(&mut job, 0, 2, GRANT);
    assert_eq!((pending(&mut job, 1), pending(&mut job, 2)), (vec![M], vec![M]));
    write(&mut job, 1, N);
    let notices = say(&mut job, 1, 2, GRANT).expect("node 1 wrote");
    assert_eq!(notices.notices.len(), 2, "node 1 does not know that node 2 has received it");
    assert_eq!(pending(&mut job, 2), [N]);
}

#[test]
fn the_log_of_a_program_with_locks_alone_stays_bounded() {
    let mut job = job();
    // What is not forgotten shows after a dozen.
    for round in 0..(if cfg!(miri) { 50 } else { 1000_u64 }) {
        let writer = u16::try_from(round % 3).unwrap_or(0);
        write(&mut job, writer, if round % 2 == 0 { M } else { N });
        let notices = say(&mut job, writer, (writer + 1) % 3, GRANT).expect("it wrote");
        assert!(notices.notices.len() <= 4, "{} notices in round {round}", notices.notices.len());
    }
    for log in &job {
        assert!(log.notices() <= 6, "a notice a writer and minipage");
    }
}

#[test]
fn the_only_writer_since_the_last_quiescent_barrier_is_found() {
    let mut job = job();
    write(&mut job, 1, M);
    write(&mut job, 1, N);
    write(&mut job, 2, N);
    for node in [1, 2] {
        say(&mut job, node, 0, GRANT);
    }
    assert_eq!(job[0].sole_writers(), [(M, NodeId(1))]);
    quiescent_barrier(&mut job, &[(M, NodeId(1))]);
    assert!(job[0].sole_writers().is_empty(), "nobody wrote since");
    write(&mut job, 2, N);
    say(&mut job, 2, 0, GRANT);
    assert_eq!(job[0].sole_writers(), [(N, NodeId(2))]);
    assert!(job.iter().all(|log| log.epoch() == 1));
}

#[test]
fn what_all_have_received_is_forgotten_a_quiescent_barrier_later() {
    let mut job = job();
    for round in 0..10 {
        write(&mut job, round % 3, M);
        quiescent_barrier(&mut job, &[]);
    }
    let notices = |job: &[IntervalLog]| job.iter().map(IntervalLog::notices).max();
    assert!(notices(&job) <= Some(2), "{:?}", notices(&job));
    quiescent_barrier(&mut job, &[]);
    quiescent_barrier(&mut job, &[]);
    assert_eq!(notices(&job), Some(0));
    // And what is written then is noticed as ever.
    write(&mut job, 0, M);
    say(&mut job, 0, 2, GRANT);
    assert_eq!(pending(&mut job, 2), [M]);
}

#[test]
fn nothing_is_forgotten_while_a_node_has_not_spoken() {
    let mut job = job();
    write(&mut job, 1, M);
    say(&mut job, 1, 0, GRANT);
    job[0].announce(NODES, Vec::new());
    job[0].switch(NodeId(0));
    job[0].announce(NODES, Vec::new());
    assert_eq!(job[0].notices(), 1, "node 2 has not received it");
}

#[test]
fn parts_of_a_plan_add_up_and_the_next_plan_replaces_it() {
    let mut log = IntervalLog::new(NodeId(1));
    let clock = vec![1, 0];
    let part = |epoch, minipage, home| WriteNotices {
        clock: clock.clone(),
        notices: Vec::new(),
        floor: Vec::new(),
        below: false,
        plan: Some(MigrationPlan {
            epoch,
            clock: clock.clone(),
            moves: vec![(minipage, NodeId(home))],
        }),
    };
    log.receive(NodeId(0), &part(1, M, 1)).unwrap();
    log.receive(NodeId(0), &part(1, N, 2)).unwrap();
    assert_eq!(log.switch(NodeId(0)), [(M, NodeId(1)), (N, NodeId(2))]);
    // Nobody wrote in between.
    log.receive(NodeId(0), &part(2, N, 1)).unwrap();
    assert_eq!(log.switch(NodeId(0)), [(N, NodeId(1))]);
}

/// The parts of a long batch come one by one, and another node's notices in between.
#[test]
fn an_older_interval_does_not_take_the_place_of_a_later_one_that_came_in_parts() {
    let mut job = job();
    write(&mut job, 0, M);
    let old = job[0].notices_for(NodeId(2), NODES, GRANT).unwrap();
    write(&mut job, 0, N);
    job[0].close_interval(vec![M, N]);
    let parts = job[0].notices_for(NodeId(1), NODES, GRANT).unwrap().into_parts(1);
    assert_eq!(parts.len(), 2);
    job[1].receive(NodeId(0), &parts[0]).unwrap();
    job[1].receive(NodeId(2), &old).unwrap();
    job[1].receive(NodeId(0), &parts[1]).unwrap();
    let all = job[1].notices_for(NodeId(2), NODES, GRANT).unwrap();
    let last = |minipage| WriteNotice { writer: NodeId(0), interval: 3, minipage };
    assert_eq!(all.notices, [last(M), last(N)]);
}

fn moves(epoch: u64, moves: &[(MinipageId, u16)]) -> WriteNotices {
    let moves = moves.iter().map(|&(minipage, home)| (minipage, NodeId(home))).collect();
    let plan = Some(MigrationPlan { epoch, clock: Vec::new(), moves });
    WriteNotices { plan, ..WriteNotices::default() }
}

/// A node that is not the barrier's manager moves no home, before its release or after.
#[test]
fn the_moves_that_count_are_those_of_who_sends_the_release() {
    let mut log = IntervalLog::new(NodeId(1));
    log.receive(NodeId(2), &moves(1, &[(M, 2)])).unwrap();
    log.receive(NodeId(0), &moves(1, &[(M, 1)])).unwrap();
    log.receive(NodeId(2), &moves(1, &[(N, 2)])).unwrap();
    log.receive(NodeId(0), &moves(1, &[(N, 1)])).unwrap();
    assert_eq!(log.switch(NodeId(0)), [(M, NodeId(1)), (N, NodeId(1))]);
    log.receive(NodeId(2), &moves(2, &[(N, 2)])).unwrap();
    assert!(log.switch(NodeId(0)).is_empty(), "who says nothing moves nothing");
    // The manager itself receives from others what it decides.
    let mut job = job();
    job[0].announce(NODES, vec![(M, NodeId(0))]);
    job[0].receive(NodeId(2), &moves(1, &[(M, 2)])).unwrap();
    assert_eq!(job[0].switch(NodeId(0)), [(M, NodeId(0))]);
}

/// In a tree a node may know of a write after the barrier before it passes the barrier on; its manager knew of none.
#[test]
fn a_barrier_without_a_plan_is_passed_on_with_an_empty_one() {
    let open = SyncMessage::Barrier(BarrierMessage::Open { arrivals: 1, quiescent: true });
    let [mut root, mut writer, mut middle] = [0, 2, 1].map(|node| IntervalLog::new(NodeId(node)));
    root.announce(NODES, Vec::new());
    assert_eq!(root.notices_for(NodeId(1), NODES, Some(open)), None, "nobody has written");
    writer.close_interval(vec![M]);
    let news = writer.notices_for(NodeId(1), NODES, None).unwrap();
    middle.receive(NodeId(2), &news).unwrap();
    assert!(middle.switch(NodeId(0)).is_empty());
    let passed = middle.notices_for(NodeId(3), NODES, Some(open)).unwrap();
    assert_eq!(passed.plan, Some(MigrationPlan { epoch: 1, ..MigrationPlan::default() }));
}

#[test]
fn a_plan_moves_every_home_once() {
    let mut log = IntervalLog::new(NodeId(1));
    log.receive(NodeId(0), &moves(1, &[(M, 1)])).unwrap();
    let before = log.clone();
    for again in [&[(M, 2)][..], &[(N, 1), (N, 2)], &[(N, 1), (M, 1)]] {
        assert!(log.receive(NodeId(0), &moves(1, again)).is_err(), "{again:?}");
        assert_eq!(log, before);
    }
    log.receive(NodeId(0), &moves(1, &[(N, 2)])).unwrap();
    assert_eq!(log.switch(NodeId(0)), [(M, NodeId(1)), (N, NodeId(2))]);
}

/// A peer's word about this node, or about what all know, is no better than what they have done.
#[test]
fn notices_that_say_too_much_are_refused_and_change_nothing() {
    let mut log = IntervalLog::new(NodeId(1));
    log.close_interval(vec![M]);
    let before = log.clone();
    let notice = |writer, interval| WriteNotice { writer: NodeId(writer), interval, minipage: N };
    let plan =
        |epoch, clock: &[u64]| MigrationPlan { epoch, clock: clock.to_vec(), moves: Vec::new() };
    let plain = || WriteNotices { clock: vec![3, 1], ..WriteNotices::default() };
    for wrong in [
        WriteNotices { clock: vec![3, 2], ..plain() },
        WriteNotices { clock: vec![3, u64::MAX], ..plain() },
        WriteNotices { notices: vec![notice(1, 2)], ..plain() },
        WriteNotices { floor: vec![4, 1], ..plain() },
        WriteNotices { floor: vec![0, 2], ..plain() },
        WriteNotices { plan: Some(plan(1, &[3, 2])), ..plain() },
        WriteNotices { plan: Some(plan(2, &[3, 1])), ..plain() },
        WriteNotices { plan: Some(plan(0, &[3, 1])), ..plain() },
    ] {
        let refused = log.receive(NodeId(0), &wrong).unwrap_err();
        assert_eq!(refused.role, "interval log", "{wrong:?}");
        // Node 0 may have it from another node.
        let hearsay = "node 1 has closed 1 intervals, not the 2 said or passed on";
        assert!(wrong.clock != [3, 2] || refused.state == hearsay, "{}", refused.state);
        assert_eq!(log, before);
    }
    let right = WriteNotices { floor: vec![3, 0], plan: Some(plan(1, &[3, 1])), ..plain() };
    assert_eq!(log.receive(NodeId(0), &right), Ok(()));
    log.close_interval(vec![M]);
    assert_eq!(at(&log.clock, NodeId(1)), 2);
}

/// Numbers have 64 bits: nothing happens where 32 end.
#[test]
fn intervals_and_epochs_go_on_where_32_bits_end() {
    let start = u64::from(u32::MAX) - 1;
    let mut job = [0, 1, 2].map(|node| IntervalLog::starting_at(NodeId(node), NODES, start));
    for round in 1..=4 {
        write(&mut job, 1, M);
        let notice = WriteNotice { writer: NodeId(1), interval: start + round, minipage: M };
        assert_eq!(say(&mut job, 1, 2, GRANT).map(|notices| notices.notices), Some(vec![notice]));
        assert_eq!(pending(&mut job, 2), [M], "round {round}");
        say(&mut job, 1, 0, GRANT);
        assert_eq!(job[0].sole_writers(), [(M, NodeId(1))]);
        quiescent_barrier(&mut job, &[(M, NodeId(1))]);
        assert!(job.iter().all(|log| log.epoch() == start + round));
        assert!(job[0].sole_writers().is_empty());
    }
}
