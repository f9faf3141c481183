//! The words between the semantics and the daemon around it: who calls, what is asked, what is answered.

use serde::{Deserialize, Serialize};

use super::limits::Limits;

/// A process that calls: the node (site) it runs on and its pid there.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Process {
    /// The node.
    pub site: u16,
    /// The pid on that node, of the thread group (as `getpid` has it).
    pub pid: i32,
}

/// A call that has not been answered: unique among those of its site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CallId {
    /// The node the call comes from.
    pub site: u16,
    /// Counts the calls of that node.
    pub number: u64,
}

/// Who makes a call, with which rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The process.
    pub process: Process,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
    /// Whether it has what root has: CAP_IPC_OWNER, CAP_IPC_LOCK, CAP_SYS_ADMIN and CAP_SYS_RESOURCE.
    pub privileged: bool,
    /// Seconds since the epoch.
    pub now: i64,
}

/// One operation on one semaphore, as `struct sembuf` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Which semaphore of the set.
    pub number: u16,
    /// What is added; 0 waits for zero.
    pub change: i16,
    /// `IPC_NOWAIT`, `SEM_UNDO`.
    pub flags: i16,
}

/// A call, named after what it does; `id`, `key` and `flags` are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the arguments of the calls that are named")]
pub enum Request {
    /// `shmget`. Answered with `Created(id)`, or with `Done(id)` if there was such a segment.
    ShmGet { key: i32, bytes: u64, flags: i32 },
    /// `shmat`, but for the address, which the caller checks. Answered with `Attached`.
    ShmAttach { id: i32, flags: i32 },
    /// `shmdt` of an attach of this segment.
    ShmDetach { id: i32 },
    /// `shmctl(IPC_STAT)`. Answered with `Shm`.
    ShmStat { id: i32 },
    /// `shmctl(IPC_SET)`.
    ShmSet { id: i32, uid: u32, gid: u32, mode: u32 },
    /// `shmctl(IPC_RMID)`.
    ShmRemove { id: i32 },
    /// `shmctl(SHM_LOCK)` and `shmctl(SHM_UNLOCK)`.
    ShmLock { id: i32, locked: bool },
    /// `shmctl(IPC_INFO)` and `shmctl(SHM_INFO)`. Answered with `Info`.
    ShmInfo,
    /// `shmctl(SHM_STAT)`; `any` is `SHM_STAT_ANY`, which asks for no right to read. Answered with `Shm`.
    ShmStatIndex { index: i32, any: bool },

    /// `semget`. Answered with `Done(id)`.
    SemGet { key: i32, count: i32, flags: i32 },
    /// `semop` and `semtimedop`, whose time the caller keeps: see [`super::Ipc::cancel`].
    SemOperate { id: i32, operations: Vec<Operation> },
    /// How many semaphores the set has, whatever the rights: what `semctl(SETALL)` reads from its caller's memory.
    SemCount { id: i32 },
    /// `semctl(GETVAL)`.
    SemGetValue { id: i32, number: i32 },
    /// `semctl(SETVAL)`.
    SemSetValue { id: i32, number: i32, value: i32 },
    /// `semctl(GETALL)`. Answered with `Values`.
    SemGetAll { id: i32 },
    /// `semctl(SETALL)`.
    SemSetAll { id: i32, values: Vec<u16> },
    /// `semctl(GETPID)`.
    SemGetPid { id: i32, number: i32 },
    /// `semctl(GETNCNT)`.
    SemGetWaiters { id: i32, number: i32 },
    /// `semctl(GETZCNT)`.
    SemGetZeroWaiters { id: i32, number: i32 },
    /// `semctl(IPC_STAT)`. Answered with `Sem`.
    SemStat { id: i32 },
    /// `semctl(IPC_SET)`.
    SemSet { id: i32, uid: u32, gid: u32, mode: u32 },
    /// `semctl(IPC_RMID)`.
    SemRemove { id: i32 },
    /// `semctl(IPC_INFO)` and `semctl(SEM_INFO)`. Answered with `Info`.
    SemInfo,
    /// `semctl(SEM_STAT)`; `any` is `SEM_STAT_ANY`. Answered with `Sem`.
    SemStatIndex { index: i32, any: bool },

