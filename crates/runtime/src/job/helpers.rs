//! The helper threads that every node has (`deadlines.rs` and `main_exit.rs` start one each when it is needed): one that starts others,
//! one that looks for deadlocks, one that makes posts of signals' handlers, one that ends windows, and where there are peers one
//! that receives while no other thread does, and in large jobs one that makes links when they are
//! first used.

#![expect(unsafe_code, reason = "a scheduling attribute of the kernel")]

use super::Runtime;
use crate::deadlock;
use crate::driver::Driver;
use crate::error::Error;
use crate::pthread;

/// A helper: its name, and what it does until this node leaves.
type Helper = (&'static str, fn(&Driver));

/// What has to run soon after it wakes: the first only where there are peers.
const HELPERS: [Helper; 2] =
    [("mg-service", Driver::serve_peers), ("mg-windows", Driver::keep_time)];

/// Starts them.
///
/// # Errors
/// [`Error::System`] if a thread cannot be started.
pub(super) fn start(runtime: &'static Runtime) -> Result<(), Error> {
    let driver = &runtime.driver;
    let threads = &runtime.services.threads;
    let starts = threads.open();
    let started = spawn(driver, "mg-start", move || threads.start_as_asked(driver, &starts));
    let watches = spawn(driver, "mg-watch", move || deadlock::watch(driver, threads));
    let sync = &runtime.sync;
    let posts = spawn(driver, "mg-posts", || {
        sync.later_posts.keep_making(|id, count| sync.post_late(driver, id, count))
    });
    if posts.is_ok() {
        sync.later_posts.await_helper();
    }
    let mut helpers = vec![started, watches, posts];
    let alone = usize::from(driver.nodes() == 1);
    helpers.extend(HELPERS[alone..].iter().map(|&(name, run)| {
        spawn(driver, name, move || {
            prefer_latency();
            run(driver);
        })
    }));
    if driver.mesh().makes_links() {
        helpers.push(spawn(driver, "mg-links", || driver.make_links()));
    }
    helpers.into_iter().collect()
}

/// One thread of the runtime's own on this node.
fn spawn(
    driver: &'static Driver,
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), Error> {
    driver.has_helper();
    pthread::spawn_helper(name, move || {
        run();
        // The main thread's end, after this node has left, is noticed by the number of threads.
        driver.helper_ends();
    })
}

/// Short slices make the scheduler run a helper soon after it wakes, before a thread that
/// computes (EEVDF: an earlier deadline).
fn prefer_latency() {
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    const SLICE_NS: u64 = 100_000;
    let size = u32::try_from(size_of::<SchedAttr>()).unwrap_or(0);
    let attr = SchedAttr {
        size,
        policy: 0,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attr` is a valid sched_attr of the size it states; older kernels refuse it, which
    // leaves the thread as it was.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}
