//! A namespace of the kernel for one program, so that ids start from 0, nothing else is in it and nothing is left.

#![expect(unsafe_code, reason = "a system call that std has not")]

use std::fs;
use std::io;

use multigrain_sysv::ipc::{Limits, Reply, Request};

use crate::kernel_calls::{Attached, carry_out};

/// Moves this thread, and the processes it forks from now on, into a new namespace that has these limits. False, and
/// said, where that is not allowed: there is nothing to compare with then.
pub(crate) fn enter(limits: &Limits) -> bool {
    let entered = unshare().and_then(|()| set(limits)).and_then(|()| {
        // Without this file, who blocks cannot be told.
        fs::read_to_string("/proc/self/syscall").map(drop)
    });
    if let Err(error) = &entered {
        println!("nothing is compared: a namespace for it cannot be made: {error}");
    }
    entered.is_ok()
}

fn unshare() -> io::Result<()> {
    // SAFETY: takes no pointer. No System V object is attached to or waited at by this process.
    if unsafe { libc::unshare(libc::CLONE_NEWIPC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set(limits: &Limits) -> io::Result<()> {
    let Limits { set_semaphores, semaphores, operations, sets, .. } = limits;
    let semaphores = format!("{set_semaphores} {semaphores} {operations} {sets}");
    let set = |name: &str, value: String| fs::write(format!("/proc/sys/kernel/{name}"), value);
    set("sem", semaphores)?;
    set("shmmni", limits.segments.to_string())?;
    set("shmmax", limits.segment_bytes.to_string())?;
    set("shmall", limits.pages.to_string())?;
    set("msgmax", limits.message_bytes.to_string())?;
    set("msgmnb", limits.queue_bytes.to_string())?;
    set("msgmni", limits.queues.to_string())
}

/// Whether the kernel has `MSG_COPY`, which is an option of its build.
pub(crate) fn has_copy() -> bool {
    let request =
        Request::MsgReceive { id: 0, kind: 0, most: 0, flags: libc::MSG_COPY | libc::IPC_NOWAIT };
    carry_out(request, &mut Attached::default()) != Reply::Failed(libc::ENOSYS)
}

/// Whether this process has CAP_SYS_RESOURCE.
pub(crate) fn may_raise_limits() -> bool {
    const SYS_RESOURCE: u64 = 1 << 24;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits & SYS_RESOURCE != 0)
}
