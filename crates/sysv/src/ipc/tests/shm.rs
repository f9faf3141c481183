//! Segments: what `shmget`, `shmat`, `shmdt` and `shmctl` promise.

use libc::{EACCES, EEXIST, EINVAL, ENOENT, ENOSPC, EPERM, IPC_CREAT, IPC_EXCL, SHM_RDONLY};

use super::*;

fn get(key: i32, bytes: u64, flags: i32) -> Request {
    Request::ShmGet { key, bytes, flags }
}

#[test]
fn a_private_segment_is_made_each_time() {
    let mut bench = Bench::new();
    assert_eq!(bench.id(&user(7), get(0, 10, 0o600)), 0);
    assert_eq!(bench.id(&user(7), get(0, 10, 0o600)), 1);
}

#[test]
fn that_a_segment_exists_is_said_before_that_it_is_too_small() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&user(7), get(5, 10, 0o600)), failed(ENOENT));
    bench.id(&user(7), get(5, 10, IPC_CREAT | 0o600));
    assert_eq!(bench.call(&user(7), get(5, 11, IPC_CREAT | IPC_EXCL)), failed(EEXIST));
    assert_eq!(bench.call(&user(7), get(5, 11, 0)), failed(EINVAL));
    assert_eq!(bench.call(&user(8), get(5, 11, 0o600)), failed(EINVAL));
    assert_eq!(bench.call(&user(8), get(5, 10, 0o600)), failed(EACCES));
    assert_eq!(bench.call(&user(7), get(5, 0, 0)), Reply::Done(0));
}

#[test]
fn sizes_are_limited_in_bytes_and_all_together_in_whole_pages() {
    let limits = Limits { segment_bytes: 8192, pages: 3, ..Limits::default() };
    let mut bench = Bench::with(limits);
    assert_eq!(bench.call(&user(7), get(0, 0, 0o600)), failed(EINVAL));
    assert_eq!(bench.call(&user(7), get(0, 8193, 0o600)), failed(EINVAL));
    let id = bench.id(&user(7), get(0, 4097, 0o600));
    assert_eq!(bench.call(&user(7), get(0, 4097, 0o600)), failed(ENOSPC));
    bench.id(&user(7), get(0, 1, 0o600));
    bench.call(&user(7), Request::ShmRemove { id });
    bench.id(&user(7), get(0, 4097, 0o600));
}

#[test]
fn a_segment_is_new_until_it_is_attached() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), get(5, 4097, IPC_CREAT | 0o640));
    let permission =
        PermissionStat { key: 5, uid: 7, gid: 7, creator_uid: 7, creator_gid: 7, mode: 0o640 };
    let stat = ShmStat {
        id,
        permission,
        bytes: 4097,
        change_time: 100,
        creator_pid: 7,
        ..ShmStat::default()
    };
    assert_eq!(bench.shm_stat(id), stat);
    let attached = Reply::Attached { bytes: 4097, read_only: false, site: 1 };
    let other = process(&user(7), 3, 77);
    assert_eq!(bench.call(&other, Request::ShmAttach { id, flags: 0 }), attached);
    let stat = ShmStat { attach_time: 100, last_pid: 77, attaches: 1, ..stat };
    assert_eq!(bench.shm_stat(id), stat);
}

#[test]
fn to_attach_for_reading_takes_the_right_to_read_alone() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), get(0, 1, 0o604));
    let read_only = Reply::Attached { bytes: 1, read_only: true, site: 1 };
    assert_eq!(bench.call(&user(8), Request::ShmAttach { id, flags: SHM_RDONLY }), read_only);
    assert_eq!(bench.call(&user(8), Request::ShmAttach { id, flags: 0 }), failed(EACCES));
    let execute = SHM_RDONLY | libc::SHM_EXEC;
    assert_eq!(bench.call(&user(8), Request::ShmAttach { id, flags: execute }), failed(EACCES));
}

#[test]
fn a_removed_segment_lives_without_key_until_its_last_detach() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), get(5, 1, IPC_CREAT | 0o600));
    bench.call(&user(7), Request::ShmAttach { id, flags: 0 });
    assert_eq!(bench.call(&user(7), Request::ShmRemove { id }), DONE);
    assert_eq!(bench.call(&user(7), get(5, 1, 0)), failed(ENOENT));
    let stat = bench.shm_stat(id);
    assert_eq!((stat.permission.key, stat.permission.mode), (0, 0o1600));
    bench.call(&user(7), Request::ShmAttach { id, flags: 0 });
    assert_eq!(bench.call(&user(7), Request::ShmDetach { id }), DONE);
    assert!(bench.gone.is_empty());
    assert_eq!(bench.call(&user(7), Request::ShmDetach { id }), DONE);
    assert_eq!(bench.gone, [id]);
    assert_eq!(bench.call(&user(7), Request::ShmStat { id }), failed(EINVAL));
}

#[test]
fn a_detach_without_an_attach_is_an_error() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), get(0, 1, 0o600));
    assert_eq!(bench.call(&user(7), Request::ShmDetach { id }), failed(EINVAL));
    bench.call(&user(7), Request::ShmAttach { id, flags: 0 });
    assert_eq!(bench.call(&process(&user(7), 2, 7), Request::ShmDetach { id }), failed(EINVAL));
    assert_eq!(bench.shm_stat(id).attaches, 1);
}

#[test]
fn rights_are_eacces_and_ownership_is_eperm() {
    let mut bench = Bench::new();
    let id = bench.id(&user(7), get(0, 1, 0o600));
    let set = Request::ShmSet { id, uid: 8, gid: 8, mode: 0o666 };
    assert_eq!(bench.call(&user(8), Request::ShmStat { id }), failed(EACCES));
    assert_eq!(bench.call(&user(8), set.clone()), failed(EPERM));
    assert_eq!(bench.call(&user(8), Request::ShmRemove { id }), failed(EPERM));
    assert_eq!(bench.call(&user(8), Request::ShmLock { id, locked: true }), failed(EPERM));
    assert_eq!(bench.call(&user(7), set), DONE);
    assert_eq!(bench.call(&user(8), Request::ShmLock { id, locked: true }), DONE);
    assert_eq!(bench.shm_stat(id).permission.mode, 0o2666);
    assert_eq!(bench.call(&user(8), Request::ShmRemove { id }), DONE);
}

#[test]
fn to_look_by_index_takes_the_right_to_read_unless_any_is_asked_for() {
    let mut bench = Bench::new();
    bench.id(&user(7), get(0, 1, 0o600));
    let look = |any| Request::ShmStatIndex { index: 0, any };
    assert_eq!(bench.call(&user(8), look(false)), failed(EACCES));
    let stat = bench.shm_stat(0);
    assert_eq!(bench.call(&user(8), look(true)), Reply::Shm(stat));
    let beyond = Request::ShmStatIndex { index: 1, any: true };
    assert_eq!(bench.call(&user(8), beyond), failed(EINVAL));
}

#[test]
fn the_info_counts_segments_and_pages() {
    let mut bench = Bench::new();
    let limits = Limits::default();
    bench.id(&user(7), get(0, 1, 0o600));
    bench.id(&user(7), get(0, 4097, 0o600));
    let info = Info { highest_index: 1, objects: 2, contents: 3, bytes: 0, limits };
    assert_eq!(bench.call(&user(8), Request::ShmInfo), Reply::Info(info));
}
