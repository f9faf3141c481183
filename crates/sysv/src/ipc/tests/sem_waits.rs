//! Who waits at a semaphore, who goes first, and how waiters are counted.

use libc::{EAGAIN, EIDRM, EINTR, EINVAL, ERANGE};

use super::*;

#[test]
fn a_later_waiter_that_can_go_goes() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let large = bench.wait(&user(7), semop(id, &[(0, -3, 0)]));
    let small = bench.wait(&user(8), semop(id, &[(0, -1, 0)]));
    bench.call(&user(9), semop(id, &[(0, 2, 0)]));
    assert_eq!(bench.woken(), [(small, DONE)]);
    bench.call(&user(9), semop(id, &[(0, 2, 0)]));
    assert_eq!(bench.woken(), [(large, DONE)]);
    assert_eq!(bench.values(id), [0]);
    assert_eq!(bench.number(Request::SemGetPid { id, number: 0 }), 7);
}

#[test]
fn of_those_that_can_go_the_first_goes_first() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let first = bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    let second = bench.wait(&user(8), semop(id, &[(0, -1, 0)]));
    bench.call(&user(9), semop(id, &[(0, 1, 0)]));
    assert_eq!(bench.woken(), [(first, DONE)]);
    bench.call(&user(9), Request::SemSetValue { id, number: 0, value: 1 });
    assert_eq!(bench.woken(), [(second, DONE)]);
}

#[test]
fn who_waits_for_zero_goes_before_who_would_change_the_value() {
    let mut bench = Bench::new();
    let id = bench.set(&[1]);
    let both = bench.wait(&user(7), semop(id, &[(0, 0, 0), (0, 1, 0)]));
    let zero = bench.wait(&user(8), semop(id, &[(0, 0, 0)]));
    bench.call(&user(9), semop(id, &[(0, -1, 0)]));
    assert_eq!(bench.woken(), [(zero, DONE), (both, DONE)]);
    assert_eq!(bench.values(id), [1]);
}

#[test]
fn a_waiter_that_goes_lets_others_go() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 0, 1]);
    let third = bench.wait(&user(7), semop(id, &[(1, -1, 0), (2, -1, 0)]));
    let second = bench.wait(&user(8), semop(id, &[(0, -1, 0), (1, 1, 0)]));
    let zero = bench.wait(&user(9), semop(id, &[(2, 0, 0)]));
    bench.call(&user(9), semop(id, &[(0, 1, 0)]));
    assert_eq!(bench.woken(), [(second, DONE), (zero, DONE), (third, DONE)]);
}

#[test]
fn a_waiter_may_find_an_error_when_it_is_tried_again() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 0, 32_767]);
    let nowait = bench.wait(&user(7), semop(id, &[(0, -1, 0), (1, -1, NOWAIT)]));
    let range = bench.wait(&user(8), semop(id, &[(0, -1, 0), (2, 1, 0)]));
    bench.call(&user(9), semop(id, &[(0, 1, 0)]));
    assert_eq!(bench.woken(), [(nowait, failed(EAGAIN)), (range, failed(ERANGE))]);
    assert_eq!(bench.values(id), [1, 0, 32_767]);
}

#[test]
fn waiters_count_at_the_first_operation_that_had_to_wait() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 1]);
    let waiters = |number| Request::SemGetWaiters { id, number };
    let zero_waiters = |number| Request::SemGetZeroWaiters { id, number };
    bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    bench.wait(&user(8), semop(id, &[(0, -1, 0), (1, 0, 0)]));
    bench.wait(&user(9), semop(id, &[(1, 0, 0)]));
    bench.wait(&user(10), semop(id, &[(1, 0, 0), (0, -1, 0)]));
    assert_eq!((bench.number(waiters(0)), bench.number(waiters(1))), (2, 0));
    assert_eq!((bench.number(zero_waiters(0)), bench.number(zero_waiters(1))), (0, 2));
}

#[test]
fn who_comes_while_a_complex_waiter_waits_still_goes_when_that_is_gone() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 0]);
    let complex = bench.wait(&user(7), semop(id, &[(0, -1, 0), (1, -1, 0)]));
    let simple = bench.wait(&user(8), semop(id, &[(1, -1, 0)]));
    let mut out = Vec::new();
    bench.ipc.cancel(complex, EINTR, &mut out);
    assert_eq!(out, [Event::Reply(complex, failed(EINTR))]);
    bench.call(&user(9), semop(id, &[(1, 1, 0)]));
    assert_eq!(bench.woken(), [(simple, DONE)]);
}

#[test]
fn a_call_is_cancelled_once_and_not_after_it_was_answered() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let waiting = bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    let mut out = Vec::new();
    bench.ipc.cancel(waiting, EAGAIN, &mut out);
    bench.ipc.cancel(waiting, EAGAIN, &mut out);
    assert_eq!(out, [Event::Reply(waiting, failed(EAGAIN))]);
    let answered = bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    bench.call(&user(8), semop(id, &[(0, 1, 0)]));
    assert_eq!(bench.woken(), [(answered, DONE)]);
    out.clear();
    bench.ipc.cancel(answered, EINTR, &mut out);
    assert!(out.is_empty());
}

#[test]
fn who_waits_at_a_set_that_is_removed_is_told_so_and_later_calls_find_no_set() {
    let mut bench = Bench::new();
    let id = bench.set(&[0, 0]);
    let simple = bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    let complex = bench.wait(&user(8), semop(id, &[(0, -1, 0), (1, -1, 0)]));
    assert_eq!(bench.call(&root(), Request::SemRemove { id }), DONE);
    let mut woken = bench.woken();
    woken.sort_by_key(|reply| reply.0);
    assert_eq!(woken, [(simple, failed(EIDRM)), (complex, failed(EIDRM))]);
    assert_eq!(bench.call(&user(7), semop(id, &[(0, -1, 0)])), failed(EINVAL));
}

#[test]
fn a_waiter_keeps_the_rights_it_came_with() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let waiting = bench.wait(&user(7), semop(id, &[(0, -1, 0)]));
    bench.call(&root(), Request::SemSet { id, uid: 0, gid: 0, mode: 0 });
    bench.call(&root(), semop(id, &[(0, 1, 0)]));
    assert_eq!(bench.woken(), [(waiting, DONE)]);
}
