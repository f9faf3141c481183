//! Processes that have called: when they end, their semaphores are undone before anybody can know of their end by a call.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Whether site 0 has been told that a process has ended. Who has its lock passes a call of the process on: calls that lie in its
/// sockets still come too late then.
pub(super) type Ended = Mutex<bool>;

/// The processes of a site.
#[derive(Debug)]
pub(super) struct Processes {
    ends: OwnedFd,
    known: Mutex<BTreeMap<i32, Known>>,
}

#[derive(Debug)]
struct Known {
    /// Readable when it has ended.
    _process: OwnedFd,
    ended: Arc<Ended>,
}

impl Processes {
    pub(super) fn new() -> Result<Self, Errno> {
        let ends = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { ends, known: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has called.
    pub(super) fn add(&self, pid: i32) -> Result<Arc<Ended>, Errno> {
        let mut known = self.lock();
        if let Some(known) = known.get(&pid) {
            return Ok(Arc::clone(&known.ended));
        }
        let process = pidfd_open(Pid::from_raw(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        let data = epoll::EventData::new_u64(u64::from(pid.cast_unsigned()));
        epoll::add(&self.ends, &process, data, epoll::EventFlags::IN)?;
        let ended = Arc::new(Ended::default());
        known.insert(pid, Known { _process: process, ended: Arc::clone(&ended) });
        Ok(ended)
    }

    /// Has `ended` know of all that have ended by now.
    pub(super) fn reap(&self, ended: impl Fn(i32)) {
        let mut known = self.lock();
        let mut events = Vec::with_capacity(16);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            if !matches!(epoll::wait(&self.ends, room, Some(&now)), Ok(1..)) {
                return;
            }
            for event in &events {
                let pid = u32::try_from(event.data.u64()).unwrap_or(0).cast_signed();
                if let Some(process) = known.remove(&pid) {
                    let mut has_ended =
                        process.ended.lock().unwrap_or_else(PoisonError::into_inner);
                    *has_ended = true;
                    ended(pid);
                }
            }
        }
    }

    /// Waits for an end, for some time at most.
    pub(super) fn wait(&self) {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&self.ends, PollFlags::IN)], Some(&second));
    }
}
