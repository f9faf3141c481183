//! Who waits at a queue, and who is served.

use libc::{E2BIG, EACCES, EIDRM, EINTR, MSG_NOERROR};

use super::*;

fn set(id: i32, mode: u32, most_bytes: u64) -> Request {
    Request::MsgSet { id, uid: 0, gid: 0, mode, most_bytes }
}

#[test]
fn a_message_goes_to_the_first_who_waits_for_its_type_and_not_into_the_queue() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    let other = bench.wait(&user(7), receive(id, 2));
    let first = bench.wait(&user(8), receive(id, -3));
    let second = bench.wait(&user(9), receive(id, 0));
    bench.call(&user(1), send(id, 3, &[1]));
    assert_eq!(bench.woken(), [(first, message(3, &[1]))]);
    assert_eq!((bench.msg_stat(id).messages, bench.msg_stat(id).receive_pid), (0, 8));
    bench.call(&user(1), send(id, 2, &[2]));
    assert_eq!(bench.woken(), [(other, message(2, &[2]))]);
    bench.call(&user(1), send(id, 4, &[3]));
    assert_eq!(bench.woken(), [(second, message(4, &[3]))]);
}

#[test]
fn a_receiver_for_whom_the_message_is_too_long_has_waited_in_vain_and_the_next_is_served() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    let narrow = Request::MsgReceive { id, kind: 0, most: 1, flags: 0 };
    let narrow = bench.wait(&user(7), narrow);
    let cut = Request::MsgReceive { id, kind: 0, most: 1, flags: MSG_NOERROR };
    let cut = bench.wait(&user(8), cut);
    bench.call(&user(1), send(id, 1, &[1, 2]));
    assert_eq!(bench.woken(), [(narrow, failed(E2BIG)), (cut, message(1, &[1]))]);
}

#[test]
fn a_sender_waits_for_room_and_is_named_when_it_is_served() {
    let mut bench = Bench::new();
    let id = bench.queue(4);
    bench.call(&user(7), send(id, 1, &[1, 2, 3]));
    let sender = bench.wait(&user(8), send(id, 2, &[4, 5]));
    assert_eq!(bench.msg_stat(id).send_pid, 7);
    assert_eq!(bench.call(&user(9), receive(id, 0)), message(1, &[1, 2, 3]));
    assert_eq!(bench.woken(), [(sender, DONE)]);
    assert_eq!((bench.msg_stat(id).send_pid, bench.msg_stat(id).bytes), (8, 2));
}

#[test]
fn a_later_sender_with_a_message_that_fits_goes_and_who_does_not_fit_goes_to_the_end() {
    let mut bench = Bench::new();
    let id = bench.queue(4);
    bench.call(&user(7), send(id, 1, &[0]));
    bench.call(&user(7), send(id, 1, &[0, 0, 0]));
    let large = bench.wait(&user(7), send(id, 2, &[1, 1, 1]));
    let small = bench.wait(&user(8), send(id, 3, &[2]));
    let third = bench.wait(&user(9), send(id, 4, &[3, 3, 3]));
    bench.call(&user(1), receive(id, 0));
    assert_eq!(bench.woken(), [(small, DONE)]);
    bench.call(&user(1), receive(id, 0));
    assert_eq!(bench.woken(), [(large, DONE)]);
    bench.call(&user(1), receive(id, 0));
    assert_eq!(bench.woken(), []);
    bench.call(&user(1), receive(id, 0));
    assert_eq!(bench.woken(), [(third, DONE)]);
}

#[test]
fn a_woken_sender_serves_who_waits_for_its_message() {
    let mut bench = Bench::new();
    let id = bench.queue(1);
    bench.call(&user(7), send(id, 1, &[0]));
    let sender = bench.wait(&user(8), send(id, 2, &[1]));
    let receiver = bench.wait(&user(9), receive(id, 2));
    bench.call(&user(1), receive(id, 1));
    assert_eq!(bench.woken(), [(receiver, message(2, &[1])), (sender, DONE)]);
    assert_eq!(bench.msg_stat(id).messages, 0);
}

#[test]
fn after_a_change_all_who_wait_ask_again() {
    let mut bench = Bench::new();
    let id = bench.queue(1);
    bench.call(&user(7), send(id, 1, &[0]));
    let fits = bench.wait(&root(), send(id, 2, &[1]));
    let forbidden = bench.wait(&user(8), send(id, 2, &[1]));
    let receiver = bench.wait(&user(9), receive(id, 7));
    let roots = bench.wait(&root(), receive(id, 7));
    assert_eq!(bench.call(&root(), set(id, 0o600, 3)), DONE);
    let expected = [(receiver, failed(EACCES)), (fits, DONE), (forbidden, failed(EACCES))];
    assert_eq!(bench.woken(), expected);
    bench.call(&root(), send(id, 7, &[2]));
    assert_eq!(bench.woken(), [(roots, message(7, &[2]))]);
}

#[test]
fn a_sender_for_whom_there_is_no_room_does_not_learn_that_its_right_is_gone() {
    let mut bench = Bench::new();
    let id = bench.queue(1);
    bench.call(&user(7), send(id, 1, &[0]));
    bench.wait(&user(8), send(id, 2, &[1]));
    bench.call(&root(), set(id, 0o600, 1));
    assert_eq!(bench.woken(), []);
}

#[test]
fn who_waits_at_a_queue_that_is_removed_is_told_so() {
    let mut bench = Bench::new();
    let id = bench.queue(1);
    bench.call(&user(7), send(id, 1, &[0]));
    let sender = bench.wait(&user(8), send(id, 2, &[1]));
    let receiver = bench.wait(&user(9), receive(id, 2));
    assert_eq!(bench.call(&root(), Request::MsgRemove { id }), DONE);
    assert_eq!(bench.woken(), [(receiver, failed(EIDRM)), (sender, failed(EIDRM))]);
}

#[test]
fn a_cancelled_receiver_gets_no_message() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    let receiver = bench.wait(&user(7), receive(id, 0));
    let mut out = Vec::new();
    bench.ipc.cancel(receiver, EINTR, &mut out);
    assert_eq!(out, [Event::Reply(receiver, failed(EINTR))]);
    bench.call(&user(8), send(id, 1, &[1]));
    assert_eq!(bench.woken(), []);
    assert_eq!(bench.msg_stat(id).messages, 1);
}
