//! Joining and leaving a job.

#![expect(unsafe_code, reason = "file descriptors arrive by number, signals are masked per thread")]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use multigrain_memory::{GuardKind, Memory, TrackingKind, Twins};
use multigrain_transport::{BootConfig, Mesh, Receiver, Timeout};
use multigrain_types::{Consistency, MinipageId, NodeId};

use crate::alloc::{Chunking, Heap};
use crate::areas::Directory;
use crate::asked::Asked;
use crate::config::{Config, WaitMode};
use crate::error::Error;
use crate::habits::Habits;
use crate::names::Names;
use crate::parking::Role;
use crate::program::{self, Program};
use crate::races::Races;
use crate::receive::NodeSink;
use crate::shim::{AtomicBool, AtomicU8, Mutex, yield_now};
use crate::signals::SignalMask;
use crate::stats::Counters;
use crate::sync::Leavers;
use crate::tables::{SharedTables, lock};
use crate::threads::Threads;
use crate::turns::Windows;
use crate::{fault, report, secret, slots};

/// How long a node waits for its peers at start.
const BOOT_DEADLINE: Duration = Duration::from_secs(30);
/// How long a leaving node waits for its peers' goodbyes; all have passed the barrier.
const GOODBYE_DEADLINE: Duration = Duration::from_secs(1);
/// The barrier every node passes before it leaves; programs are refused this id.
pub(crate) const LEAVING_BARRIER: u32 = u32::MAX;

/// A node of a job.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) me: NodeId,
    pub(crate) nodes: u16,
    pub(crate) threads: u32,
    pub(crate) wait_mode: WaitMode,
    pub(crate) memory: Memory,
    pub(crate) mesh: Mesh,
    pub(crate) tables: SharedTables,
    pub(crate) twins: Twins,
    /// How often any minipage of this node was opened for writes.
    pub(crate) opened: AtomicU64,
    /// Diffs that wait for the others of their round (MGS arc 33).
    pub(crate) kept_diffs: Mutex<BTreeMap<MinipageId, Vec<Vec<u8>>>>,
    pub(crate) races: Option<Races>,
    pub(crate) role: Role,
    pub(crate) counters: Counters,
    pub(crate) directory: Mutex<Directory>,
    pub(crate) names: Mutex<Names>,
    pub(crate) asked: Mutex<Asked>,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) chunking: Chunking,
    /// That of allocations which ask for none.
    pub(crate) consistency: Consistency,
    pub(crate) thread_books: Mutex<Threads>,
    /// Where functions of the program lie, the only ones that threads may start with.
    pub(crate) program: Program,
    pub(crate) control: Option<BorrowedFd<'static>>,
    pub(crate) learn: bool,
    pub(crate) habits: Mutex<Habits>,
    pub(crate) windows: Windows,
    pub(crate) left_barriers: Leavers,
    /// Threads of the program that have begun and not ended.
    pub(crate) threads_begun: AtomicU32,
    /// Of them, those that do not run yet.
    pub(crate) unborn: AtomicU32,
    next_node: AtomicU64,
    progress: AtomicU64,
    state: AtomicU8,
    leaving: AtomicBool,
}

/// A thread of the runtime's own: its name, and what it does until this node leaves.
type Helper = (&'static str, fn(&Runtime));
/// Those of a node that has peers.
const HELPERS: [Helper; 2] = [("mg-service", Runtime::serve), ("mg-turns", Runtime::keep_time)];
/// Threads of such a node that are the runtime's own: those, and the one that starts others.
pub(crate) const OWN_THREADS: usize = HELPERS.len() + 1;

const JOINED: u8 = 0;
const FINALIZING: u8 = 1;
const LEFT: u8 = 2;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The runtime, whatever its state; for the signal entry.
pub(crate) fn started() -> Option<&'static Runtime> {
    RUNTIME.get()
}

/// This process's runtime.
///
/// # Errors
/// [`Error::NotInitialized`] before [`Runtime::join`] and after [`Runtime::leave`].
pub fn runtime() -> Result<&'static Runtime, Error> {
    RUNTIME
        .get()
        .filter(|runtime| runtime.state.load(Ordering::Acquire) != LEFT)
        .ok_or(Error::NotInitialized)
}

