//! A node of a job: its services put together, joining and leaving.
//!
//! [`Runtime`] is what the interfaces of all languages call. Most calls belong to one service, which documents
//! them. Here is what orders several: a barrier is followed by prefetches, and leaving waits for all nodes.

mod boot;
mod calls;
mod departure;
mod helpers;
mod main_exit;
mod named_segments;
mod services;
mod sysv_sites;

use core::ops::Deref;
use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use multigrain_memory::{GuardKind, Memory, SegmentId};
use multigrain_protocol::sync::Element;
use multigrain_transport::Mesh;
use multigrain_types::control::{Count, Message};
use multigrain_types::{NodeId, ThreadId};

use crate::collective::{Collective, Combine, Party, can_all_come};
use crate::config::{Config, misspelt, nodes_of_nobody};
use crate::directory::Directory;
use crate::directory::names::Names;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::Error;
use crate::heap::Heap;
use crate::launcher::Launcher;
use crate::named_segments::NamedSegments;
use crate::platform::Platform;
use crate::prefetch::Prefetcher;
use crate::program::Program;
use crate::receiver::Receiver;
use crate::receiver::slots::{self, Slot};
use crate::shim::AtomicU64;
use crate::signal_reentrancy::{Inside, Outside};
use crate::state_tables::SharedTables;
use crate::stats::Stats;
use crate::sync::{LEAVING_BARRIER, SyncId, Synchronization, of_program};
use crate::threads::{self, Threads};
use crate::time_windows::now_ns;
use crate::{
    child, closed_descriptors, interposed_close, out_of_memory, process_manager, secret, trap,
};
use rustix::process::getpid;
use services::{NodeServices, Shared};
pub use sysv_sites::{Here, SiteHandler};

/// How long a leaving node waits for goodbyes while nothing comes or goes; all have passed the barrier.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(10);

/// A node of a job.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) driver: Driver,
    services: Arc<NodeServices>,
    prefetcher: Prefetcher,
    sync: Synchronization,
    /// The tenth of a second at which the launcher was told of progress last.
    progress: AtomicU64,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// This process's runtime.
///
/// # Errors
/// [`Error::NotInitialized`] before [`Runtime::join`] and after [`Runtime::leave`], [`Error::Child`] in a
/// child.
pub fn runtime() -> Result<Entered, Error> {
    let Some(runtime) = RUNTIME.get() else { return Err(Error::NotInitialized) };
    runtime.member().map(|_| runtime.enter())
}

/// The runtime, and that the calling thread is inside of it until this is dropped.
#[derive(Debug)]
pub struct Entered {
    runtime: &'static Runtime,
    _inside: Inside,
}

impl Deref for Entered {
    type Target = &'static Runtime;

    fn deref(&self) -> &Self::Target {
        &self.runtime
    }
}

/// A thread of this process, or one that was to run, ends.
fn thread_ends(thread: ThreadId, slot: &Slot) {
    if let Ok(runtime) = runtime() {
        runtime.driver.end(thread, slot);
    }
}

