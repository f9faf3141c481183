//! Processes that have called: when they end, their semaphores are undone before anybody can know of their end by a call.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What is kept of a process while it has sockets.
#[derive(Debug, Default)]
pub(super) struct Calling {
    /// Whether site 0 has been told that it has ended. Who has the lock passes a call on: calls that lie in sockets still come too
    /// late then.
    ended: Mutex<bool>,
    images: Mutex<BTreeMap<i64, OfImage>>,
}

/// Of one image of a process.
#[derive(Debug, Default)]
struct OfImage {
    sockets: usize,
    /// Segments that it has been told of and has not mapped yet, though their attaches are counted.
    attaching: Vec<i32>,
}

impl Calling {
    /// Passes a call on, unless the process has ended: what it takes would never be given back.
    pub(super) fn while_it_lives(&self, pass_on: impl FnOnce()) {
        let has_ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if !*has_ended {
            pass_on();
        }
    }

    fn images(&self) -> MutexGuard<'_, BTreeMap<i64, OfImage>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An image has one socket more.
    pub(super) fn opens(&self, image: i64) {
        self.images().entry(image).or_default().sockets += 1;
    }

    /// And one less: with the last one it is gone, and `detach` is told of what it was about to map, which it has not.
    pub(super) fn closes(&self, image: i64, detach: impl Fn(i32)) {
        // Whoever looks for the end of the process sees this one done, or does it.
        self.while_it_lives(|| self.closes_one(image).into_iter().for_each(detach));
    }

    fn closes_one(&self, image: i64) -> Vec<i32> {
        let mut images = self.images();
        let Some(of_image) = images.get_mut(&image) else { return Vec::new() };
        of_image.sockets -= 1;
        if of_image.sockets > 0 {
            return Vec::new();
        }
        images.remove(&image).map(|of_image| of_image.attaching).unwrap_or_default()
    }

    /// What all images were about to map, when the process has ended. Under the lock of the exports: an attach that is being guarded
    /// is one of these, or there.
    pub(super) fn leaves(&self) -> Vec<i32> {
        self.images().values_mut().flat_map(|of_image| of_image.attaching.drain(..)).collect()
    }

    /// An image is about to map a segment.
    pub(super) fn attaches(&self, image: i64, segment: i32) {
        self.images().entry(image).or_default().attaching.push(segment);
    }

    /// Takes away that it is about to: it has, or it will not. False if it was not.
    pub(super) fn takes_attach(&self, image: i64, segment: i32) -> bool {
        let mut images = self.images();
        let Some(of_image) = images.get_mut(&image) else { return false };
        let index = of_image.attaching.iter().position(|&of| of == segment);
        index.map(|index| of_image.attaching.swap_remove(index)).is_some()
    }
}

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
    calling: Arc<Calling>,
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
    pub(super) fn add(&self, pid: i32) -> Result<Arc<Calling>, Errno> {
        let mut known = self.lock();
        if let Some(known) = known.get(&pid) {
            return Ok(Arc::clone(&known.calling));
        }
        let process = pidfd_open(Pid::from_raw(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        let data = epoll::EventData::new_u64(u64::from(pid.cast_unsigned()));
        epoll::add(&self.ends, &process, data, epoll::EventFlags::IN)?;
        let calling = Arc::new(Calling::default());
        known.insert(pid, Known { _process: process, calling: Arc::clone(&calling) });
        Ok(calling)
    }

    /// Those that have called and are not known to have ended.
    pub(super) fn all(&self) -> Vec<i32> {
        self.lock().keys().copied().collect()
    }

    /// Has `ended` know of all that have ended by now, and of what they were about to map.
    pub(super) fn reap(&self, ended: impl Fn(i32, &Calling)) {
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
                    let calling = process.calling;
                    let mut has_ended =
                        calling.ended.lock().unwrap_or_else(PoisonError::into_inner);
                    *has_ended = true;
                    ended(pid, &calling);
                }
            }
        }
    }

    /// Waits for an end, for some time at most.
    pub(super) fn wait(&self) {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        // A signal ends it at most: it is called again.
        let _ = poll(&mut [PollFd::new(&self.ends, PollFlags::IN)], Some(&second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_image_was_about_to_map_is_known_by_whichever_socket_and_left_by_the_last() {
        let calling = Calling::default();
        (0..2).for_each(|_| calling.opens(7));
        calling.attaches(7, 3);
        calling.attaches(7, 4);
        assert!(calling.takes_attach(7, 3) && !calling.takes_attach(7, 3));
        assert!(!calling.takes_attach(8, 4), "another image");
        assert!(calling.closes_one(7).is_empty());
        assert_eq!(calling.closes_one(7), [4]);
        assert!(calling.closes_one(7).is_empty(), "it is gone");
    }
}
