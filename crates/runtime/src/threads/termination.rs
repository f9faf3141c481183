//! How a thread of the program begins, and how it ends: by its function's return, by `pthread_exit` or by cancellation.
//! What it still holds then is named by `driver/live_threads.rs`.
//!
//! The last two unwind the stack past this file (no frame of it has anything to drop by then). All three run
//! the program's destructors of thread-local objects and of thread-specific data, which may use shared memory:
//! who joins the thread is to see what they wrote. So the end is told by the last of them: the C library calls
//! the destructors of values in rounds, again for those that were set anew, and the slot's, which calls
//! [`destructors_run`], sets its own anew until the last round. Only the C library knows the value
//! given to `pthread_exit`, and tells it to the thread that joins: the starter.

#![expect(unsafe_code, reason = "threads of the C library, which end as C allows")]

use core::cell::Cell;
use core::ffi::c_void;

use super::Threads;
use crate::driver::Driver;
use crate::frames::Asker;
use crate::program::ThreadFunction;
use crate::pthread;
use crate::receiver::slots::{Reserved, Round};
use crate::signal_reentrancy::Inside;
use crate::signals::{Set, SignalMask};
use crate::uncancellable::Uncancellable;

/// A thread of the program that runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    threads: &'static Threads,
    driver: &'static Driver,
    number: u64,
    /// Whom it tells that it has begun, if all nodes stay until it has ended.
    stays_for: Option<Asker>,
    /// What its function has returned, if it has.
    returned: Option<u64>,
    /// Rounds of destructors that have begun.
    rounds: u32,
}

/// The round of destructors in which a thread tells its end: the last of the C library
/// (`PTHREAD_DESTRUCTOR_ITERATIONS`). ThreadSanitizer takes a thread down in that one.
const LAST_ROUND: u32 = if cfg!(feature = "tsan") { 3 } else { 4 };

/// A thread that has ended, or is about to, and is joined by [`EndedThread::result`].
#[derive(Debug)]
pub(crate) struct EndedThread {
    number: u64,
    thread: libc::pthread_t,
}

/// What a thread begins with.
struct Beginning {
    life: Life,
    slot: Reserved,
    mask: Set,
    function: ThreadFunction,
    argument: u64,
}

/// The function, as it is: it may end its thread.
type Unwinding = extern "C-unwind" fn(u64) -> u64;

std::thread_local! {
    /// The calling thread's; none once it has told its end. Constant and without destructor.
    static LIFE: Cell<Option<Life>> = const { Cell::new(None) };
}

impl Life {
    pub(super) fn new(
        (threads, driver): (&'static Threads, &'static Driver),
        number: u64,
        stays_for: Option<Asker>,
    ) -> Self {
        Self { threads, driver, number, stays_for, returned: None, rounds: 0 }
    }

    /// Its thread begins.
    ///
    /// # Errors
    /// The system's error number.
    pub(super) fn begin(
        self,
        (slot, mask): (Reserved, Set),
        (function, argument): (ThreadFunction, u64),
        stack_bytes: Option<usize>,
    ) -> Result<(), i32> {
        let beginning =
            Box::into_raw(Box::new(Beginning { life: self, slot, mask, function, argument }));
        // SAFETY: `run` takes over what it is given.
        let created = unsafe { pthread::create(run, beginning.cast::<c_void>(), stack_bytes) };
        created.map(drop).inspect_err(|_| {
            // SAFETY: no thread has it.
            drop(unsafe { Box::from_raw(beginning) });
        })
    }
}

/// The thread's first function. While the program's runs, nothing here has anything to drop.
unsafe extern "C-unwind" fn run(beginning: *mut c_void) -> *mut c_void {
    let (function, argument) = enter(beginning.cast::<Beginning>());
    let result = function(argument);
    returns(result);
    core::ptr::null_mut()
}

#[inline(never)]
fn enter(beginning: *mut Beginning) -> (Unwinding, u64) {
    // SAFETY: `Life::begin` has made it, for this thread alone.
    let Beginning { life, slot, mask, function, argument } = *unsafe { Box::from_raw(beginning) };
    slot.adopt();
    LIFE.set(Some(life));
    pthread::name_own(&format!("mg-{}", life.number));
    life.threads.has_begun(life.driver, life.number, life.stays_for);
    // SAFETY: the two differ in what Rust assumes of unwinding alone.
    let function = unsafe { core::mem::transmute::<ThreadFunction, Unwinding>(function) };
    // The starter blocks all signals; a thread of the program must not. Last: a handler finds nothing of this begun.
    SignalMask::inherit(mask);
    (function, argument)
}

/// The thread's function has returned. As with one that ends otherwise, nothing cancels it in a destructor any more: the
/// C library would begin with the destructors anew, and leave out those that it has not come to, this library's among
/// them, and nobody would learn of the end.
#[inline(never)]
fn returns(result: u64) {
    core::mem::forget(Uncancellable::new());
    LIFE.set(LIFE.get().map(|life| Life { returned: Some(result), ..life }));
}

/// A thread with a slot ends, and a round of destructors has come to the slot's. One of the program's tells its
/// end in [`LAST_ROUND`].
pub(crate) fn destructors_run() -> Round {
    let Some(life) = LIFE.take() else { return Round::Last };
    let life = Life { rounds: life.rounds + 1, ..life };
    if life.rounds < LAST_ROUND {
        LIFE.set(Some(life));
        return Round::Another;
    }
    let Life { threads, driver, number, stays_for, returned, .. } = life;
    threads.has_ended(driver, number, stays_for.is_some());
    match returned {
        Some(result) => {
            pthread::detach_own();
            threads.tell_end(driver, number, result);
        }
        None => threads.ends_with(EndedThread { number, thread: pthread::own() }),
    }
    // For good: nobody would give back what a post allocated in a handler from now on.
    core::mem::forget(Inside::new());
    Round::Last
}

impl EndedThread {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for its end, which is near: what is left are hooks of the program's own. Its result.
    pub(super) fn result(self) -> u64 {
        // SAFETY: made by `Life::begin`, not detached, and `EndedThread` exists once.
        let result = unsafe { pthread::join(self.thread) };
        result.expose_provenance() as u64
    }
}
