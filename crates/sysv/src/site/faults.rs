//! Faults of processes: the site gets the page as any node does, and puts it into the export while it has it.

use multigrain_protocol::Kind;
use multigrain_runtime::Runtime;
use rustix::event::{PollFd, PollFlags, poll};

use super::Site;
use super::images::{Fault, ImageKey};

/// Serves an image until it is gone.
pub(super) fn serve(site: &'static Site, runtime: &'static Runtime, key: ImageKey) {
    // Once: looked up each time, a lock would be taken more.
    let Some((userfault, bell)) = site.exports.lock().ways_in(key) else { return };
    loop {
        let mut wanted =
            [PollFd::new(&userfault.0, PollFlags::IN), PollFd::new(&*bell, PollFlags::IN)];
        let _ = poll(&mut wanted, None);
        if !wanted[1].revents().is_empty() {
            let _ = rustix::io::read(&*bell, &mut [0; 8]);
        }
        let mut exports = site.exports.lock();
        let faults = exports.faults(key);
        let is_gone = exports.ways_in(key).is_none();
        drop(exports);
        site.pass_notes(runtime);
        if is_gone {
            return;
        }
        for fault in faults {
            resolve(site, runtime, key, fault);
        }
    }
}

fn resolve(site: &Site, runtime: &Runtime, key: ImageKey, fault: Fault) {
    let kind = if fault.writes { Kind::Write } else { Kind::Read };
    loop {
        let exports = site.exports.lock();
        let Some(place) = exports.place(key, fault.address) else {
            // Detached meanwhile: it finds out itself.
            return exports.wake(key, fault.address);
        };
        drop(exports);
        if let Err(error) = runtime.touch(place, 1, kind) {
            eprintln!("multigrain: {} cannot get a page of a segment: {error}", runtime.rank());
            return;
        }
        let exported = runtime.while_here(place, kind, |contents, _| {
            site.exports.lock().export(key, fault, contents)
        });
        match exported {
            // Another node was quicker.
            None => {}
            Some(Ok(())) => return,
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
