//! Named semaphores and shared memory objects.

use libc::{
    EACCES, EAGAIN, EEXIST, EINTR, EINVAL, ENAMETOOLONG, ENOENT, EOVERFLOW, ETIMEDOUT, O_CREAT,
    O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use multigrain_types::sysv::{MOST_NAME, MOST_SEM_VALUE};

use super::*;

fn open(name: &str, flags: i32, value: u32) -> Request {
    Request::Posix(PosixSem::Open { name: name.into(), flags, mode: 0o600, value })
}

fn posix(request: PosixSem) -> Request {
    Request::Posix(request)
}

fn value(bench: &mut Bench, id: i32) -> i64 {
    bench.number(posix(PosixSem::Value(id)))
}

#[test]
fn names_are_found_until_they_are_unlinked_and_the_semaphore_lives_until_it_is_closed() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&user(7), open("a", 0, 0)), failed(ENOENT));
    let id = bench.id(&user(7), open("a", O_CREAT, 3));
    assert_eq!(bench.id(&user(7), open("a", O_CREAT, 9)), id);
    assert_eq!(bench.call(&user(7), open("a", O_CREAT | O_EXCL, 0)), failed(EEXIST));
    assert_eq!(bench.call(&user(7), posix(PosixSem::Unlink("a".into()))), DONE);
    assert_eq!(bench.call(&user(7), posix(PosixSem::Unlink("a".into()))), failed(ENOENT));
    let other = bench.id(&user(7), open("a", O_CREAT, 0));
    assert_ne!(other, id);
    assert_eq!((value(&mut bench, id), value(&mut bench, other)), (3, 0));
    assert_eq!(bench.call(&user(7), posix(PosixSem::Close(id))), DONE);
    assert_eq!(bench.call(&user(7), posix(PosixSem::Post(id))), failed(EINVAL));
    assert_eq!(bench.call(&user(7), posix(PosixSem::Close(other))), DONE);
    assert_eq!(bench.id(&user(7), open("a", 0, 0)), other, "it has a name");
}

#[test]
fn the_value_is_looked_at_when_a_semaphore_is_made() {
    let mut bench = Bench::new();
    let above = MOST_SEM_VALUE + 1;
    assert_eq!(bench.call(&user(7), open("a", O_CREAT, above)), failed(EINVAL));
    let id = bench.id(&user(7), open("a", O_CREAT, MOST_SEM_VALUE));
    assert_eq!(bench.id(&user(7), open("a", O_CREAT, above)), id);
    assert_eq!(bench.call(&user(7), open("a", O_CREAT | O_EXCL, above)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), posix(PosixSem::Post(id))), failed(EOVERFLOW));
}

#[test]
fn names_that_no_file_could_have_are_refused() {
    let mut bench = Bench::new();
    let longest = "n".repeat(MOST_NAME);
    assert_eq!(bench.call(&user(7), open("", O_CREAT, 0)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), open("a/b", O_CREAT, 0)), failed(EINVAL));
    bench.id(&user(7), open(&longest, O_CREAT, 0));
    assert_eq!(bench.call(&user(7), open(&(longest + "n"), O_CREAT, 0)), failed(ENAMETOOLONG));
}

#[test]
fn a_post_goes_to_who_has_waited_longest_and_a_wait_that_is_over_takes_nothing() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), open("a", O_CREAT, 1));
    assert_eq!(bench.call(&user(7), posix(PosixSem::Wait(id))), DONE);
    assert_eq!(bench.call(&user(7), posix(PosixSem::Try(id))), failed(EAGAIN));
    let [first, second, third] =
        [7, 7, 7].map(|uid| bench.wait(&user(uid), posix(PosixSem::Wait(id))));
    let mut out = Vec::new();
    bench.ipc.cancel(first, EINTR, &mut out);
    assert_eq!(out, [Event::Reply(first, failed(EINTR))]);
    for waiter in [second, third] {
        assert_eq!(bench.call(&user(7), posix(PosixSem::Post(id))), DONE);
        assert_eq!(bench.woken(), [(waiter, DONE)]);
        assert_eq!(value(&mut bench, id), 0);
    }
    bench.call(&user(7), posix(PosixSem::Post(id)));
    out.clear();
    bench.ipc.cancel(third, ETIMEDOUT, &mut out);
    assert_eq!((out, value(&mut bench, id)), (vec![], 1));
}

#[test]
fn an_end_closes_and_drops_waits() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), open("a", O_CREAT, 0));
    let other = process(&user(7), 2, 70);
    bench.id(&other, open("a", 0, 0));
    bench.wait(&other, posix(PosixSem::Wait(id)));
    bench.call(&user(7), posix(PosixSem::Unlink("a".into())));
    bench.end(other.process);
    bench.call(&user(7), posix(PosixSem::Post(id)));
    assert_eq!(value(&mut bench, id), 1, "nobody waited");
    bench.end(user(7).process);
    assert_eq!(bench.call(&root(), posix(PosixSem::Value(id))), failed(EINVAL));
}

