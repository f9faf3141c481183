//! Faults of processes: the site gets the page as any node does, and puts it into the export while it has it.

use std::time::{Duration, Instant};

use multigrain_protocol::Kind;
use multigrain_runtime::Runtime;
use multigrain_types::PAGE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Site;
use super::images::{Fault, ImageKey};

/// Faults that follow each other so quickly are awaited without sleeping, for as long at most: a wake-up on another processor
/// takes as long as several faults.
const STREAK: Duration = Duration::from_micros(60);
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Serves an image until it is gone.
pub(super) fn serve(site: &'static Site, runtime: &'static Runtime, key: ImageKey) {
    // Once: looked up each time, a lock would be taken more.
    let Some((userfault, eventfd)) = site.exports.lock().descriptors_of(key) else { return };
    let mut served: Option<Instant> = None;
    let mut in_streak = false;
    loop {
        let mut wanted =
            [PollFd::new(&userfault.0, PollFlags::IN), PollFd::new(&*eventfd, PollFlags::IN)];
        let ends = served.filter(|_| in_streak).map(|at| at + STREAK);
        while !matches!(poll(&mut wanted, Some(&AT_ONCE)), Ok(1..)) {
            if ends.is_none_or(|ends| Instant::now() > ends) {
                let _ = poll(&mut wanted, None);
                break;
            }
            rustix::thread::sched_yield();
        }
        in_streak = served.is_some_and(|at| at.elapsed() < 2 * STREAK);
        if !wanted[1].revents().is_empty() {
            let _ = rustix::io::read(&*eventfd, &mut [0; 8]);
        }
        let mut exports = site.exports.lock();
        let faults = exports.faults(key);
        let is_gone = exports.descriptors_of(key).is_none();
        drop(exports);
        site.pass_notifications(runtime);
        if is_gone {
            return;
        }
        let any = !faults.is_empty();
        for fault in faults {
            resolve(site, runtime, key, fault);
        }
        served = any.then(Instant::now);
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
        if let Err(error) = runtime.touch(place, pages * PAGE_BYTES, kind) {
            eprintln!("multigrain: {} cannot get a page of a segment: {error}", runtime.rank());
            return;
        }
        site.usage.fault(runtime.area_at(place), kind);
        // What is behind it first: the thread goes on with the page that it waits for.
        for ahead in (0..pages).rev() {
            let address = fault.address + ahead * PAGE_BYTES;
            let place = place + ahead * PAGE_BYTES;
            let exported = runtime.while_here(place, kind, |contents, _| {
                let fault = Fault { address, ..fault };
                site.exports.lock().export(key, fault, (place, contents.cast_const()))
            });
            match exported {
                // Another node was quicker.
                None => {}
                Some(Ok(())) if ahead == 0 => return,
                Some(Ok(())) => {}
                Some(Err(errno)) => {
                    eprintln!(
                        "multigrain: {} has no memory for a page of a segment: {errno}",
                        runtime.rank()
                    );
                    return;
                }
            }
        }
    }
}
