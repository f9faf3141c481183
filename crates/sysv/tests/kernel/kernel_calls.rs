//! The kernel's own calls, asked and answered in the words of the semantics.

#![expect(unsafe_code, reason = "the kernel's calls take pointers")]

use std::io;

use libc::{c_int, c_void};
use multigrain_sysv::ipc::{
    Info, Limits, MsgStat, Operation, PermissionStat, Reply, Request, SemStat, ShmStat,
};

const SHM_LOCK: c_int = 11;
const SHM_UNLOCK: c_int = 12;
const SHM_STAT: c_int = 13;
const SHM_INFO: c_int = 14;
const SHM_STAT_ANY: c_int = 15;
const SEM_STAT: c_int = 18;
const SEM_INFO: c_int = 19;
const SEM_STAT_ANY: c_int = 20;
const MSG_STAT: c_int = 11;
const MSG_INFO: c_int = 12;
const MSG_STAT_ANY: c_int = 13;

/// More than any message or set of the tests has.
const MOST: usize = 40_000;
/// No semaphore has this value.
const NO_VALUE: u16 = u16::MAX;

/// The segments this process has attached: ids and addresses.
#[derive(Debug, Default)]
pub(crate) struct Attached(pub(crate) Vec<(i32, usize)>);

/// Makes the call.
pub(crate) fn carry_out(request: Request, attached: &mut Attached) -> Reply {
    let result = match request {
        Request::ShmGet { key, bytes, flags } => {
            let bytes = usize::try_from(bytes).expect("64 bits");
            // SAFETY: takes no pointer.
            done(unsafe { libc::shmget(key, bytes, flags) })
        }
        Request::ShmAttach { id, flags } => attach(id, flags, attached),
        Request::ShmDetach { id } => detach(id, attached),
        Request::ShmStat { id } => shm_stat(id, libc::IPC_STAT),
        Request::ShmStatIndex { index, any } => {
            shm_stat(index, if any { SHM_STAT_ANY } else { SHM_STAT })
        }
        Request::ShmSet { id, uid, gid, mode } => shm_set(id, uid, gid, mode),
        Request::ShmRemove { id } => shmctl(id, libc::IPC_RMID),
        Request::ShmLock { id, locked } => shmctl(id, if locked { SHM_LOCK } else { SHM_UNLOCK }),
        Request::ShmInfo => shm_info(),

        // SAFETY: takes no pointer.
        Request::SemGet { key, count, flags } => done(unsafe { libc::semget(key, count, flags) }),
        Request::SemOperate { id, operations } => semop(id, &operations),
        Request::SemCount { id } => sem_count(id),
        Request::SemGetValue { id, number } => semctl(id, number, libc::GETVAL, 0),
        Request::SemSetValue { id, number, value } => semctl(id, number, libc::SETVAL, value),
        Request::SemGetPid { id, number } => semctl(id, number, libc::GETPID, 0),
        Request::SemGetWaiters { id, number } => semctl(id, number, libc::GETNCNT, 0),
        Request::SemGetZeroWaiters { id, number } => semctl(id, number, libc::GETZCNT, 0),
        Request::SemRemove { id } => semctl(id, 0, libc::IPC_RMID, 0),
        Request::SemGetAll { id } => sem_values(id),
        Request::SemSetAll { id, mut values } => {
            values.resize(MOST, 0);
            semctl_pointer(id, libc::SETALL, values.as_mut_ptr().cast())
        }
        Request::SemStat { id } => sem_stat(id, libc::IPC_STAT),
        Request::SemStatIndex { index, any } => {
            sem_stat(index, if any { SEM_STAT_ANY } else { SEM_STAT })
        }
        Request::SemSet { id, uid, gid, mode } => sem_set(id, uid, gid, mode),
        Request::SemInfo => sem_info(),

        // SAFETY: takes no pointer.
        Request::MsgGet { key, flags } => done(unsafe { libc::msgget(key, flags) }),
        Request::MsgSend { id, kind, bytes, flags } => send(id, kind, &bytes, flags),
        Request::MsgReceive { id, kind, most, flags } => receive(id, kind, most, flags),
        Request::MsgStat { id } => msg_stat(id, libc::IPC_STAT),
        Request::Posix(_) | Request::PosixShm(_) => unreachable!("no system calls"),
        Request::MsgStatIndex { index, any } => {
            msg_stat(index, if any { MSG_STAT_ANY } else { MSG_STAT })
        }
        Request::MsgSet { id, uid, gid, mode, most_bytes } => {
            msg_set(id, uid, gid, mode, most_bytes)
        }
        Request::MsgRemove { id } => {
            // SAFETY: takes no pointer.
            done(unsafe { libc::msgctl(id, libc::IPC_RMID, core::ptr::null_mut()) })
        }
        Request::MsgInfo => msg_info(),
    };
    result.unwrap_or_else(Reply::Failed)
}

