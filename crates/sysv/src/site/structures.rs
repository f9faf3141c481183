//! The C structures of System V calls, as they lie in the memory of a program.

use core::mem::{MaybeUninit, size_of};

use multigrain_types::sysv::Answer;

use crate::ipc::{Info, MsgStat, PermissionStat, Reply, SemStat, ShmStat};

/// What stands behind an answer, and the answer.
pub(super) type Encoded = (Answer, Vec<u8>);

/// A structure of zeroes.
fn zeroed<T: Copy>() -> T {
    // SAFETY: for structures of C that consist of numbers.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<T>()];
    let place = bytes.as_mut_ptr();
    // SAFETY: as many bytes as the structure has; it was zeroed, so its padding can be read.
    unsafe {
        core::ptr::copy_nonoverlapping(core::ptr::from_ref(value).cast(), place, bytes.len())
    };
    bytes
}

/// The structure at the beginning of what came with a call.
pub(super) fn structure<T: Copy>(bytes: &[u8]) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: as many bytes as the structure has.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), size_of::<T>());
    }
    // SAFETY: for structures of C that consist of numbers.
    Some(unsafe { value.assume_init() })
}

/// Which information a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Shm,
    Sem,
    Msg,
}

/// An answer as the program gets it. `by_index`: the command names an object by its index and returns its id.
pub(super) fn encode(reply: Reply, kind: Kind, by_index: bool, used: bool) -> Encoded {
    let result = |id: i32| i64::from(if by_index { id } else { 0 });
    let answer = |result, bytes: Vec<u8>| (Answer { result, extra: [0; 2] }, bytes);
    match reply {
        Reply::Done(value) | Reply::Created(value) => answer(value, Vec::new()),
        Reply::Failed(errno) => (Answer::failed(errno), Vec::new()),
        Reply::Shm(stat) => answer(result(stat.id), bytes_of(&shm(&stat))),
        Reply::Sem(stat) => answer(result(stat.id), bytes_of(&sem(&stat))),
        Reply::Msg(stat) => answer(result(stat.id), bytes_of(&msg(&stat))),
        Reply::Values(values) => {
            answer(0, values.iter().flat_map(|value| value.to_ne_bytes()).collect())
        }
        Reply::Message { kind, bytes } => {
            let result = i64::try_from(bytes.len()).unwrap_or(0);
            answer(result, [&kind.to_ne_bytes()[..], &bytes].concat())
        }
        Reply::Attached { bytes, .. } => {
            answer(i64::try_from(bytes).unwrap_or(i64::MAX), Vec::new())
        }
        Reply::Object { id, .. } => answer(id.into(), Vec::new()),
        Reply::Info(info) => {
            let bytes = match (kind, used) {
                (Kind::Shm, false) => bytes_of(&shm_limits(&info)),
                (Kind::Shm, true) => bytes_of(&shm_usage(&info)),
                (Kind::Sem, used) => bytes_of(&sem_info(&info, used)),
                (Kind::Msg, used) => bytes_of(&msg_info(&info, used)),
            };
            answer(info.highest_index.into(), bytes)
        }
    }
}

fn permission(of: &PermissionStat, id: i32) -> libc::ipc_perm {
    let mut perm: libc::ipc_perm = zeroed();
    perm.__key = of.key;
    (perm.uid, perm.gid) = (of.uid, of.gid);
    (perm.cuid, perm.cgid) = (of.creator_uid, of.creator_gid);
    perm.mode = u16::try_from(of.mode).unwrap_or(0);
    perm.__seq = u16::try_from(id >> 15).unwrap_or(0);
    perm
}

fn shm(stat: &ShmStat) -> libc::shmid_ds {
    let mut ds: libc::shmid_ds = zeroed();
    ds.shm_perm = permission(&stat.permission, stat.id);
    ds.shm_segsz = usize::try_from(stat.bytes).unwrap_or(usize::MAX);
    (ds.shm_atime, ds.shm_dtime, ds.shm_ctime) =
        (stat.attach_time, stat.detach_time, stat.change_time);
    (ds.shm_cpid, ds.shm_lpid, ds.shm_nattch) = (stat.creator_pid, stat.last_pid, stat.attaches);
    ds
}

fn sem(stat: &SemStat) -> libc::semid_ds {
    let mut ds: libc::semid_ds = zeroed();
    ds.sem_perm = permission(&stat.permission, stat.id);
    (ds.sem_otime, ds.sem_ctime, ds.sem_nsems) =
        (stat.operation_time, stat.change_time, stat.count);
    ds
}

fn msg(stat: &MsgStat) -> libc::msqid_ds {
    let mut ds: libc::msqid_ds = zeroed();
    ds.msg_perm = permission(&stat.permission, stat.id);
    (ds.msg_stime, ds.msg_rtime, ds.msg_ctime) =
        (stat.send_time, stat.receive_time, stat.change_time);
    (ds.__msg_cbytes, ds.msg_qnum, ds.msg_qbytes) = (stat.bytes, stat.messages, stat.most_bytes);
    (ds.msg_lspid, ds.msg_lrpid) = (stat.send_pid, stat.receive_pid);
    ds
}

/// `struct shminfo`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ShmLimits([u64; 9]);

fn shm_limits(info: &Info) -> ShmLimits {
    let limits = &info.limits;
    let mut words = [0; 9];
    words[0] = limits.segment_bytes;
    words[1] = 1;
    words[2] = limits.segments.into();
    words[3] = limits.segments.into();
    words[4] = limits.pages;
    ShmLimits(words)
}

/// `struct shm_info`: an int and padding, then five longs.
#[derive(Clone, Copy)]
#[repr(C)]
struct ShmUsage([u64; 6]);

fn shm_usage(info: &Info) -> ShmUsage {
    ShmUsage([info.objects.into(), info.contents, info.contents, 0, 0, 0])
}

/// `struct seminfo`: ten ints.
#[derive(Clone, Copy)]
#[repr(C)]
struct SemInfo([i32; 10]);

fn int(number: u64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn sem_info(info: &Info, used: bool) -> SemInfo {
    let limits = &info.limits;
    let (sets, all) = (int(limits.sets.into()), int(limits.semaphores.into()));
    let (usz, aem) =
        if used { (int(info.objects.into()), int(info.contents)) } else { (20, 32_767) };
    SemInfo([
        all,
        sets,
        all,
        all,
        int(limits.set_semaphores.into()),
        int(limits.operations.into()),
        int(limits.operations.into()),
        usz,
        32_767,
        aem,
    ])
}

/// `struct msginfo`: seven ints and a short.
#[derive(Clone, Copy)]
#[repr(C)]
struct MsgInfo([i32; 8]);

fn msg_info(info: &Info, used: bool) -> MsgInfo {
    let limits = &info.limits;
    let (pool, map, tql) = if used {
        (int(info.objects.into()), int(info.contents), int(info.bytes))
    } else {
        (
            int(u64::from(limits.queues) * limits.queue_bytes / 1024),
            int(limits.queue_bytes),
            int(limits.queue_bytes),
        )
    };
    MsgInfo([
        pool,
        map,
        int(limits.message_bytes),
        int(limits.queue_bytes),
        int(limits.queues.into()),
        16,
        tql,
        0xffff,
    ])
}