    /// `msgget`. Answered with `Done(id)`.
    MsgGet { key: i32, flags: i32 },
    /// `msgsnd`.
    MsgSend { id: i32, kind: i64, bytes: Vec<u8>, flags: i32 },
    /// `msgrcv`. Answered with `Message`.
    MsgReceive { id: i32, kind: i64, most: u64, flags: i32 },
    /// `msgctl(IPC_STAT)`. Answered with `Msg`.
    MsgStat { id: i32 },
    /// `msgctl(IPC_SET)`; `most_bytes` is `msg_qbytes`.
    MsgSet { id: i32, uid: u32, gid: u32, mode: u32, most_bytes: u64 },
    /// `msgctl(IPC_RMID)`.
    MsgRemove { id: i32 },
    /// `msgctl(IPC_INFO)` and `msgctl(MSG_INFO)`. Answered with `Info`.
    MsgInfo,
    /// Of a named POSIX semaphore.
    Posix(PosixSem),
    /// Of a POSIX shared memory object.
    PosixShm(PosixShm),
    /// `msgctl(MSG_STAT)`; `any` is `MSG_STAT_ANY`. Answered with `Msg`.
    MsgStatIndex { index: i32, any: bool },
}

/// A call of a named POSIX semaphore, named after what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PosixSem {
    /// `sem_open`. Answered with `Done(id)`.
    Open {
        /// Without the slash.
        name: Vec<u8>,
        /// `O_CREAT`, `O_EXCL`.
        flags: i32,
        /// Rights of one that is made, without what the umask takes.
        mode: u32,
        /// Its value.
        value: u32,
    },
    /// The last `sem_close` of the process.
    Close(i32),
    /// `sem_unlink`.
    Unlink(Vec<u8>),
    /// `sem_post`.
    Post(i32),
    /// `sem_wait` and the like, whose time the caller keeps: see [`super::Ipc::cancel`].
    Wait(i32),
    /// `sem_trywait`.
    Try(i32),
    /// `sem_getvalue`.
    Value(i32),
    /// The process is a child, by fork, of this one of its site: it has open what that has.
    Inherit(i32),
}

/// A call of a POSIX shared memory object. A site has it open as long as a process there has a descriptor of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PosixShm {
    /// `shm_open`, whose access mode is in `flags`. Answered with `Object`.
    Open {
        /// Without the slash.
        name: Vec<u8>,
        /// Its flags.
        flags: i32,
        /// Rights of one that is made, without what the umask takes.
        mode: u32,
    },
    /// `shm_unlink`.
    Unlink(Vec<u8>),
    /// `ftruncate`. Answered with `Created(id)` if whoever asked makes the memory.
    Size {
        /// Which object.
        id: i32,
        /// How large.
        bytes: u64,
    },
    /// One that cannot be made has no size again.
    Unsize(i32),
    /// What it is now. Answered with `Object`.
    Stat(i32),
    /// One mapping more. Answered with `Object`.
    Map(i32),
    /// No process of the site has a descriptor any more.
    Release(i32),
}