fn result(value: i64) -> Result<i64, i32> {
    let errno = || io::Error::last_os_error().raw_os_error().expect("an errno");
    if value == -1 { Err(errno()) } else { Ok(value) }
}

fn done(value: impl Into<i64>) -> Result<Reply, i32> {
    result(value.into()).map(Reply::Done)
}

fn attach(id: i32, flags: i32, attached: &mut Attached) -> Result<Reply, i32> {
    // SAFETY: the kernel chooses an address that is free.
    let address = unsafe { libc::shmat(id, core::ptr::null(), flags) };
    result(address.addr().cast_signed() as i64)?;
    attached.0.push((id, address.expose_provenance()));
    Ok(Reply::Done(0))
}

fn detach(id: i32, attached: &mut Attached) -> Result<Reply, i32> {
    let index = attached.0.iter().position(|attach| attach.0 == id).ok_or(libc::EINVAL)?;
    let (_, address) = attached.0.remove(index);
    // SAFETY: it was attached there, and nothing refers to it.
    done(unsafe { libc::shmdt(core::ptr::with_exposed_provenance(address)) })
}

fn shm_set(id: i32, uid: u32, gid: u32, mode: u32) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::shmid_ds = unsafe { core::mem::zeroed() };
    set_permission(&mut stat.shm_perm, uid, gid, mode);
    // SAFETY: reads the structure it is given.
    done(unsafe { libc::shmctl(id, libc::IPC_SET, &raw mut stat) })
}

fn shm_info() -> Result<Reply, i32> {
    let mut words = [0_u64; 32];
    // SAFETY: struct shm_info is smaller.
    let highest = result(unsafe { libc::shmctl(0, SHM_INFO, words.as_mut_ptr().cast()) }.into())?;
    Ok(info(highest, words[0] & u64::from(u32::MAX), words[1], 0))
}

fn shmctl(id: i32, command: c_int) -> Result<Reply, i32> {
    // SAFETY: these commands take no pointer.
    done(unsafe { libc::shmctl(id, command, core::ptr::null_mut()) })
}

fn shm_stat(id: i32, command: c_int) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::shmid_ds = unsafe { core::mem::zeroed() };
    // SAFETY: fills the structure in.
    result(unsafe { libc::shmctl(id, command, &raw mut stat) }.into())?;
    Ok(Reply::Shm(ShmStat {
        id: id_of(&stat.shm_perm, id),
        permission: permission(&stat.shm_perm),
        bytes: stat.shm_segsz as u64,
        attach_time: stat.shm_atime,
        detach_time: stat.shm_dtime,
        change_time: stat.shm_ctime,
        creator_pid: stat.shm_cpid,
        last_pid: stat.shm_lpid,
        attaches: stat.shm_nattch,
    }))
}

fn sem_values(id: i32) -> Result<Reply, i32> {
    let mut values = vec![NO_VALUE; MOST];
    semctl_pointer(id, libc::GETALL, values.as_mut_ptr().cast())?;
    values.retain(|&value| value != NO_VALUE);
    Ok(Reply::Values(values))
}

fn sem_count(id: i32) -> Result<Reply, i32> {
    let Reply::Sem(stat) = sem_stat(id, libc::IPC_STAT)? else { unreachable!("it did not fail") };
    done(i64::try_from(stat.count).expect("a count"))
}

fn sem_set(id: i32, uid: u32, gid: u32, mode: u32) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::semid_ds = unsafe { core::mem::zeroed() };
    set_permission(&mut stat.sem_perm, uid, gid, mode);
    semctl_pointer(id, libc::IPC_SET, (&raw mut stat).cast())
}

fn sem_info() -> Result<Reply, i32> {
    let mut numbers = [0_u32; 64];
    // SAFETY: struct seminfo is smaller.
    let highest = unsafe { libc::semctl(0, 0, SEM_INFO, numbers.as_mut_ptr()) };
    Ok(info(result(highest.into())?, numbers[7].into(), numbers[9].into(), 0))
}

fn semop(id: i32, operations: &[Operation]) -> Result<Reply, i32> {
    let operation = |operation: &Operation| libc::sembuf {
        sem_num: operation.number,
        sem_op: operation.change,
        sem_flg: operation.flags,
    };
    let mut operations: Vec<libc::sembuf> = operations.iter().map(operation).collect();
    // SAFETY: reads as many structures as there are.
    done(unsafe { libc::semop(id, operations.as_mut_ptr(), operations.len()) })
}

