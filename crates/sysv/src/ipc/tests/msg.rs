//! Queues: names, rights, limits and which message is received.

use libc::{
    E2BIG, EACCES, EAGAIN, EEXIST, EINVAL, ENOENT, ENOMSG, ENOSPC, EPERM, IPC_CREAT, IPC_EXCL,
    IPC_NOWAIT, MSG_COPY, MSG_EXCEPT, MSG_NOERROR,
};

use super::*;

fn take(id: i32, kind: i64, most: u64, flags: i32) -> Request {
    Request::MsgReceive { id, kind, most, flags: flags | IPC_NOWAIT }
}

/// A queue with messages of these types; each holds its place.
fn filled(bench: &mut Bench, kinds: &[i64]) -> i32 {
    let id = bench.queue(100);
    for (place, &kind) in kinds.iter().enumerate() {
        let place = u8::try_from(place).expect("a few");
        assert_eq!(bench.call(&user(7), send(id, kind, &[place])), DONE);
    }
    id
}

#[test]
fn a_key_names_one_queue() {
    let mut bench = Bench::with(Limits { queues: 1, ..Limits::default() });
    let get = |key, flags| Request::MsgGet { key, flags };
    assert_eq!(bench.call(&user(7), get(5, 0)), failed(ENOENT));
    let id = bench.id(&user(7), get(5, IPC_CREAT | 0o600));
    assert_eq!(bench.call(&user(7), get(5, 0o600)), Reply::Done(id.into()));
    assert_eq!(bench.call(&user(8), get(5, 0o600)), failed(EACCES));
    assert_eq!(bench.call(&user(8), get(5, IPC_CREAT | IPC_EXCL)), failed(EEXIST));
    assert_eq!(bench.call(&user(8), get(6, IPC_CREAT)), failed(ENOSPC));
}

#[test]
fn messages_come_in_their_order_or_by_type() {
    let mut bench = Bench::new();
    let id = filled(&mut bench, &[3, 2, 3, 1, 2]);
    assert_eq!(bench.call(&user(8), take(id, 2, 9, 0)), message(2, &[1]));
    assert_eq!(bench.call(&user(8), take(id, 3, 9, MSG_EXCEPT)), message(1, &[3]));
    assert_eq!(bench.call(&user(8), take(id, 0, 9, MSG_EXCEPT)), message(3, &[0]));
    assert_eq!(bench.call(&user(8), take(id, 4, 9, 0)), failed(ENOMSG));
}

#[test]
fn a_negative_type_asks_for_the_lowest_up_to_it_and_of_equals_the_first() {
    let mut bench = Bench::new();
    let id = filled(&mut bench, &[3, 2, 5, 2]);
    assert_eq!(bench.call(&user(8), take(id, -1, 9, 0)), failed(ENOMSG));
    assert_eq!(bench.call(&user(8), take(id, -4, 9, 0)), message(2, &[1]));
    assert_eq!(bench.call(&user(8), take(id, -3, 9, MSG_EXCEPT)), message(2, &[3]));
    assert_eq!(bench.call(&user(8), take(id, -4, 9, 0)), message(3, &[0]));
    assert_eq!(bench.call(&user(8), take(id, i64::MIN, 9, 0)), message(5, &[2]));
}

#[test]
fn a_message_that_is_too_long_stays_unless_it_may_be_cut_off() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    bench.call(&user(7), send(id, 1, &[1, 2, 3]));
    assert_eq!(bench.call(&user(8), take(id, 0, 2, 0)), failed(E2BIG));
    assert_eq!(bench.call(&user(8), take(id, 0, 2, MSG_NOERROR)), message(1, &[1, 2]));
    assert_eq!(bench.call(&user(8), take(id, 0, 2, MSG_NOERROR)), failed(ENOMSG));
    bench.call(&user(7), send(id, 2, &[]));
    assert_eq!(bench.call(&user(8), take(id, 0, 0, 0)), message(2, &[]));
}

#[test]
fn a_copy_is_taken_by_place_and_leaves_the_message() {
    let mut bench = Bench::new();
    let id = filled(&mut bench, &[3, 2]);
    assert_eq!(bench.call(&user(8), take(id, 1, 9, MSG_COPY)), message(2, &[1]));
    assert_eq!(bench.call(&user(8), take(id, 2, 9, MSG_COPY)), failed(ENOMSG));
    assert_eq!(bench.call(&user(8), take(id, 1, 0, MSG_COPY)), failed(E2BIG));
    assert_eq!(bench.call(&user(8), take(id, 1, 9, MSG_COPY | MSG_EXCEPT)), failed(EINVAL));
    let waits = Request::MsgReceive { id, kind: 1, most: 9, flags: MSG_COPY };
    assert_eq!(bench.call(&user(8), waits), failed(EINVAL));
    assert_eq!(bench.msg_stat(id).receive_pid, 0);
    assert_eq!(bench.msg_stat(id).messages, 2);
}

