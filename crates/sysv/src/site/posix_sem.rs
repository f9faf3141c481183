//! Calls of named POSIX semaphores, as they come.

use std::fs::read_to_string;

use multigrain_types::sysv::Ask;

use super::connection::Arrived;
use crate::ipc::{PosixSem, Request};

/// What a call asks for: of process `pid`. None if no library of ours sends it.
pub(super) fn request(arrived: &Arrived<'_>, pid: i32) -> Option<Request> {
    let [first, second, third, _] = arrived.call.arguments;
    let (id, name) = (i32::try_from(first).ok()?, || arrived.behind.to_vec());
    let asked = if arrived.ask == Ask::PosixSemOpen {
        let mode = u32::try_from(second).ok()? & !umask_of(pid);
        PosixSem::Open { name: name(), flags: id, mode, value: u32::try_from(third).ok()? }
    } else if arrived.ask == Ask::PosixSemUnlink {
        PosixSem::Unlink(name())
    } else if arrived.ask == Ask::PosixSemClose {
        PosixSem::Close(id)
    } else if arrived.ask == Ask::PosixSemPost {
        PosixSem::Post(id)
    } else if arrived.ask == Ask::PosixSemWait {
        if second == 0 { PosixSem::Try(id) } else { PosixSem::Wait(id) }
    } else if arrived.ask == Ask::PosixSemValue {
        PosixSem::Value(id)
    } else if arrived.ask == Ask::PosixInherit {
        // Of its own parent, which waits for this answer.
        if super::descendants::parent_of(pid) != Some(id) {
            return None;
        }
        PosixSem::Inherit(id)
    } else {
        return None;
    };
    Some(Request::Posix(asked))
}

/// Read where the kernel shows it: a process can only ask for its own by changing it. Of one that is gone, or hidden, others get nothing.
pub(super) fn umask_of(pid: i32) -> u32 {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    umask.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
}
