//! A signal's handler posts a semaphore every so often, wherever it has interrupted its thread.

#![expect(unsafe_code, reason = "a handler, a timer, and the mask of a thread")]

use core::ffi::c_int;
use core::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use multigrain::{Grain, Job, Mutex, On, Result, Semaphore, SharedSlice};

use super::support::{Setting, TestDir, run_well};
use super::{NODE_ARGUMENT, Scenario, as_program, launcher};

const ROUNDS: usize = 2000;

pub(super) const SCENARIOS: &[(&str, Scenario)] =
    &[("calls are interrupted", calls), ("all is interrupted", all)];

/// Where a handler finds the job, while the timer runs.
static JOB: AtomicPtr<Job> = AtomicPtr::new(ptr::null_mut());
static POSTED: AtomicU64 = AtomicU64::new(0);

fn of_node(job: &Job) -> Semaphore<'_> {
    job.semaphore(60 + u32::try_from(job.node()).unwrap())
}

fn post(by: fn(Semaphore<'_>, u32) -> Result<()>) {
    // SAFETY: the job is there while the timer runs.
    let job = unsafe { JOB.load(Ordering::SeqCst).as_ref() };
    if job.is_some_and(|job| by(of_node(job), 1).is_ok()) {
        POSTED.fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn post_in_calls(_: c_int) {
    post(|units, count| units.post(count));
}

extern "C" fn post_anywhere(_: c_int) {
    post(|units, count| units.post_from_handler(count));
}

/// SIGALRM each so many microseconds; 0 is never.
fn alarm_each(period_us: i64) {
    let period = libc::timeval { tv_sec: 0, tv_usec: period_us };
    let timer = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: a valid structure.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) }, 0);
}

/// `SIG_BLOCK` or `SIG_UNBLOCK` of SIGALRM in the calling thread.
fn mask(how: c_int) {
    // SAFETY: all-zero bytes are a set.
    let mut alarms: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: a valid set.
    unsafe { libc::sigaddset(&raw mut alarms, libc::SIGALRM) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_sigmask(how, &raw const alarms, ptr::null_mut()) }, 0);
}

/// Runs `body` with this handler for a signal each so many microseconds, and takes all that it has posted.
fn interrupted(
    job: &Job,
    (handler, period_us): (extern "C" fn(c_int), i64),
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    JOB.store(ptr::from_ref(job).cast_mut(), Ordering::SeqCst);
    // SAFETY: the handler has this signature.
    unsafe { libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t) };
    alarm_each(period_us);
    body()?;
    alarm_each(0);
    let posted = POSTED.load(Ordering::SeqCst);
    assert!(posted > 10, "{posted}");
    for _ in 0..posted {
        assert!(of_node(job).wait_for(Duration::from_secs(20))?, "all of them come");
    }
    job.barrier(0)
}

/// What allocates is inside of the crate's calls.
fn calls(job: &Job) -> Result<()> {
    let count: Mutex<usize> = job.share("count", || Mutex::new(job, 0))?;
    interrupted(job, (post_in_calls, 200), || {
        for round in 0..ROUNDS {
            *count.lock()? += 1;
            let block: SharedSlice<'_, u8> = job.alloc_slice(100 + round, Grain::Auto)?;
            block.set(round, 1);
            // SAFETY: nobody else knows it.
            unsafe { block.free() }?;
        }
        Ok(())
    })?;
    assert_eq!(*count.lock()?, ROUNDS * job.nodes());
    job.barrier(0)
}

/// The program's own allocations, and threads that begin and end. The main thread lets signals through where it starts one, for
/// that has its mask.
fn all(job: &Job) -> Result<()> {
    let count: Mutex<usize> = job.share("count", || Mutex::new(job, 0))?;
    let written = job.alloc_slice::<u64>(ROUNDS, Grain::Auto)?;
    let work =
        |_: &Job, (count, place): (Mutex<'_, usize>, multigrain::Shared<'_, u64>)| -> usize {
            let held = (0..300).map(|number| vec![1_u8; number]).collect::<Vec<_>>();
            *count.lock().unwrap() += 1;
            place.set(1);
            held.into_iter().map(|each| each.len()).sum()
        };
    mask(libc::SIG_BLOCK);
    interrupted(job, (post_anywhere, 100), || {
        for round in 0..ROUNDS / 4 {
            mask(libc::SIG_UNBLOCK);
            job.scope(|scope| {
                let here = On::Node(job.node());
                let thread = scope.spawn(here, work, (count, written.at(round)))?;
                mask(libc::SIG_BLOCK);
                assert_eq!(thread.join()?, 299 * 300 / 2);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    assert_eq!(*count.lock()?, ROUNDS / 4 * job.nodes());
    job.barrier(0)
}

/// Its thread had the lock that the post needed, or was in its allocator, and stood for ever.
pub(super) fn a_handler_posts_a_semaphore_wherever_it_has_interrupted_its_thread() {
    let dir = TestDir::new();
    let program = as_program(&dir);
    for (name, _) in SCENARIOS {
        for consistency in ["sequential", "lazy-release", "auto"] {
            for nodes in [1, 2] {
                let setting = Setting { consistency, ..Setting::nodes(nodes) };
                run_well(&launcher(), &setting, &program, &[NODE_ARGUMENT, name]);
            }
        }
    }
}
