//! Programs for what random ones seldom come to.

use libc::{IPC_NOWAIT, SEM_UNDO};
use multigrain_sysv::ipc::{Limits, Operation, Request};

use crate::world::World;
use crate::{namespace, shown_if_it_fails};

/// Makes each call by the worker that is named before it: root, but for two.
fn run(name: &str, script: Vec<(usize, Request)>, last: impl FnOnce(&mut World)) {
    let limits = Limits::default();
    if !namespace::enter(&limits) {
        return;
    }
    let mut world = World::new(0, limits);
    shown_if_it_fails(&mut world, name, |world| {
        for (worker, request) in script {
            world.perform(worker, request);
        }
        last(world);
        world.finish();
    });
}

fn operate(operations: &[(u16, i16, i32)]) -> Request {
    let operation = |&(number, change, flags): &(u16, i16, i32)| Operation {
        number,
        change,
        flags: i16::try_from(flags).expect("two flags"),
    };
    Request::SemOperate { id: 0, operations: operations.iter().map(operation).collect() }
}

fn new_set(count: i32) -> Request {
    Request::SemGet { key: 0, count, flags: 0o600 }
}

fn new_queue(most_bytes: u64) -> Vec<(usize, Request)> {
    let set = Request::MsgSet { id: 0, uid: 0, gid: 0, mode: 0o600, most_bytes };
    vec![(0, Request::MsgGet { key: 0, flags: 0o600 }), (0, set)]
}

fn send(kind: i64, length: usize) -> Request {
    Request::MsgSend { id: 0, kind, bytes: vec![9; length], flags: 0 }
}

fn receive() -> Request {
    Request::MsgReceive { id: 0, kind: 0, most: 100, flags: IPC_NOWAIT }
}

#[test]
fn an_adjustment_is_at_least_minus_32768_and_at_most_32767() {
    let mut script = vec![(0, new_set(1))];
    for change in [32_767, 1, 1] {
        script.push((0, operate(&[(0, change, SEM_UNDO)])));
        script.push((1, operate(&[(0, -change, IPC_NOWAIT)])));
    }
    script.push((1, Request::SemSetValue { id: 0, number: 0, value: 32_767 }));
    for change in [32_767, 1] {
        script.push((0, operate(&[(0, -change, SEM_UNDO)])));
        script.push((1, operate(&[(0, change, IPC_NOWAIT)])));
    }
    run("adjustments", script, |world| world.end(0));
}

#[test]
fn an_end_clamps_what_it_undoes() {
    let script = vec![
        (0, new_set(3)),
        (0, operate(&[(0, 5, SEM_UNDO), (1, 7, 0), (1, -7, SEM_UNDO), (2, 1, SEM_UNDO)])),
        (1, operate(&[(0, -3, 0), (1, 32_765, 0)])),
        (4, operate(&[(0, 0, 0), (1, -32_767, 0)])),
        (5, operate(&[(2, 0, 0)])),
    ];
    run("clamps", script, |world| world.end(0));
}

#[test]
fn a_sender_who_fits_goes_before_those_who_do_not() {
    // No two fit at once: they would race.
    let mut script = new_queue(4);
    script.push((0, send(1, 1)));
    script.push((0, send(1, 3)));
    for (worker, length) in [(1, 3), (4, 1), (5, 4)] {
        script.push((worker, send(i64::try_from(worker).expect("a few"), length)));
    }
    script.extend((0..7).map(|_| (0, receive())));
    run("senders", script, |_| {});
}

#[test]
fn who_waits_at_a_queue_that_is_closed_to_him_is_told_so() {
    const USER: usize = 2;
    const OTHER: usize = 3;
    let set = |mode, most_bytes| Request::MsgSet { id: 0, uid: 0, gid: 0, mode, most_bytes };
    let wait = Request::MsgReceive { id: 0, kind: 7, most: 100, flags: 0 };
    let mut script = new_queue(4);
    script.extend([(0, set(0o666, 4)), (0, send(1, 4))]);
    script.extend([(USER, send(2, 4)), (OTHER, wait.clone())]);
    script.extend([(0, set(0o600, 4)), (0, set(0o600, 100))]);
    script.extend([(USER, send(2, 4)), (0, set(0o666, 8)), (USER, send(2, 4))]);
    script.extend([(OTHER, wait), (0, set(0o644, 8)), (0, set(0o604, 8)), (0, send(7, 0))]);
    run("closed", script, |_| {});
}

#[test]
fn indices_go_round_in_a_circle_that_grows() {
    let mut script = Vec::new();
    for id in 0..70 {
        script.push((0, new_set(1)));
        // From 64 on, the index is one that was used: the id has a sequence number.
        script.push((0, Request::SemRemove { id: if id < 64 { id } else { 32_768 + id - 64 } }));
    }
    script.extend((0..100).map(|_| (0, new_set(1))));
    script.extend((0..30).map(|index| (0, Request::SemRemove { id: 32_768 + 6 + index })));
    script.extend((0..120).map(|_| (0, new_set(1))));
    run("indices", script, |_| {});
}

#[test]
fn waiters_of_one_operation_wait_in_one_queue_with_those_of_several() {
    let mut script = vec![(0, new_set(3))];
    script.push((1, operate(&[(0, -1, SEM_UNDO)])));
    script.push((4, operate(&[(2, -1, 0)])));
    script.push((5, operate(&[(0, -1, 0), (2, -1, 0), (1, 1, 0)])));
    script.push((6, operate(&[(0, -1, 0)])));
    script.push((0, operate(&[(0, 1, 0), (2, 1, 0)])));
    script.push((0, Request::SemSetAll { id: 0, values: vec![1, 0, 1] }));
    script.push((0, Request::SemSetAll { id: 0, values: vec![2, 0, 2] }));
    run("one queue", script, |_| {});
}