impl Runtime {
    /// Joins the job that the environment describes.
    ///
    /// # Errors
    /// [`Error::AlreadyInitialized`]; a wrong environment; no guard; missing peers; in a child,
    /// [`Error::Child`].
    pub fn join() -> Result<&'static Runtime, Error> {
        let _inside = Inside::new();
        /// Held by the thread that joins.
        static JOINS: std::sync::Mutex<()> = std::sync::Mutex::new(());
        child::refuse()?;
        let joins = JOINS.try_lock();
        if RUNTIME.get().is_some() || joins.is_err() {
            return Err(Error::AlreadyInitialized);
        }
        out_of_memory::joins();
        let config = Config::from_environment();
        let config =
            config.and_then(|config| process_manager::join(config, &|name| std::env::var_os(name)));
        secret::leave_environment();
        let config = config?;
        RUNTIME.set(Self::new(&config)?).map_err(|_| Error::AlreadyInitialized)?;
        let runtime = RUNTIME.get().ok_or(Error::NotInitialized)?;
        main_exit::watch_main_thread()?;
        slots::prepare(threads::destructors_run, thread_ends).map_err(|errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            Error::System(format!("no pthread key is left for the ends of threads: {error}"))
        })?;
        interposed_close::keep(&runtime.driver.engine().descriptors());
        child::keep_outside(runtime.rank())?;
        #[cfg(all(target_env = "gnu", not(miri), not(feature = "tsan")))]
        crate::interposed_mprotect::keep(runtime.driver.memory(), runtime.launcher());
        trap::install(&runtime.driver, &runtime.prefetcher)?;
        helpers::start(runtime)?;
        slots::has_joined(now_ns());
        boot::compare_builds(&runtime.driver, &config.launch.programs)?;
        runtime.launcher().tell(&Message::<&str>::Ready);
        Ok(runtime)
    }

    /// Tells the launcher of a [`Runtime::join`] that has failed, which has one line for all nodes that say the same; false where
    /// the program has to say it, and no other node has.
    #[must_use]
    pub fn tell_of(error: &Error) -> bool {
        let of_this_join = !matches!(error, Error::AlreadyInitialized | Error::Child(_));
        let told = |launcher: &Launcher| of_this_join && launcher.not_joined(error);
        error.is_said() || Launcher::of_this_node().is_some_and(told)
    }

    fn new(config: &Config) -> Result<Self, Error> {
        let secret = config.launch.secret_to_join()?;
        let control = boot::control(config)?;
        out_of_memory::belongs_to(config.rank, control);
        let launcher = Launcher::new(config.rank, control);
        launcher.serves_this_node();
        closed_descriptors::end_this_node();
        // One node says so for all: their settings are the same.
        if config.rank == NodeId(0) {
            let names = std::env::vars_os().map(|(name, _)| name);
            let of_nobody = nodes_of_nobody(&|name| std::env::var_os(name));
            let of_nobody = of_nobody.filter(|_| config.launch.peers.len() <= 1);
            misspelt(names).iter().chain(&of_nobody).for_each(|line| launcher.note(line));
        }
        let memory = Memory::new(&config.memory)?;
        let nodes = u16::try_from(config.launch.peers.len().max(1)).map_err(|_| {
            Error::Limit(format!("{} nodes are too many", config.launch.peers.len()))
        })?;
        let pid = getpid().as_raw_nonzero().get();
        launcher.tell(&Message::<&str>::Joining { pid });
        let mesh = match nodes {
            1 => {
                drop(boot::listeners(config)?);
                Mesh::single()
            }
            _ => boot::boot_mesh(config, secret, &launcher)?,
        };
        Self::assemble(config, nodes, memory, mesh, control)
    }

    /// A node of these parts.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn assemble(
        config: &Config,
        nodes: u16,
        memory: Memory,
        mesh: Mesh,
        control: Option<BorrowedFd<'static>>,
    ) -> Result<Self, Error> {
        let me = config.rank;
        let tables = SharedTables::new(me, nodes).with_tracking(memory.tracks());
        let launcher = Launcher::new(me, control).with_parent(config.launch.parent);
        let platform = Platform::new((me, nodes), memory, mesh, tables, launcher);
        let (check_races, sharing) = (config.check_races && nodes > 1, config.sharing && nodes > 1);
        let engine = Engine::new(platform, check_races, sharing)?;
        let services = Arc::new(NodeServices {
            directory: Directory::default(),
            names: Names::default(),
            heap: Heap::new(engine.platform().memory().policy(SegmentId::FIRST)),
            segments: NamedSegments::default(),
            threads: Threads::new(Program::of_this_process(), config.launch.programs.clone()),
            departure: departure::Departure::default(),
        });
        let shared = Box::new(Shared(Arc::clone(&services)));
        Ok(Self {
            driver: Driver::new(engine, Receiver::new(config.wait, config.service), shared),
            services,
            prefetcher: Prefetcher::new(config.learn && nodes > 1),
            sync: Synchronization::new(config.threads.max(1)),
            progress: AtomicU64::new(0),
        })
    }

    #[cfg(all(test, not(miri), not(feature = "shuttle")))]
    pub(crate) fn threads(&self) -> &Threads {
        &self.services.threads
    }

    /// For a call of the program.
    pub fn enter(&'static self) -> Entered {
        Entered { runtime: self, _inside: Inside::new() }
    }

    /// What the calls of a program need; a process outside of a job does not have it.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] after [`Runtime::leave`], [`Error::Child`] in a child.
    fn member(&self) -> Result<&Driver, Error> {
        let driver = &self.driver;
        child::refuse()?;
        if driver.membership().is_member() { Ok(driver) } else { Err(Error::NotInitialized) }
    }

    fn launcher(&self) -> &Launcher {
        self.driver.platform().launcher()
    }

    /// This node's rank.
    #[must_use]
    pub fn rank(&self) -> NodeId {
        self.driver.me()
    }

    /// The ranks that run this node's program.
    #[must_use]
    pub fn ranks_of_program(&self) -> core::ops::Range<u16> {
        self.services.threads.ranks(&self.driver)
    }

    /// Nodes in the job.
    #[must_use]
    pub fn node_count(&self) -> u16 {
        self.driver.nodes()
    }

    /// Threads each node is meant to run.
    #[must_use]
    pub fn threads_per_node(&self) -> u32 {
        self.sync.threads()
    }

    /// Which guard is in use, and why.
    #[must_use]
    pub fn guard_note(&self) -> &str {
        self.driver.memory().guard_note()
    }

    /// The guard in use.
    #[must_use]
    pub fn guard(&self) -> GuardKind {
        self.driver.memory().guard()
    }

    /// This node's counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats_until(now_ns())
    }

    /// This node's counters, with the time of its threads until then.
    fn stats_until(&self, end_ns: u64) -> Stats {
        self.driver.engine().stats(slots::lived_ns(end_ns))
    }

    /// Tells the launcher how far the program is; passed on ten times a second at most, and when all is done.
    pub fn progress(&self, done: u64, total: u64) {
        if self.member().is_err() {
            return;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let tenths = now.tv_sec.cast_unsigned() * 10 + now.tv_nsec.cast_unsigned() / 100_000_000;
        if self.progress.swap(tenths, Ordering::Relaxed) != tenths || done == total {
            self.launcher().tell(&Message::<&str>::Progress(Count { done, total }));
        }
    }

    /// [`Runtime::leave`] as the process ends in this thread: others that touch shared memory after
    /// that wait for its end. If another thread is leaving already, this one waits for it.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] if this node has left.
    pub fn leave_at_exit(&self) -> Result<(), Error> {
        let membership = self.member()?.membership();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        membership.exits(own);
        if !main_exit::is_last() {
            self.services.threads.exit(&self.driver);
        }
        let left = self.leave();
        if left.is_err() {
            membership.await_finalizer(own);
        }
        left
    }

    /// Waits for all nodes, then leaves the job; if another thread does so as the process ends in it, waits
    /// for that. An access to shared memory after that ends the process with one line.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] if this node is leaving already.
    pub fn leave(&self) -> Result<(), Error> {
        self.leave_with(&())
    }

    /// The same, and tells the launcher more than this node's counters: the fields of `more`.
    ///
    /// # Errors
    /// As for [`Runtime::leave`].
    pub fn leave_with(&self, more: &impl serde::Serialize) -> Result<(), Error> {
        child::refuse()?;
        let driver = &self.driver;
        let membership = driver.membership();
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let Some(_finalizing) = membership.finalize(own) else {
            if !membership.exits_beside(own) {
                return Err(Error::NotInitialized);
            }
            membership.await_finalizer(own);
            return Ok(());
        };
        let end_ns = now_ns();
        if let Some((thread, _)) = slots::known() {
            driver.unlock_pages_of(thread);
            driver.warn_of_held(thread, "a thread left the job");
        }
        self.sync.deferred_posts.make(|id, count| self.sync.post_late(driver, id, count));
        if driver.nodes() > 1 {
            // What this thread has to write it has written: it keeps no barrier from finding the job quiescent.
            driver.pause(driver.my_slot()?.0);
            self.pass_barrier(LEAVING_BARRIER, driver.nodes().into())?;
            // What lets other nodes go may be held behind writes of threads that are not joined. Flushes end in their
            // order, so it has gone when this thread's release is through.
            driver.release()?;
            self.services.departure.pass(driver);
            driver.leave(GOODBYE_DEADLINE);
        }
        driver.races().note_unchecked();
        if let Ok(mut stats) = serde_json::to_value(self.stats_until(end_ns)) {
            if let Some(sharing) = driver.engine().sharing() {
                stats["sharing"] = serde_json::json!(sharing);
            }
            let more = serde_json::to_value(more).ok();
            for (name, value) in more.iter().filter_map(serde_json::Value::as_object).flatten() {
                stats[name.as_str()] = value.clone();
            }
            self.launcher().tell(&Message::Stats(stats));
        }
        self.launcher().left();
        membership.has_left();
        // Where a page lies is chance, so what is here ends the process as well. If that cannot be, it stays.
        let _ = driver.memory().seal();
        Ok(())
    }

    /// Waits until `total` threads of the job have come; 0 = every node's `threads`.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] when threads disagree about the size; [`Error::Invalid`] for more threads than the job can
    /// have.
    pub fn barrier(&self, id: impl Into<SyncId>, total: u32) -> Result<(), Error> {
        let id = id.into().value();
        of_program("barrier", id)?;
        can_all_come(self.member()?, total)?;
        self.pass_barrier(id, total)
    }

    /// Does a collective operation with `values`, whole elements in the memory of this thread; see
    /// [`Collective`]. The result takes their place, if this thread takes one, which is told. It is a barrier of its threads as well. `combine`:
    /// elements are combined so, in the order of the threads' places, by each thread that takes a result.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a place or root beyond the threads, or elements that are too large;
    /// [`Error::NotPermitted`] when threads disagree, or two have one place.
    pub fn collect(
        &self,
        party: Party,
        what: Collective,
        (element, values): (Element, &mut [u8]),
        combine: Option<Combine<'_>>,
    ) -> Result<bool, Error> {
        let driver = self.member()?;
        let mut combine = combine.map(|combine| {
            move |into: &mut [u8], with: &[u8]| {
                let _outside = Outside::new();
                combine(into, with);
            }
        });
        let combine = combine.as_mut().map(|combine| -> Combine<'_> { combine });
        self.sync.collect(driver, party, (what, element), values, combine, |passed| {
            self.prefetcher.pass_barrier(driver, passed.thread, passed.slot, passed.fetches);
        })
    }

    fn pass_barrier(&self, id: u64, total: u32) -> Result<(), Error> {
        let passed = self.sync.barrier(&self.driver, id, total)?;
        self.prefetcher.pass_barrier(&self.driver, passed.thread, passed.slot, passed.fetches);
        Ok(())
    }
}

/// An area that is there from the start, as tests and fuzzers want it.
#[cfg(any(feature = "fuzzing", all(test, feature = "shuttle")))]
impl Runtime {
    /// A code or 0.
    pub(crate) fn adopt(&self, record: crate::area::AreaRecord) -> i32 {
        self.services.directory.adopt(&self.driver, record)
    }
}
