//! Faults of processes: the site gets the page as any node does, and puts it into the export while it has it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use multigrain_protocol::Kind;
use multigrain_runtime::{Error, Runtime};
use multigrain_types::PAGE_BYTES;
use rustix::event::{PollFd, PollFlags, poll};

use super::images::{Fault, ImageKey};
use super::{Site, end, page_copies};

/// Faults that follow each other so quickly are awaited without sleeping, for as long at most: a wake-up on another processor
/// takes as long as several faults.
const STREAK: Duration = Duration::from_micros(60);

/// Whether faults of an image follow each other.
#[derive(Default)]
struct Streak {
    /// When the last fault was served, and whether it came soon after the one before.
    served: Option<Instant>,
    is_on: bool,
}

impl Streak {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.served.is_some_and(|at| at.elapsed() < age)
    }

    /// There are faults.
    fn begin(&mut self) -> bool {
        self.is_on = self.is_younger_than(2 * STREAK);
        self.is_on
    }

    /// There are none: whether to wait for some without sleeping.
    fn goes_on(&mut self) -> bool {
        self.is_on = self.is_on && self.is_younger_than(STREAK);
        self.is_on
    }
}

/// Serves an image until it is gone.
pub(super) fn serve(site: &'static Site, runtime: &'static Runtime, key: ImageKey) {
    // Once: looked up each time, a lock would be taken more.
    let Some((userfault, eventfd)) = site.exports.lock().descriptors_of(key) else { return };
    let mut streak = Streak::default();
    loop {
        let mut exports = site.exports.lock();
        let faults = exports.faults(key);
        let has_notifications = exports.has_notifications();
        drop(exports);
        if has_notifications {
            site.pass_notifications(runtime);
        }
        let Some(faults) = faults else { return runtime.rest() };
        if !faults.is_empty() {
            if streak.begin() {
                runtime.stay_awake();
            }
            let mut has_fetched = false;
            for fault in faults {
                has_fetched |= resolve(site, runtime, key, fault);
            }
            if !has_fetched {
                // It received while it waited for what it fetched; else what has arrived is served now.
                runtime.look();
            }
            streak.served = Some(Instant::now());
        } else if streak.goes_on() {
            runtime.look();
            rustix::thread::sched_yield();
        } else {
            runtime.rest();
            sleep(&userfault.0, &eventfd);
        }
    }
}

/// Until there are faults, or the image is gone.
fn sleep(userfault: &OwnedFd, eventfd: &OwnedFd) {
    let mut wanted = [userfault, eventfd].map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    let _ = poll(&mut wanted, None);
    if !wanted[1].revents().is_empty() {
        let _ = rustix::io::read(eventfd, &mut [0; 8]);
    }
}

/// Gets what a fault needs; whether from another site.
fn resolve(site: &Site, runtime: &Runtime, key: ImageKey, fault: Fault) -> bool {
    let mut has_fetched = false;
    let kind = if fault.writes { Kind::Write } else { Kind::Read };
    loop {
        let found = site.exports.lock().place(key, fault);
        let Some((place, pages)) = found else {
            // Detached meanwhile: it finds out itself.
            site.exports.lock().wake(key, fault.address);
            return has_fetched;
        };
        match runtime.fetch(place, pages * PAGE_BYTES, kind) {
            Ok(asked) => has_fetched |= asked,
            // This node leaves: who trapped has been killed.
            Err(Error::NotInitialized) => return has_fetched,
            Err(error) => end(&format!("it cannot get a page of a segment: {error}")),
        }
        site.usage.fault(runtime.area_at(place), kind);
        // What is behind it first: the thread goes on with the page that it waits for.
        for ahead in (0..pages).rev() {
            let address = fault.address + ahead * PAGE_BYTES;
            let place = place + ahead * PAGE_BYTES;
            let exported = runtime.while_here(place, kind, |here| {
                let fault = Fault { address, is_missing: fault.is_missing && ahead == 0, ..fault };
                let contents = || {
                    // What has come of another site is none, which the kernel need not be asked.
                    let is_hole = !(has_fetched && pages == 1) && here.is_hole();
                    if is_hole { page_copies::zeros() } else { here.contents().cast_const() }
                };
                site.exports.lock().export(key, fault, (place, contents))
            });
            match exported {
                // Another node was quicker.
                None => {}
                Some(Ok(())) if ahead == 0 => return has_fetched,
                Some(Ok(())) => {}
                Some(Err(errno)) => {
                    end(&format!("it has no memory for a page of a segment: {errno}"));
                }
            }
        }
    }
}
