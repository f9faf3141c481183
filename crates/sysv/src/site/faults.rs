//! Faults of processes: the site gets the page as any node does, and puts it into the export while it has it.

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

/// Serves an image until it is gone.
pub(super) fn serve(site: &'static Site, runtime: &'static Runtime, key: ImageKey) {
    // Once: looked up each time, a lock would be taken more.
    let Some((userfault, eventfd)) = site.exports.lock().descriptors_of(key) else { return };
    // When the last fault was served, and whether it came soon after the one before.
    let mut served: Option<Instant> = None;
    let mut in_streak = false;
    loop {
        let mut exports = site.exports.lock();
        let faults = exports.faults(key);
        let has_notifications = exports.has_notifications();
        drop(exports);
        if has_notifications {
            site.pass_notifications(runtime);
        }
        let Some(faults) = faults else { return };
        if !faults.is_empty() {
            in_streak = served.is_some_and(|at| at.elapsed() < 2 * STREAK);
            for fault in faults {
                resolve(site, runtime, key, fault);
            }
            served = Some(Instant::now());
        } else if in_streak && served.is_some_and(|at| at.elapsed() < STREAK) {
            rustix::thread::sched_yield();
        } else {
            in_streak = false;
            let mut wanted =
                [PollFd::new(&userfault.0, PollFlags::IN), PollFd::new(&*eventfd, PollFlags::IN)];
            let _ = poll(&mut wanted, None);
            if !wanted[1].revents().is_empty() {
                let _ = rustix::io::read(&*eventfd, &mut [0; 8]);
            }
        }
    }
}

fn resolve(site: &Site, runtime: &Runtime, key: ImageKey, fault: Fault) {
    let kind = if fault.writes { Kind::Write } else { Kind::Read };
    loop {
        let found = site.exports.lock().place(key, fault);
        let Some((place, pages)) = found else {
            // Detached meanwhile: it finds out itself.
            return site.exports.lock().wake(key, fault.address);
        };
        match runtime.touch(place, pages * PAGE_BYTES, kind) {
            Ok(_) => {}
            // This node leaves: who trapped has been killed.
            Err(Error::NotInitialized) => return,
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
                    if here.is_hole() { page_copies::zeros() } else { here.contents().cast_const() }
                };
                site.exports.lock().export(key, fault, (place, contents))
            });
            match exported {
                // Another node was quicker.
                None => {}
                Some(Ok(())) if ahead == 0 => return,
                Some(Ok(())) => {}
                Some(Err(errno)) => {
                    end(&format!("it has no memory for a page of a segment: {errno}"));
                }
            }
        }
    }
}