#[test]
fn a_child_has_open_what_its_parent_has() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), open("a", O_CREAT, 0));
    bench.call(&user(7), posix(PosixSem::Unlink("a".into())));
    let child = process(&user(7), 1, 70);
    assert_eq!(bench.call(&child, posix(PosixSem::Inherit(7))), Reply::Done(1));
    bench.end(user(7).process);
    assert_eq!(bench.call(&child, posix(PosixSem::Post(id))), DONE);
    bench.end(child.process);
    assert_eq!(bench.call(&root(), posix(PosixSem::Post(id))), failed(EINVAL));
}

#[test]
fn rights_are_those_of_files_in_a_directory_with_the_sticky_bit() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), open("a", O_CREAT, 1));
    assert_eq!(bench.call(&user(8), open("a", O_CREAT, 1)), failed(EACCES));
    assert_eq!(bench.call(&user(8), posix(PosixSem::Unlink("a".into()))), failed(EACCES));
    assert_eq!(bench.call(&user(8), posix(PosixSem::Try(id))), failed(EINVAL));
    // Who has it open keeps it, whoever that is by then.
    let changed = Caller { process: user(7).process, ..user(8) };
    assert_eq!(bench.call(&changed, posix(PosixSem::Try(id))), DONE);
}

fn object(bench: &mut Bench, caller: &Caller, name: &str, flags: i32) -> Reply {
    let request = PosixShm::Open { name: name.into(), flags, mode: 0o640 };
    bench.call(caller, Request::PosixShm(request))
}

fn shm(bench: &mut Bench, caller: &Caller, request: PosixShm) -> Reply {
    bench.call(caller, Request::PosixShm(request))
}

fn id_of(reply: &Reply) -> i32 {
    let Reply::Object { id, .. } = reply else { panic!("an object, not {reply:?}") };
    *id
}

#[test]
fn an_object_gets_its_size_once() {
    let mut bench = Bench::new();
    let caller = user(7);
    let id = id_of(&object(&mut bench, &caller, "a", O_CREAT | O_RDWR));
    assert_eq!(shm(&mut bench, &caller, PosixShm::Size { id, bytes: 0 }), DONE);
    let size = PosixShm::Size { id, bytes: 5_000 };
    assert_eq!(shm(&mut bench, &caller, size.clone()), Reply::Created(id.into()));
    assert_eq!(bench.sized, [(id, 5_000)]);
    assert_eq!(shm(&mut bench, &caller, size), DONE);
    for bytes in [0, 4_999, 5_001] {
        assert_eq!(shm(&mut bench, &caller, PosixShm::Size { id, bytes }), failed(EINVAL));
    }
    assert_eq!(object(&mut bench, &caller, "a", O_RDWR | O_TRUNC), failed(EINVAL));
    let stat = Reply::Object { id, bytes: 5_000, uid: 7, gid: 7, mode: 0o640 };
    assert_eq!(object(&mut bench, &caller, "a", O_RDONLY), stat);
}

#[test]
fn an_object_is_gone_with_its_name_its_descriptors_and_its_mappings() {
    let mut bench = Bench::new();
    let (near, far) = (user(7), process(&user(7), 2, 7));
    let id = id_of(&object(&mut bench, &near, "a", O_CREAT | O_RDWR));
    object(&mut bench, &far, "a", O_RDONLY);
    shm(&mut bench, &near, PosixShm::Map(id));
    bench.ipc.forked_attach(!id, near.process, 100);
    shm(&mut bench, &near, PosixShm::Unlink("a".into()));
    assert_eq!(object(&mut bench, &near, "a", O_RDWR), failed(ENOENT));
    shm(&mut bench, &near, PosixShm::Release(id));
    shm(&mut bench, &far, PosixShm::Release(id));
    let mut out = Vec::new();
    bench.ipc.detached(!id, near.process, 100, &mut out);
    assert_eq!(out, []);
    bench.ipc.detached(!id, near.process, 100, &mut out);
    assert_eq!(out, [Event::SegmentGone(!id)]);
}

#[test]
fn an_object_is_opened_to_read_or_to_write_as_its_mode_allows() {
    let mut bench = Bench::new();
    let create = O_CREAT | O_EXCL | O_RDWR;
    id_of(&object(&mut bench, &user(7), "a", create));
    assert_eq!(object(&mut bench, &user(7), "a", create), failed(EEXIST));
    assert_eq!(object(&mut bench, &user(7), "a", O_WRONLY), failed(EINVAL));
    let group = Caller { gid: 7, ..user(8) };
    id_of(&object(&mut bench, &group, "a", O_RDONLY));
    assert_eq!(object(&mut bench, &group, "a", O_RDWR), failed(EACCES));
    assert_eq!(object(&mut bench, &user(8), "a", O_RDONLY), failed(EACCES));
    let unlink = PosixShm::Unlink("a".into());
    assert_eq!(shm(&mut bench, &group, unlink), failed(EACCES));
}
