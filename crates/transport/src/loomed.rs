//! The marks of kept frames under loom: every order of two threads' steps, and every value that the
//! C11 memory model lets a load return. Tests, and a tool that shall find mutants.

#![allow(clippy::unwrap_used, reason = "a scene may panic, as a test may")]

mod shim {
    pub(super) use loom::sync::atomic::AtomicU64;
}
#[path = "kept.rs"]
#[allow(clippy::duplicate_mod, reason = "once for nodes, once for loom")]
mod marks;

use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use marks::Kept;

/// All scenes, by name.
#[cfg(feature = "mutants")]
pub const SCENES: [(&str, fn()); 3] = [
    (
        "who keeps a frame and sends what is kept leaves none behind",
        who_keeps_a_frame_and_sends_what_is_kept_leaves_none_behind,
    ),
    (
        "a frame that goes with another and one kept behind it are both sent",
        a_frame_that_goes_with_another_and_one_kept_behind_it_are_both_sent,
    ),
    ("who is told of a kept frame sends it", who_is_told_of_a_kept_frame_sends_it),
];

/// Links with frames that wait for company, as the mesh has them.
struct Mesh {
    kept: Kept,
    links: [Mutex<Frames>; 2],
}

#[derive(Default)]
struct Frames {
    waiting: u32,
    sent: u32,
}

impl Mesh {
    fn new() -> Self {
        Self { kept: Kept::new(2), links: Default::default() }
    }

    fn link(&self, link: usize) -> MutexGuard<'_, Frames> {
        self.links[link].lock().expect("no thread has panicked")
    }

    fn keep(&self, link: usize) {
        self.link(link).waiting += 1;
        self.kept.mark(link);
    }

    /// A frame that takes those along which wait.
    fn send(&self, link: usize) {
        let mut frames = self.link(link);
        frames.sent += core::mem::take(&mut frames.waiting) + 1;
    }

    fn send_lazy(&self) {
        self.kept.take(|link| {
            let mut frames = self.link(link);
            frames.sent += core::mem::take(&mut frames.waiting);
        });
    }

    fn sent(&self, link: usize) -> u32 {
        self.link(link).sent
    }
}

#[cfg_attr(test, test)]
fn who_keeps_a_frame_and_sends_what_is_kept_leaves_none_behind() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let other = Arc::clone(&mesh);
        let other = thread::spawn(move || {
            other.keep(0);
            other.send_lazy();
        });
        mesh.keep(0);
        mesh.keep(1);
        mesh.send_lazy();
        other.join().unwrap();
        assert_eq!((mesh.sent(0), mesh.sent(1)), (2, 1));
    });
}

#[cfg_attr(test, test)]
fn a_frame_that_goes_with_another_and_one_kept_behind_it_are_both_sent() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let other = Arc::clone(&mesh);
        let other = thread::spawn(move || {
            other.send(0);
            other.keep(0);
            other.send_lazy();
        });
        mesh.keep(0);
        mesh.send_lazy();
        other.join().unwrap();
        assert_eq!(mesh.sent(0), 3);
    });
}

#[cfg_attr(test, test)]
fn who_is_told_of_a_kept_frame_sends_it() {
    loom::model(|| {
        let mesh = Arc::new(Mesh::new());
        let told = Arc::new(Mutex::new(false));
        let (other, tell) = (Arc::clone(&mesh), Arc::clone(&told));
        let keeper = thread::spawn(move || {
            other.keep(0);
            *tell.lock().unwrap() = true;
        });
        let told = *told.lock().unwrap();
        mesh.send_lazy();
        if told {
            assert_eq!(mesh.sent(0), 1);
        }
        keeper.join().unwrap();
    });
}