fn semctl(id: i32, number: c_int, command: c_int, value: c_int) -> Result<Reply, i32> {
    // SAFETY: these commands take a number.
    done(unsafe { libc::semctl(id, number, command, value) })
}

fn semctl_pointer(id: i32, command: c_int, pointer: *mut c_void) -> Result<Reply, i32> {
    // SAFETY: the caller has the structure that belongs to the command.
    done(unsafe { libc::semctl(id, 0, command, pointer) })
}

fn sem_stat(id: i32, command: c_int) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::semid_ds = unsafe { core::mem::zeroed() };
    semctl_pointer(id, command, (&raw mut stat).cast())?;
    Ok(Reply::Sem(SemStat {
        id: id_of(&stat.sem_perm, id),
        permission: permission(&stat.sem_perm),
        operation_time: stat.sem_otime,
        change_time: stat.sem_ctime,
        count: stat.sem_nsems,
    }))
}

fn send(id: i32, kind: i64, bytes: &[u8], flags: i32) -> Result<Reply, i32> {
    let buffer = [&kind.to_ne_bytes(), bytes].concat();
    // SAFETY: reads the type and as many bytes.
    done(unsafe { libc::msgsnd(id, buffer.as_ptr().cast(), bytes.len(), flags) })
}

fn receive(id: i32, kind: i64, most: u64, flags: i32) -> Result<Reply, i32> {
    let mut buffer = vec![0_u8; size_of::<i64>() + MOST];
    let most = usize::try_from(most).expect("64 bits");
    let into = buffer.as_mut_ptr().cast();
    // SAFETY: no message is larger than the buffer, whatever the receiver would take.
    let bytes = result(unsafe { libc::msgrcv(id, into, most, kind, flags) } as i64)?;
    let (kind, rest) = buffer.split_first_chunk().expect("a type");
    let bytes = usize::try_from(bytes).expect("a size");
    Ok(Reply::Message { kind: i64::from_ne_bytes(*kind), bytes: rest[..bytes].to_vec() })
}

fn msg_set(id: i32, uid: u32, gid: u32, mode: u32, most_bytes: u64) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::msqid_ds = unsafe { core::mem::zeroed() };
    set_permission(&mut stat.msg_perm, uid, gid, mode);
    stat.msg_qbytes = most_bytes;
    // SAFETY: reads the structure it is given.
    done(unsafe { libc::msgctl(id, libc::IPC_SET, &raw mut stat) })
}

fn msg_info() -> Result<Reply, i32> {
    let mut numbers = [0_u32; 64];
    // SAFETY: struct msginfo is smaller.
    let highest = result(unsafe { libc::msgctl(0, MSG_INFO, numbers.as_mut_ptr().cast()) }.into())?;
    Ok(info(highest, numbers[0].into(), numbers[1].into(), numbers[6].into()))
}

fn msg_stat(id: i32, command: c_int) -> Result<Reply, i32> {
    // SAFETY: integers alone.
    let mut stat: libc::msqid_ds = unsafe { core::mem::zeroed() };
    // SAFETY: fills the structure in.
    result(unsafe { libc::msgctl(id, command, &raw mut stat) }.into())?;
    Ok(Reply::Msg(MsgStat {
        id: id_of(&stat.msg_perm, id),
        permission: permission(&stat.msg_perm),
        send_time: stat.msg_stime,
        receive_time: stat.msg_rtime,
        change_time: stat.msg_ctime,
        bytes: stat.__msg_cbytes,
        messages: stat.msg_qnum,
        most_bytes: stat.msg_qbytes,
        send_pid: stat.msg_lspid,
        receive_pid: stat.msg_lrpid,
    }))
}

fn id_of(permission: &libc::ipc_perm, id_or_index: i32) -> i32 {
    i32::from(permission.__seq) << 15 | id_or_index & 0x7fff
}

fn permission(permission: &libc::ipc_perm) -> PermissionStat {
    PermissionStat {
        key: permission.__key,
        uid: permission.uid,
        gid: permission.gid,
        creator_uid: permission.cuid,
        creator_gid: permission.cgid,
        mode: permission.mode.into(),
    }
}

fn set_permission(permission: &mut libc::ipc_perm, uid: u32, gid: u32, mode: u32) {
    permission.uid = uid;
    permission.gid = gid;
    permission.mode = u16::try_from(mode).expect("a mode");
}

fn info(highest: i64, objects: u64, contents: u64, bytes: u64) -> Reply {
    Reply::Info(Info {
        highest_index: i32::try_from(highest).expect("an index"),
        objects: u32::try_from(objects).expect("a count"),
        contents,
        bytes,
        limits: Limits::default(),
    })
}
