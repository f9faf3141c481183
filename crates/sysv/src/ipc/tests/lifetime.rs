//! What the start and the end of processes and of sites do.

use super::*;

fn attach(bench: &mut Bench, caller: &Caller, id: i32) {
    let reply = bench.call(caller, Request::ShmAttach { id, flags: 0 });
    assert!(matches!(reply, Reply::Attached { .. }), "{reply:?}");
}

#[test]
fn the_end_of_a_process_undoes_what_it_asked_to_be_undone() {
    let mut bench = Bench::new();
    let id = bench.set(&[5, 0, 1]);
    bench.call(&user(7), semop(id, &[(0, -3, UNDO), (1, 2, UNDO), (2, 1, 0)]));
    bench.call(&user(7), semop(id, &[(0, 1, UNDO)]));
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [5, 0, 2]);
    assert_eq!(bench.number(Request::SemGetPid { id, number: 0 }), 7);
    assert_eq!(bench.sem_stat(id).operation_time, 200);
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [5, 0, 2]);
}

#[test]
fn undo_stops_at_0_and_at_32767() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 2]);
    bench.call(&user(7), semop(id, &[(0, 3, UNDO), (1, -2, UNDO)]));
    bench.call(&user(8), semop(id, &[(0, -2, 0), (1, 32_766, 0)]));
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [0, 32_767]);
}

#[test]
fn undo_lets_waiters_go() {
    let mut bench = Bench::new();
    let id = bench.set(&[1]);
    bench.call(&user(7), semop(id, &[(0, -1, UNDO)]));
    let waiting = bench.wait(&user(8), semop(id, &[(0, -1, 0)]));
    bench.end(user(7).process);
    assert_eq!(bench.woken(), [(waiting, DONE)]);
    assert_eq!(bench.number(Request::SemGetPid { id, number: 0 }), 8);
}

#[test]
fn to_set_a_value_forgets_what_processes_would_undo() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 0]);
    bench.call(&user(7), semop(id, &[(0, 1, UNDO), (1, 1, UNDO)]));
    bench.call(&user(8), Request::SemSetValue { id, number: 0, value: 1 });
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [1, 0]);
    bench.call(&user(7), semop(id, &[(0, 1, UNDO), (1, 1, UNDO)]));
    bench.call(&user(8), Request::SemSetAll { id, values: vec![4, 4] });
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [4, 4]);
}

#[test]
fn a_call_with_undo_that_fails_still_makes_the_end_an_operation() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    bench.call(&user(7), semop(id, &[(9, 1, UNDO)]));
    bench.end(user(7).process);
    assert_eq!((bench.values(id), bench.sem_stat(id).operation_time), (vec![0], 200));
    assert_eq!(bench.number(Request::SemGetPid { id, number: 0 }), 0);
}

#[test]
fn a_process_that_ends_does_not_take_what_its_own_undo_gives() {
    let mut bench = Bench::new();
    let id = bench.set(&[1]);
    bench.call(&user(7), semop(id, &[(0, -1, UNDO)]));
    bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    let other = bench.wait(&user(8), semop(id, &[(0, -1, 0)]));
    bench.end(user(7).process);
    assert_eq!(bench.woken(), [(other, DONE)]);
}

#[test]
fn the_same_pid_of_another_site_is_another_process() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let twin = process(&user(7), 2, 7);
    bench.call(&user(7), semop(id, &[(0, 1, UNDO)]));
    bench.call(&twin, semop(id, &[(0, 1, UNDO)]));
    bench.end(twin.process);
    assert_eq!(bench.values(id), [1]);
}

#[test]
fn a_removed_set_is_not_undone_and_nor_is_another_with_its_index() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    bench.call(&user(7), semop(id, &[(0, 1, UNDO)]));
    bench.call(&root(), Request::SemRemove { id });
    let next = bench.set(&[5]);
    bench.end(user(7).process);
    assert_eq!(bench.values(next), [5]);
}

#[test]
fn a_fork_attaches_in_the_parents_name_and_the_child_detaches_in_its_own() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), Request::ShmGet { key: 0, bytes: 1, flags: 0o600 });
    attach(&mut bench, &user(7), id);
    bench.ipc.forked_attach(id, user(7).process, 150);
    let stat = bench.shm_stat(id);
    assert_eq!((stat.attaches, stat.last_pid, stat.attach_time), (2, 7, 150));
    let mut out = Vec::new();
    bench.ipc.detached(id, Process { site: 1, pid: 70 }, 160, &mut out);
    let stat = bench.shm_stat(id);
    assert_eq!((stat.attaches, stat.last_pid, stat.detach_time), (1, 70, 160));
    assert!(out.is_empty());
}

#[test]
fn the_last_detach_at_an_end_takes_a_removed_segment_away() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), Request::ShmGet { key: 0, bytes: 1, flags: 0o600 });
    attach(&mut bench, &user(7), id);
    bench.call(&user(7), Request::ShmRemove { id });
    let mut out = Vec::new();
    bench.ipc.detached(id, user(7).process, 160, &mut out);
    bench.ipc.detached(id, user(7).process, 160, &mut out);
    assert_eq!(out, [Event::SegmentGone(id)]);
}
