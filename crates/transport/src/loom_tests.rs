//! The set of peers with deferred frames under loom: every order of two threads' steps, and every value that the
//! C11 memory model lets a load return. Tests, and a tool that shall find mutants.

#![allow(clippy::unwrap_used, reason = "a scene may panic, as a test may")]

mod shim {
    pub(super) use loom::sync::atomic::AtomicU64;
}
#[path = "mesh/atomic_peer_set.rs"]
#[allow(clippy::duplicate_mod, reason = "once for nodes, once for loom")]
mod atomic_peer_set;

use atomic_peer_set::AtomicPeerSet;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

/// All scenes, by name.
#[cfg(feature = "mutants")]
pub const SCENES: [(&str, fn()); 3] = [
    (
        "who defers a frame and flushes leaves none behind",
        who_defers_a_frame_and_flushes_leaves_none_behind,
    ),
    (
        "a frame that goes with another and one deferred behind it are both sent",
        a_frame_that_goes_with_another_and_one_deferred_behind_it_are_both_sent,
    ),
    ("who is told of a deferred frame sends it", who_is_told_of_a_deferred_frame_sends_it),
];

/// Peers with deferred frames, as the mesh has them.
struct Mesh {
    deferred: AtomicPeerSet,
    links: [Mutex<Frames>; 2],
}

#[derive(Default)]
struct Frames {
    waiting: u32,
    sent: u32,
}

impl Mesh {
    fn new() -> Self {
        Self { deferred: AtomicPeerSet::new(2), links: Default::default() }
    }

    fn link(&self, link: usize) -> MutexGuard<'_, Frames> {
        self.links[link].lock().expect("no thread has panicked")
    }

    fn defer(&self, link: usize) {
        self.link(link).waiting += 1;
        self.deferred.insert(link);
    }

    /// A frame that takes those along which wait.
    fn send(&self, link: usize) {
        let mut frames = self.link(link);
        frames.sent += core::mem::take(&mut frames.waiting) + 1;
    }

    fn flush_deferred(&self) {
        self.deferred.take(|link| {
            let mut frames = self.link(link);
            frames.sent += core::mem::take(&mut frames.waiting);
        });
    }

    fn sent(&self, link: usize) -> u32 {
        self.link(link).sent
    }
}

#[cfg_attr(test, test)]
fn who_defers_a_frame_and_flushes_leaves_none_behind() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let other = Arc::clone(&mesh);
        let other = thread::spawn(move || {
            other.defer(0);
            other.flush_deferred();
        });
        mesh.defer(0);
        mesh.defer(1);
        mesh.flush_deferred();
        other.join().unwrap();
        assert_eq!((mesh.sent(0), mesh.sent(1)), (2, 1));
    });
}

#[cfg_attr(test, test)]
fn a_frame_that_goes_with_another_and_one_deferred_behind_it_are_both_sent() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let other = Arc::clone(&mesh);
        let other = thread::spawn(move || {
            other.send(0);
            other.defer(0);
            other.flush_deferred();
        });
        mesh.defer(0);
        mesh.flush_deferred();
        other.join().unwrap();
        assert_eq!(mesh.sent(0), 3);
    });
}

#[cfg_attr(test, test)]
fn who_is_told_of_a_deferred_frame_sends_it() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let told = Arc::new(Mutex::new(false));
        let (other, tell) = (Arc::clone(&mesh), Arc::clone(&told));
        let other_thread = thread::spawn(move || {
            other.defer(0);
            *tell.lock().unwrap() = true;
        });
        let told = *told.lock().unwrap();
        mesh.flush_deferred();
        if told {
            assert_eq!(mesh.sent(0), 1);
        }
        other_thread.join().unwrap();
    });
}
