//! What calls with commands or structures ask for.

use super::connection::Arrived;
use super::structures::structure;
use crate::ipc::{Operation, Request};

/// Bytes of a `struct sembuf`.
const OPERATION_BYTES: usize = 6;

/// Commands of System V calls that libc has no names for.
pub(super) mod command {
    pub(in super::super) const IPC_INFO: i32 = 3;
    pub(in super::super) const SHM_STAT: i32 = 13;
    pub(in super::super) const SHM_INFO: i32 = 14;
    pub(in super::super) const SHM_STAT_ANY: i32 = 15;
    pub(in super::super) const SEM_STAT: i32 = 18;
    pub(in super::super) const SEM_INFO: i32 = 19;
    pub(in super::super) const SEM_STAT_ANY: i32 = 20;
    pub(in super::super) const MSG_STAT: i32 = 11;
    pub(in super::super) const MSG_INFO: i32 = 12;
    pub(in super::super) const MSG_STAT_ANY: i32 = 13;
    /// Of the library's own: how many semaphores a set has.
    pub(in super::super) const SEM_COUNT: i32 = 1 << 20;
}

/// An argument of a C function that takes an int.
pub(super) fn int(word: i64) -> i32 {
    i32::try_from(word).unwrap_or(-1)
}

pub(super) fn shm_control(arrived: &Arrived<'_>) -> Option<Request> {
    let [id, command, ..] = arrived.call.arguments.map(int);
    Some(match command {
        libc::IPC_STAT => Request::ShmStat { id },
        libc::IPC_RMID => Request::ShmRemove { id },
        libc::IPC_SET => {
            let ds: libc::shmid_ds = structure(arrived.behind)?;
            let perm = ds.shm_perm;
            let mode = u32::from(perm.mode) & 0o777;
            Request::ShmSet { id, uid: perm.uid, gid: perm.gid, mode }
        }
        libc::SHM_LOCK => Request::ShmLock { id, locked: true },
        libc::SHM_UNLOCK => Request::ShmLock { id, locked: false },
        command::IPC_INFO | command::SHM_INFO => Request::ShmInfo,
        command::SHM_STAT => Request::ShmStatIndex { index: id, any: false },
        command::SHM_STAT_ANY => Request::ShmStatIndex { index: id, any: true },
        _ => return None,
    })
}

pub(super) fn sem_operate(arrived: &Arrived<'_>) -> Option<Request> {
    let [id, count, ..] = arrived.call.arguments.map(int);
    let operations = arrived.behind.chunks_exact(OPERATION_BYTES).map(|operation| {
        let half = |at: usize| [operation[at], operation[at + 1]];
        Operation {
            number: u16::from_ne_bytes(half(0)),
            change: i16::from_ne_bytes(half(2)),
            flags: i16::from_ne_bytes(half(4)),
        }
    });
    let operations: Vec<_> = operations.collect();
    let all = usize::try_from(count).is_ok_and(|count| operations.len() == count);
    all.then_some(Request::SemOperate { id, operations })
}

pub(super) fn sem_control(arrived: &Arrived<'_>) -> Option<Request> {
    let [id, number, command, value] = arrived.call.arguments.map(int);
    Some(match command {
        libc::IPC_STAT => Request::SemStat { id },
        libc::IPC_RMID => Request::SemRemove { id },
        libc::IPC_SET => {
            let ds: libc::semid_ds = structure(arrived.behind)?;
            let perm = ds.sem_perm;
            let mode = u32::from(perm.mode) & 0o777;
            Request::SemSet { id, uid: perm.uid, gid: perm.gid, mode }
        }
        libc::GETVAL => Request::SemGetValue { id, number },
        libc::SETVAL => Request::SemSetValue { id, number, value },
        libc::GETALL => Request::SemGetAll { id },
        libc::SETALL => {
            let values = arrived.behind.chunks_exact(2);
            let values = values.map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
            Request::SemSetAll { id, values }
        }
        libc::GETPID => Request::SemGetPid { id, number },
        libc::GETNCNT => Request::SemGetWaiters { id, number },
        libc::GETZCNT => Request::SemGetZeroWaiters { id, number },
        command::IPC_INFO | command::SEM_INFO => Request::SemInfo,
        command::SEM_STAT => Request::SemStatIndex { index: id, any: false },
        command::SEM_STAT_ANY => Request::SemStatIndex { index: id, any: true },
        command::SEM_COUNT => Request::SemCount { id },
        _ => return None,
    })
}

pub(super) fn msg_control(arrived: &Arrived<'_>) -> Option<Request> {
    let [id, command, ..] = arrived.call.arguments.map(int);
    Some(match command {
        libc::IPC_STAT => Request::MsgStat { id },
        libc::IPC_RMID => Request::MsgRemove { id },
        libc::IPC_SET => {
            let ds: libc::msqid_ds = structure(arrived.behind)?;
            let perm = ds.msg_perm;
            let mode = u32::from(perm.mode) & 0o777;
            let most_bytes = ds.msg_qbytes;
            Request::MsgSet { id, uid: perm.uid, gid: perm.gid, mode, most_bytes }
        }
        command::IPC_INFO | command::MSG_INFO => Request::MsgInfo,
        command::MSG_STAT => Request::MsgStatIndex { index: id, any: false },
        command::MSG_STAT_ANY => Request::MsgStatIndex { index: id, any: true },
        _ => return None,
    })
}
