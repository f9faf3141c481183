//! Sets of semaphores: names, rights, values and what one `semop` does.

use libc::{E2BIG, EACCES, EAGAIN, EEXIST, EFBIG, EINVAL, ENOSPC, EPERM, ERANGE};

use super::*;

#[test]
fn a_set_has_some_semaphores_but_not_too_many() {
    let limits = Limits { set_semaphores: 3, semaphores: 4, ..Limits::default() };
    let mut bench = Bench::with(limits);
    let get = |key, count, flags| Request::SemGet { key, count, flags };
    assert_eq!(bench.call(&user(7), get(0, 0, 0o600)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), get(0, -1, 0o600)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), get(0, 4, 0o600)), failed(EINVAL));
    let id = bench.id(&user(7), get(5, 3, libc::IPC_CREAT | 0o600));
    assert_eq!(bench.call(&user(7), get(0, 2, 0o600)), failed(ENOSPC));
    let exclusive = libc::IPC_CREAT | libc::IPC_EXCL;
    assert_eq!(bench.call(&user(7), get(5, 4, exclusive)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), get(5, 1, exclusive)), failed(EEXIST));
    bench.call(&user(7), Request::SemRemove { id });
    bench.id(&user(7), get(0, 3, 0o600));
}

#[test]
fn a_smaller_set_than_is_asked_for_is_not_found() {
    let mut bench = Bench::new();
    let get = |count| Request::SemGet { key: 5, count, flags: libc::IPC_CREAT | 0o600 };
    let id = bench.id(&user(7), get(2));
    assert_eq!(bench.call(&user(7), get(3)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), get(0)), Reply::Done(id.into()));
}

#[test]
fn operations_are_done_in_their_order_and_all_or_none() {
    let mut bench = Bench::new();
    let id = bench.set(&[1, 0]);
    let up_and_down = semop(id, &[(1, 2, 0), (0, -1, 0), (1, -1, 0), (0, 0, 0)]);
    assert_eq!(bench.call(&user(7), up_and_down), DONE);
    assert_eq!(bench.values(id), [0, 1]);
    let in_vain = semop(id, &[(0, 5, UNDO), (1, -1, UNDO), (1, -1, NOWAIT)]);
    assert_eq!(bench.call(&user(7), in_vain), failed(EAGAIN));
    assert_eq!(bench.values(id), [0, 1]);
    bench.end(user(7).process);
    assert_eq!(bench.values(id), [0, 1]);
}

#[test]
fn the_errors_of_semop_come_in_the_kernels_order() {
    let mut bench = Bench::with(Limits { operations: 2, ..Limits::default() });
    let id = bench.set(&[0]);
    bench.call(&root(), Request::SemSet { id, uid: 0, gid: 0, mode: 0o664 });
    assert_eq!(bench.call(&user(7), semop(-1, &[(0, 1, 0); 3])), failed(E2BIG));
    assert_eq!(bench.call(&user(7), semop(id, &[])), failed(EINVAL));
    assert_eq!(bench.call(&user(7), semop(id + 1, &[(9, 1, 0)])), failed(EINVAL));
    assert_eq!(bench.call(&user(7), semop(id, &[(1, 1, 0)])), failed(EFBIG));
    assert_eq!(bench.call(&user(7), semop(id, &[(0, 1, 0)])), failed(EACCES));
    assert_eq!(bench.call(&user(7), semop(id, &[(0, 0, 0)])), DONE);
}

#[test]
fn to_wait_for_zero_takes_the_right_to_read_and_to_change_that_to_write() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    bench.call(&root(), Request::SemSet { id, uid: 0, gid: 0, mode: 0o662 });
    assert_eq!(bench.call(&user(7), semop(id, &[(0, 0, 0)])), failed(EACCES));
    assert_eq!(bench.call(&user(7), semop(id, &[(0, 0, 0), (0, 1, 0)])), DONE);
}