/// What a call is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The call's result: an id, a value or 0.
    Done(i64),
    /// A segment was made, of this id; whoever asked makes its memory.
    Created(i64),
    /// The call failed with this errno.
    Failed(i32),
    /// What `struct shmid_ds` holds.
    Shm(ShmStat),
    /// What `struct semid_ds` holds.
    Sem(SemStat),
    /// What `struct msqid_ds` holds.
    Msg(MsgStat),
    /// The values of the semaphores of a set.
    Values(Vec<u16>),
    /// A message that was received.
    Message {
        /// Its type, 1 or more.
        kind: i64,
        /// Its contents, cut off as the receiver asked.
        bytes: Vec<u8>,
    },
    /// The segment counts an attach more.
    Attached {
        /// The segment's size as it was asked for; its last page can be reached whole.
        bytes: u64,
        /// Whether the attach is for reading alone.
        read_only: bool,
        /// The site of the process that made the segment.
        site: u16,
    },
    /// What the `*_INFO` commands tell.
    Info(Info),
    /// A POSIX shared memory object.
    Object {
        /// The id.
        id: i32,
        /// Its size, 0 before it has one.
        bytes: u64,
        /// The owner.
        uid: u32,
        /// The owner's group.
        gid: u32,
        /// The nine bits of rights.
        mode: u32,
    },
}

/// What happens on account of a call, for the daemon to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// This call is answered.
    Reply(CallId, Reply),
    /// The segment of this id is gone: its name is removed and nobody is attached. Of a POSIX object it is `!id`.
    SegmentGone(i32),
    /// A POSIX object has a size from now on.
    ObjectSized(i32, u64),
}

/// What `struct ipc_perm` holds, but for the id's sequence number, which is `id >> 15`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PermissionStat {
    /// The key, 0 for an object without one.
    pub key: i32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Who made it.
    pub creator_uid: u32,
    /// The group of who made it.
    pub creator_gid: u32,
    /// The nine bits of rights; of segments also `SHM_DEST` (01000) and `SHM_LOCKED` (02000).
    pub mode: u32,
}

/// What `struct shmid_ds` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ShmStat {
    /// The id.
    pub id: i32,
    /// `shm_perm`.
    pub permission: PermissionStat,
    /// `shm_segsz`.
    pub bytes: u64,
    /// `shm_atime`: of the last attach.
    pub attach_time: i64,
    /// `shm_dtime`: of the last detach.
    pub detach_time: i64,
    /// `shm_ctime`: of the last change.
    pub change_time: i64,
    /// `shm_cpid`: who made it.
    pub creator_pid: i32,
    /// `shm_lpid`: who attached or detached last, 0 if none did.
    pub last_pid: i32,
    /// `shm_nattch`.
    pub attaches: u64,
}

/// What `struct semid_ds` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SemStat {
    /// The id.
    pub id: i32,
    /// `sem_perm`.
    pub permission: PermissionStat,
    /// `sem_otime`: of the last `semop`, 0 before the first.
    pub operation_time: i64,
    /// `sem_ctime`: of the last change.
    pub change_time: i64,
    /// `sem_nsems`.
    pub count: u64,
}

/// What `struct msqid_ds` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MsgStat {
    /// The id.
    pub id: i32,
    /// `msg_perm`.
    pub permission: PermissionStat,
    /// `msg_stime`: of the last `msgsnd`.
    pub send_time: i64,
    /// `msg_rtime`: of the last `msgrcv`.
    pub receive_time: i64,
    /// `msg_ctime`: of the last change.
    pub change_time: i64,
    /// `msg_cbytes`: bytes in the queue.
    pub bytes: u64,
    /// `msg_qnum`: messages in the queue.
    pub messages: u64,
    /// `msg_qbytes`: how many bytes may be in the queue.
    pub most_bytes: u64,
    /// `msg_lspid`: who sent last, 0 if none did.
    pub send_pid: i32,
    /// `msg_lrpid`: who received last, 0 if none did.
    pub receive_pid: i32,
}

/// What the `*_INFO` commands tell of one of the three kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// What the commands return: the highest index in use, 0 if there is none.
    pub highest_index: i32,
    /// How many objects there are: `used_ids`, `semusz`, `msgpool`.
    pub objects: u32,
    /// How much is in them: pages of the segments (`shm_tot`), semaphores (`semaem`), messages (`msgmap`).
    pub contents: u64,
    /// Bytes of all messages (`msgtql`); 0 for the other two.
    pub bytes: u64,
    /// The limits.
    pub limits: Limits,
}
