//! The helper threads that every node has (`deadlines.rs` and `main_exit.rs` start one each when it is needed): one that starts others,
//! one that looks for deadlocks, one that makes posts of signals' handlers, one that ends windows, and where there are peers one
//! that receives while no other thread does, and in large jobs one that makes links when they are
//! first used.

use super::Runtime;
use crate::deadlock;
use crate::driver::Driver;
use crate::error::Error;
use crate::pthread;
use crate::time_slice;

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
        sync.deferred_posts.keep_making(|id, count| sync.post_late(driver, id, count))
    });
    if posts.is_ok() {
        sync.deferred_posts.await_helper();
    }
    let mut helpers = vec![started, watches, posts];
    let alone = usize::from(driver.nodes() == 1);
    helpers.extend(HELPERS[alone..].iter().map(|&(name, run)| {
        spawn(driver, name, move || {
            let _ = time_slice::be_short();
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