#[test]
fn a_value_above_32767_is_out_of_range_and_so_is_an_adjustment() {
    let mut bench = Bench::new();
    let id = bench.set(&[32_767, 0]);
    assert_eq!(bench.call(&user(7), semop(id, &[(0, 1, 0)])), failed(ERANGE));
    assert_eq!(bench.call(&user(7), semop(id, &[(1, 32_767, UNDO)])), DONE);
    assert_eq!(bench.call(&user(7), semop(id, &[(1, -32_767, 0)])), DONE);
    assert_eq!(bench.call(&user(7), semop(id, &[(1, 1, UNDO)])), DONE);
    assert_eq!(bench.call(&user(7), semop(id, &[(1, 1, UNDO)])), failed(ERANGE));
    assert_eq!(bench.call(&user(7), semop(id, &[(1, 1, 0)])), DONE);
    let set = |value| Request::SemSetValue { id, number: 0, value };
    assert_eq!(bench.call(&user(7), set(32_768)), failed(ERANGE));
    assert_eq!(bench.call(&user(7), set(-1)), failed(ERANGE));
    let all = Request::SemSetAll { id, values: vec![1, 32_768] };
    assert_eq!(bench.call(&user(7), all), failed(ERANGE));
    assert_eq!(bench.values(id), [32_767, 2]);
}

#[test]
fn a_value_that_no_set_takes_is_an_error_before_that_there_is_no_set_but_not_before_a_negative_id()
{
    let mut bench = Bench::new();
    let set = |id| Request::SemSetValue { id, number: 0, value: -1 };
    assert_eq!(bench.call(&user(7), set(9)), failed(ERANGE));
    assert_eq!(bench.call(&user(7), set(-1)), failed(EINVAL));
}

#[test]
fn who_changed_a_value_or_saw_zero_last_is_named() {
    let mut bench = Bench::new();
    let id = bench.id(&root(), Request::SemGet { key: 0, count: 2, flags: 0o666 });
    let pid = |number| Request::SemGetPid { id, number };
    assert_eq!(bench.number(pid(0)), 0);
    bench.call(&user(7), semop(id, &[(0, 0, 0)]));
    assert_eq!(bench.number(pid(0)), 7);
    bench.call(&user(8), Request::SemSetValue { id, number: 0, value: 1 });
    assert_eq!((bench.number(pid(0)), bench.number(pid(1))), (8, 0));
    bench.call(&user(9), Request::SemSetAll { id, values: vec![1, 1] });
    assert_eq!((bench.number(pid(0)), bench.number(pid(1))), (9, 9));
    bench.call(&user(7), semop(id, &[(0, -2, NOWAIT)]));
    assert_eq!(bench.number(pid(0)), 9);
}

#[test]
fn the_time_of_the_last_operation_is_0_before_the_first_and_that_of_change_is_set_by_control() {
    let mut bench = Bench::new();
    let id = bench.set(&[0]);
    let later = |now| Caller { now, ..root() };
    assert_eq!(bench.sem_stat(id).operation_time, 0);
    bench.call(&later(110), semop(id, &[(0, 0, 0)]));
    assert_eq!(bench.sem_stat(id).operation_time, 110);
    bench.call(&later(120), semop(id, &[(0, -1, NOWAIT)]));
    bench.call(&later(130), Request::SemSetValue { id, number: 0, value: 3 });
    let stat = bench.sem_stat(id);
    assert_eq!((stat.operation_time, stat.change_time, stat.count), (110, 130, 1));
}

#[test]
fn control_of_a_set_takes_the_rights_and_the_number_of_a_semaphore() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), Request::SemGet { key: 0, count: 1, flags: 0o600 });
    let value = |number| Request::SemGetValue { id, number };
    assert_eq!(bench.call(&user(8), value(1)), failed(EACCES));
    assert_eq!(bench.call(&user(7), value(1)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), value(-1)), failed(EINVAL));
    assert_eq!(bench.call(&user(8), Request::SemGetAll { id }), failed(EACCES));
    let set = |number| Request::SemSetValue { id, number, value: 1 };
    assert_eq!(bench.call(&user(8), set(1)), failed(EINVAL));
    assert_eq!(bench.call(&user(8), set(0)), failed(EACCES));
    assert_eq!(bench.call(&user(8), Request::SemStat { id }), failed(EACCES));
    assert_eq!(bench.call(&user(8), Request::SemRemove { id }), failed(EPERM));
    assert_eq!(bench.call(&user(8), Request::SemCount { id }), Reply::Done(1));
}

#[test]
fn values_for_another_number_of_semaphores_are_refused() {
    let mut bench = Bench::new();
    let id = bench.set(&[1, 2]);
    let all = Request::SemSetAll { id, values: vec![3] };
    assert_eq!(bench.call(&root(), all), failed(EINVAL));
    assert_eq!(bench.values(id), [1, 2]);
}