impl Runtime {
    /// Joins the job that the environment describes.
    ///
    /// # Errors
    /// [`Error::AlreadyInitialized`]; a wrong environment; no guard; missing peers.
    pub fn join() -> Result<&'static Runtime, Error> {
        if RUNTIME.get().is_some() {
            return Err(Error::AlreadyInitialized);
        }
        let config = Config::from_environment();
        secret::leave_environment();
        let runtime = Self::new(config?)?;
        let signal = runtime.memory.signal();
        RUNTIME.set(runtime).map_err(|_| Error::AlreadyInitialized)?;
        let runtime = RUNTIME.get().ok_or(Error::NotInitialized)?;
        slots::prepare().map_err(|errno| {
            let error = std::io::Error::from_raw_os_error(errno);
            Error::System(format!("no pthread key is left for the ends of threads: {error}"))
        })?;
        fault::install(signal)?;
        fault::install(libc::SIGTRAP)?;
        runtime.start_helpers()?;
        runtime.tell_launcher(format_args!("ready"));
        Ok(runtime)
    }

    fn new(config: Config) -> Result<Self, Error> {
        let secret = config.secret_to_join()?;
        let memory_config =
            multigrain_memory::Config { shared_bytes: config.shared_bytes, guard: config.guard };
        let memory = Memory::new(&memory_config)?;
        let memory = match config.tracking {
            TrackingKind::Faults => memory,
            TrackingKind::Scans => memory.with_watches()?,
        };
        // SAFETY: the launcher gave this descriptor to this process for its whole life.
        let control = config.control_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        if let Some(control) = control {
            let _ = rustix::io::fcntl_setfd(control, rustix::io::FdFlags::CLOEXEC);
        }
        let nodes = u16::try_from(config.peers.len().max(1))
            .map_err(|_| Error::Limit(format!("{} nodes are too many", config.peers.len())))?;
        let mesh = if nodes == 1 { Mesh::single() } else { boot_mesh(&config, secret, control)? };
        Self::assemble(&config, nodes, memory, mesh, control)
    }

    pub(crate) fn assemble(
        config: &Config,
        nodes: u16,
        memory: Memory,
        mesh: Mesh,
        control: Option<BorrowedFd<'static>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            me: config.rank,
            nodes,
            threads: config.threads.max(1),
            wait_mode: config.wait,
            mesh,
            tables: SharedTables::new(config.rank, nodes, config.placement)
                .with_watches(memory.watches()),
            memory,
            twins: Twins::new(),
            opened: AtomicU64::new(0),
            kept_diffs: Mutex::default(),
            races: (config.check_races && nodes > 1).then(Races::default),
            role: Role::default(),
            counters: Counters::default(),
            directory: Mutex::default(),
            names: Mutex::default(),
            asked: Mutex::default(),
            heap: Mutex::default(),
            chunking: Chunking(AtomicU32::new(config.chunk)),
            consistency: config.consistency,
            thread_books: Mutex::default(),
            program: Program::of_this_process(),
            control,
            learn: config.learn && nodes > 1,
            habits: Mutex::default(),
            windows: Windows::new()?,
            left_barriers: Leavers::default(),
            threads_begun: AtomicU32::new(0),
            unborn: AtomicU32::new(0),
            next_node: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            state: AtomicU8::new(JOINED),
            leaving: AtomicBool::new(false),
        })
    }

    /// The service thread, and the thread that starts others.
    fn start_helpers(&'static self) -> Result<(), Error> {
        let system =
            |error: std::io::Error| Error::System(format!("cannot start a thread: {error}"));
        let (starter, starts) = mpsc::channel();
        lock(&self.thread_books).starter = Some(starter);
        // Threads inherit the signal mask: the program's handlers must not run in ours.
        let masked = SignalMask::block_all();
        let started = thread::Builder::new().name("mg-start".into()).spawn(move || {
            masked_thread_of_program(&starts, self);
        });
        let mut helpers = vec![started];
        if self.nodes > 1 {
            for (name, run) in HELPERS {
                helpers.push(thread::Builder::new().name(name.into()).spawn(move || {
                    prefer_latency();
                    run(self);
                }));
            }
        }
        drop(masked);
        helpers.into_iter().try_for_each(|helper| helper.map(drop).map_err(system))
    }

    /// This node's rank.
    #[must_use]
    pub fn rank(&self) -> NodeId {
        self.me
    }

    /// Nodes in the job.
    #[must_use]
    pub fn node_count(&self) -> u16 {
        self.nodes
    }

    /// Threads each node is meant to run.
    #[must_use]
    pub fn threads_per_node(&self) -> u32 {
        self.threads
    }

    /// Which guard is in use, and why.
    #[must_use]
    pub fn guard_note(&self) -> &str {
        self.memory.guard_note()
    }

    /// The guard in use.
    #[must_use]
    pub fn guard(&self) -> GuardKind {
        self.memory.guard()
    }

    /// The next node in turn, for threads that may run anywhere.
    pub fn any_node(&self) -> i64 {
        let turn = self.next_node.fetch_add(1, Ordering::Relaxed) % u64::from(self.nodes);
        turn.cast_signed()
    }

    /// Sets the chunking level of later allocations of this node; 1 is off.
    ///
    /// # Errors
    /// [`Error::Invalid`] for 0.
    pub fn set_chunking(&self, level: u32) -> Result<(), Error> {
        if level == 0 {
            return Err(Error::Invalid("a chunking level of 0; 1 is off".into()));
        }
        self.chunking.0.store(level, Ordering::Relaxed);
        Ok(())
    }

    /// Tells the launcher how far the program is; passed on ten times a second at most.
    pub fn progress(&self, done: u64, total: u64) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        let tenths = now.tv_sec.cast_unsigned() * 10 + now.tv_nsec.cast_unsigned() / 100_000_000;
        if self.progress.swap(tenths, Ordering::Relaxed) != tenths || done == total {
            self.tell_launcher(format_args!("progress {done} {total}"));
        }
    }

    /// Waits for all nodes, then leaves the job.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] if this node is leaving already.
    pub fn leave(&self) -> Result<(), Error> {
        if self
            .state
            .compare_exchange(JOINED, FINALIZING, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return Err(Error::NotInitialized);
        }
        if self.nodes > 1 {
            self.pass_barrier(LEAVING_BARRIER, self.nodes.into())?;
            self.leaving.store(true, Ordering::Release);
            self.mesh.leave();
            self.hear_goodbyes();
            self.mesh.wake();
            self.windows.ring();
        }
        self.note_unchecked();
        if let Ok(stats) = serde_json::to_string(&self.stats()) {
            self.tell_launcher(format_args!("stats {stats}"));
        }
        self.tell_launcher(format_args!("left"));
        self.state.store(LEFT, Ordering::Release);
        Ok(())
    }

    /// Reads what the peers still say, up to their ends of stream: a socket closed with unread
    /// bytes would look like a death to them.
    fn hear_goodbyes(&self) {
        let end = Instant::now() + GOODBYE_DEADLINE;
        let mut sink = NodeSink::new(self);
        while self.mesh.links_alive() > 0 && Instant::now() < end {
            if self.role.try_take() {
                self.mesh.suppress_wakeups(Receiver::Sleeps);
                self.mesh.receive(&mut sink, Timeout::Millis(20));
                self.mesh.resume_wakeups();
                self.role.give_back();
            } else {
                yield_now();
            }
        }
    }

    /// Whether the program has called for the end: peers may leave from now on.
    pub(crate) fn is_finalizing(&self) -> bool {
        self.state.load(Ordering::Acquire) != JOINED
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }
}

