//! Parking under loom: every order of the threads' steps, and every value that the C11 memory model
//! lets a load return. A thread that parks and is never nudged is found as a deadlock. Used as tests, and
//! against the mutants.

#![allow(clippy::unwrap_used, reason = "a scene may panic, as a test may")]

mod shim {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};
    use loom::sync::{Condvar, Mutex, MutexGuard};
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering;

    loom::lazy_static! {
        /// The kernel's lock of the words that threads sleep on.
        static ref BUCKET: Mutex<()> = Mutex::new(());
        static ref CHANGE: Condvar = Condvar::new();
    }

    fn bucket() -> MutexGuard<'static, ()> {
        BUCKET.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn futex_wait(word: &AtomicU32, expected: u32) {
        let held = bucket();
        if word.load(Ordering::Relaxed) == expected {
            drop(CHANGE.wait(held));
        }
    }

    pub(super) fn futex_wake(_: &AtomicU32) {
        drop(bucket());
        CHANGE.notify_all();
    }
}
#[path = "receiver/parking.rs"]
#[expect(dead_code, reason = "what is particular to sleeping in the mesh")]
#[allow(clippy::duplicate_mod, reason = "once for nodes, once for loom")]
mod protocol;

use loom::sync::Arc;
use loom::thread;
use protocol::{Role, WAITING, Waking, Word};
use shim::AtomicU32;

/// All scenes, by name.
#[cfg(feature = "mutants")]
pub const SCENES: [(&str, fn()); 2] = [
    (
        "who parks while the role is given back gets it",
        who_parks_while_the_role_is_given_back_gets_it,
    ),
    (
        "a nudge of a thread that is woken then is passed on",
        a_nudge_of_a_thread_that_is_woken_then_is_passed_on,
    ),
];

/// Times the scheduler may preempt a thread that could go on.
const PREEMPTIONS: usize = 2;

struct Node {
    role: Role,
    words: [Word; 2],
}

impl Node {
    /// A node whose first thread receives, and whose others wait.
    fn receiving() -> Self {
        let node =
            Self { role: Role::default(), words: [0; 2].map(|_| Word(AtomicU32::new(WAITING))) };
        assert!(node.role.try_take());
        node
    }

    fn nudge_one(&self) {
        let _ = self.words.iter().any(Word::nudge);
    }

    fn give_back(&self, known: usize) {
        self.role.give_back();
        if self.role.waits_for_more_than(known) {
            self.nudge_one();
        }
    }

    /// What a thread waits for comes when it receives, or from another thread of the node.
    fn wait(&self, number: usize) {
        let word = &self.words[number];
        let receive = || {
            assert_eq!(word.wake(true), Waking::Done);
            self.give_back(1);
        };
        self.role.wait(word, receive, || self.role.park(word), || self.nudge_one());
        assert!(word.is_woken());
    }
}

fn explore(scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(scene);
}

#[cfg_attr(test, test)]
fn who_parks_while_the_role_is_given_back_gets_it() {
    explore(|| {
        let node = Arc::new(Node::receiving());
        let other = Arc::clone(&node);
        let waiter = thread::spawn(move || other.wait(0));
        node.give_back(0);
        waiter.join().unwrap();
    });
}

#[cfg_attr(test, test)]
fn a_nudge_of_a_thread_that_is_woken_then_is_passed_on() {
    explore(|| {
        let node = Arc::new(Node::receiving());
        let waiters = [0, 1].map(|number| {
            let node = Arc::clone(&node);
            thread::spawn(move || node.wait(number))
        });
        node.give_back(0);
        // An unlock, say, by the thread that has received.
        assert_eq!(node.words[0].wake(false), Waking::Done);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}
