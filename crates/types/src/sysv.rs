//! What a program under `multigrain run --sysv` and its site say to each other (ADR 55): the library that takes the
//! program's System V calls, and the process of its node that answers them.
//!
//! Role: the datagrams on their socket, one [`Call`] and one [`Answer`] at a time, each with bytes behind it. Both ends are
//! of one build on one machine, so numbers lie as they do in memory.

/// The variable that names the site's socket, in the abstract name space, and what proves that a process may use it:
/// both as hexadecimal digits, with a `:` between them.
pub const SITE_VARIABLE: &str = "MULTIGRAIN_SITE";

/// Bytes of what proves that a process may use a site.
pub const TOKEN_BYTES: usize = 16;

/// Most bytes behind a call or an answer: more than the longest message and the largest set of semaphores have.
pub const MOST_BEHIND: usize = 80 << 10;

/// Most bytes of a named semaphore's name, without the slash: glibc's files are called `sem.` and the name.
pub const MOST_NAME: usize = 255 - 4;

/// Highest value of a POSIX semaphore (SEM_VALUE_MAX).
pub const MOST_SEM_VALUE: u32 = i32::MAX.cast_unsigned();

/// Most operations of one semop (SEMOPM of this kernel).
pub const MOST_OPERATIONS: usize = 500;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Ask {
    /// Who calls: `arguments` are the number of this image of a process, and that of the fork it came from or 0; behind
    /// it the token.
    Hello = 1,
    /// The process is about to fork: the number of that fork.
    Fork,
    /// A child of fork: answered with its userfaultfd, if it has segments.
    Forked,
    /// shmget(key, size, flags).
    ShmGet,
    /// The first half of shmat(id, flags): answered with the segment's bytes, where to map it if nothing is said, and
    /// its memory object.
    ShmAttach,
    /// The device that userfaultfds come of, for a process that may not make one itself.
    Device,
    /// The second half: segment, start, bytes, its first page; with the userfaultfd of the process if the site has it not.
    ShmGuard,
    /// The second half failed: the attach to this segment is off.
    ShmAbandon,
    /// shmdt(address): answered with how many pieces are to be unmapped, of which the userfaultfd tells; behind it the address and
    /// the bytes of each, as many as the caller has room for.
    ShmDetach,
    /// shmctl(id, command), the structure behind it for IPC_SET.
    ShmControl,
    /// semget(key, count, flags).
    SemGet,
    /// semop(id, how many), which are behind it.
    SemOperate,
    /// semctl(id, number, command, value), values or a structure behind it.
    SemControl,
    /// msgget(key, flags).
    MsgGet,
    /// msgsnd(id, flags), type and text behind it.
    MsgSend,
    /// msgrcv(id, bytes, type, flags); answered with type and text.
    MsgReceive,
    /// msgctl(id, command), the structure behind it for IPC_SET.
    MsgControl,
    /// sem_open(flags, mode, value), the name behind it without its slash; answered with an id.
    PosixSemOpen,
    /// The last sem_close of a process: id.
    PosixSemClose,
    /// sem_unlink, the name behind it.
    PosixSemUnlink,
    /// sem_post(id).
    PosixSemPost,
    /// sem_wait(id, 1), or sem_trywait(id, 0).
    PosixSemWait,
    /// sem_getvalue(id).
    PosixSemValue,
    /// A child of fork has what its parent, of this pid, has open.
    PosixInherit,
    /// shm_open(flags, mode), the name behind it; answered with a descriptor that stands for the object.
    PosixShmOpen,
    /// shm_unlink, the name behind it.
    PosixShmUnlink,
    /// ftruncate(bytes) of the descriptor that comes with it.
    PosixShmSize,
    /// The first half of a shared mmap of the descriptor that comes with it: whether it is to be written, offset and bytes. Answered
    /// with whether it may be written, where to map it if nothing is said, the number of the segment, and its memory object.
    PosixShmMap,
    /// The call that waits is over, with this error number; it is answered all the same.
    Cancel,
    /// The call waits for some time already: whether a time-out ends it, and whether the process has a timer that may. It is not
    /// answered.
    Waits,
    /// Whether anything that begins at an address and has so many bytes is attached: 1 or 0.
    IsAttached,
}