fn boot_mesh(
    config: &Config,
    secret: [u8; 32],
    control: Option<BorrowedFd<'static>>,
) -> Result<Mesh, Error> {
    // SAFETY: the launcher gave this descriptor to this process and to nobody else.
    let listener = config.listen_fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    if let Some(listener) = &listener {
        let _ = rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::CLOEXEC);
    }
    let boot = BootConfig {
        rank: config.rank,
        peers: config.peers.clone(),
        listener,
        job: config.job,
        secret,
        build: program::build_number()?,
        deadline: BOOT_DEADLINE,
    };
    let mut refused = |line: String| {
        if !report::tell(control, format_args!("refused {line}")) {
            report::last_words(config.rank, &line);
        }
    };
    let _ = report::tell(control, format_args!("joining"));
    let mesh = Mesh::boot(boot, &mut refused).inspect_err(|error| {
        if let Some(peer) = error.lost_peer() {
            report::lost_at_start(control, peer, &error.to_string());
        }
    })?;
    if matches!(config.wait, WaitMode::Block | WaitMode::Adaptive) {
        mesh.wake_when_taken()?;
    }
    Ok(mesh)
}

/// Runs start requests; each new thread gets an empty signal mask back.
fn masked_thread_of_program(
    starts: &mpsc::Receiver<crate::threads::Start>,
    runtime: &'static Runtime,
) {
    for start in starts {
        runtime.start_thread(start);
    }
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