#[test]
fn a_message_has_a_positive_type_and_a_limited_size() {
    let mut bench = Bench::with(Limits { message_bytes: 2, ..Limits::default() });
    let id = bench.queue(100);
    assert_eq!(bench.call(&user(7), send(id, 0, &[])), failed(EINVAL));
    assert_eq!(bench.call(&user(7), send(id, 1, &[1, 2, 3])), failed(EINVAL));
    assert_eq!(bench.call(&user(7), send(id + 1, 1, &[])), failed(EINVAL));
    assert_eq!(bench.call(&user(7), take(id, 1, 1 << 63, 0)), failed(EINVAL));
}

#[test]
fn a_queue_is_full_of_bytes_or_of_as_many_messages_as_it_may_have_bytes() {
    let mut bench = Bench::new();
    let id = bench.queue(3);
    let now =
        |bytes: &[u8]| Request::MsgSend { id, kind: 1, bytes: bytes.to_vec(), flags: IPC_NOWAIT };
    assert_eq!(bench.call(&user(7), now(&[1, 2])), DONE);
    assert_eq!(bench.call(&user(7), now(&[1, 2])), failed(EAGAIN));
    assert_eq!(bench.call(&user(7), now(&[])), DONE);
    assert_eq!(bench.call(&user(7), now(&[])), DONE);
    assert_eq!(bench.call(&user(7), now(&[])), failed(EAGAIN));
}

#[test]
fn rights_are_to_read_and_to_write() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    let set = |mode| Request::MsgSet { id, uid: 0, gid: 0, mode, most_bytes: 100 };
    bench.call(&root(), set(0o622));
    assert_eq!(bench.call(&user(7), send(id, 1, &[])), DONE);
    assert_eq!(bench.call(&user(7), take(id, 0, 9, 0)), failed(EACCES));
    assert_eq!(bench.call(&user(7), Request::MsgStat { id }), failed(EACCES));
    bench.call(&root(), set(0o644));
    assert_eq!(bench.call(&user(7), send(id, 1, &[])), failed(EACCES));
    assert_eq!(bench.call(&user(7), take(id, 0, 9, 0)), message(1, &[]));
    assert_eq!(bench.call(&user(7), set(0o666)), failed(EPERM));
    assert_eq!(bench.call(&user(7), Request::MsgRemove { id }), failed(EPERM));
}

#[test]
fn an_owner_may_not_raise_the_size_of_a_queue_above_the_limit() {
    let mut bench = Bench::with(Limits { queue_bytes: 10, ..Limits::default() });
    let id = bench.id(&user(7), Request::MsgGet { key: 0, flags: 0o600 });
    let set = |most_bytes| Request::MsgSet { id, uid: 7, gid: 7, mode: 0o600, most_bytes };
    assert_eq!(bench.call(&user(7), set(11)), failed(EPERM));
    assert_eq!(bench.call(&user(7), set(9)), DONE);
    assert_eq!(bench.call(&root(), set(11)), DONE);
    assert_eq!(bench.msg_stat(id).most_bytes, 11);
}

#[test]
fn a_queue_tells_who_sent_and_received_and_when() {
    let mut bench = Bench::new();
    let id = bench.queue(100);
    assert_eq!((bench.msg_stat(id).send_time, bench.msg_stat(id).receive_time), (0, 0));
    bench.call(&Caller { now: 110, ..user(7) }, send(id, 1, &[1, 2]));
    bench.call(&Caller { now: 120, ..user(7) }, send(id, 1, &[3]));
    bench.call(&Caller { now: 130, ..user(8) }, take(id, 0, 9, 0));
    let stat = bench.msg_stat(id);
    assert_eq!((stat.send_time, stat.send_pid), (120, 7));
    assert_eq!((stat.receive_time, stat.receive_pid), (130, 8));
    assert_eq!((stat.bytes, stat.messages, stat.change_time), (1, 1, 100));
    let reply = bench.call(&user(8), Request::MsgInfo);
    let Reply::Info(info) = reply else { panic!("the info, not {reply:?}") };
    assert_eq!((info.objects, info.contents, info.bytes), (1, 1, 1));
}