impl Ask {
    const ALL: [Self; 31] = [
        Self::Hello,
        Self::Fork,
        Self::Forked,
        Self::ShmGet,
        Self::ShmAttach,
        Self::Device,
        Self::ShmGuard,
        Self::ShmAbandon,
        Self::ShmDetach,
        Self::ShmControl,
        Self::SemGet,
        Self::SemOperate,
        Self::SemControl,
        Self::MsgGet,
        Self::MsgSend,
        Self::MsgReceive,
        Self::MsgControl,
        Self::PosixSemOpen,
        Self::PosixSemClose,
        Self::PosixSemUnlink,
        Self::PosixSemPost,
        Self::PosixSemWait,
        Self::PosixSemValue,
        Self::PosixInherit,
        Self::PosixShmOpen,
        Self::PosixShmUnlink,
        Self::PosixShmSize,
        Self::PosixShmMap,
        Self::Cancel,
        Self::Waits,
        Self::IsAttached,
    ];

    /// What has that number.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|ask| *ask as u64 == number)
    }
}

/// A call, as it begins a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Call {
    /// An [`Ask`].
    pub ask: u64,
    /// Its arguments, as they are listed there.
    pub arguments: [i64; 4],
    /// Effective user and group of the caller.
    pub user: u32,
    /// See `user`.
    pub group: u32,
}

/// An answer, as it begins a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Answer {
    /// What the call returns; an error number below 0.
    pub result: i64,
    /// What else it has, as the [`Ask`] says.
    pub extra: [i64; 2],
}

/// Bytes of a [`Call`].
pub const CALL_BYTES: usize = size_of::<Call>();
/// Bytes of an [`Answer`].
pub const ANSWER_BYTES: usize = size_of::<Answer>();

impl Call {
    /// As it goes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        bytes[..8].copy_from_slice(&self.ask.to_ne_bytes());
        for (to, word) in bytes[8..40].chunks_exact_mut(8).zip(self.arguments) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[40..44].copy_from_slice(&self.user.to_ne_bytes());
        bytes[44..].copy_from_slice(&self.group.to_ne_bytes());
        bytes
    }

    /// As it came, and what is behind it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, behind) = bytes.split_first_chunk::<CALL_BYTES>()?;
        let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|byte| head[at + byte]));
        let half = |at: usize| u32::from_ne_bytes(core::array::from_fn(|byte| head[at + byte]));
        let arguments = core::array::from_fn(|index| word(8 + 8 * index).cast_signed());
        Some((Self { ask: word(0), arguments, user: half(40), group: half(44) }, behind))
    }
}

impl Answer {
    /// One that failed with an error number.
    #[must_use]
    pub fn failed(errno: i32) -> Self {
        Self { result: -i64::from(errno), extra: [0; 2] }
    }

    /// As it goes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let words = [self.result, self.extra[0], self.extra[1]];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// As it came, and what is behind it.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, behind) = bytes.split_first_chunk::<ANSWER_BYTES>()?;
        let word = |at: usize| i64::from_ne_bytes(core::array::from_fn(|byte| head[at + byte]));
        Some((Self { result: word(0), extra: [word(8), word(16)] }, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_answers_come_as_they_went() {
        let ask = Ask::MsgControl as u64;
        let call = Call { ask, arguments: [-1, 2, i64::MIN, 4], user: 5, group: u32::MAX };
        let mut bytes = call.to_bytes().to_vec();
        bytes.extend([7, 8]);
        assert_eq!(Call::from_bytes(&bytes), Some((call, &[7, 8][..])));
        assert_eq!(Call::from_bytes(&bytes[..CALL_BYTES - 1]), None);
        let answer = Answer { result: -22, extra: [1, -2] };
        assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some((answer, &[][..])));
        assert_eq!(Answer::from_bytes(&[0; ANSWER_BYTES - 1]), None);
        let numbers = Ask::ALL.map(|ask| ask as u64);
        assert_eq!(numbers, core::array::from_fn(|at| at as u64 + 1));
        assert_eq!(numbers.map(Ask::of), Ask::ALL.map(Some));
        assert_eq!((Ask::of(0), Ask::of(32)), (None, None));
    }
}
