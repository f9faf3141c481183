//! The site daemon: the process of a node under `multigrain run --sysv`, which starts the program and owns its segments, for
//! processes come and go (MIRAGE+ 2, MGS's structure: hardware coherence among the processes of a site, the protocol between
//! sites).
//!
//! Role: joins the job, starts the program with the library that takes its System V calls, answers these, and leaves when the
//! program has ended.
#![expect(
    unsafe_code,
    reason = "userfaultfds, C structures and copies of pages; what a child does before exec"
)]

mod answers;
mod authority;
mod connection;
mod deadlock;
mod descendants;
mod exports;
mod faults;
mod images;
mod kernel;
mod page_copies;
mod posix_sem;
mod posix_shm;
mod processes;
mod program;
mod proxies;
mod requests;
mod segments;
mod sessions;
mod structures;
mod tally;
mod usage;
mod userfault;

use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use multigrain_runtime::{Runtime, SegmentOptions, runtime, time_slice};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use authority::{Authority, Told};
use exports::{Exports, Notification};
use processes::Processes;
use segments::Areas;
use usage::{Counted, Usage};

/// The barrier that all sites pass before a program starts.
const READY: u32 = 1;
/// And the one behind the end of their programs.
const ENDED: u32 = 2;

/// Between two looks which objects processes have descriptors of, and who waits.
const SWEEP: Duration = Duration::from_secs(1);

/// A site.
struct Site {
    authority: Authority,
    exports: Exports,
    processes: Processes,
    areas: Areas,
    usage: Arc<Usage>,
    /// Held by who hands notifications on, so that they keep their order.
    passing: Mutex<()>,
    program_has_ended: AtomicBool,
}

static SITE: OnceLock<Site> = OnceLock::new();

/// Whether this process may guard the memory of others, as a site does.
///
/// # Errors
/// Which call was refused, and how.
pub fn guards_processes() -> Result<(), (&'static str, rustix::io::Errno)> {
    userfault::Userfault::try_here()
}

/// Runs a program as the site of this node; its exit code. `library` takes its System V calls; segments are shared as
/// `options` say. `ignores_pipes`: SIGPIPE is ignored, as the program is to have it.
///
/// # Errors
/// What keeps the site from starting, in a line; an empty one if the launcher says it.
pub fn run(
    command: &[OsString],
    library: &Path,
    options: SegmentOptions,
    ignores_pipes: bool,
) -> Result<i32, String> {
    // Each process of the site has several descriptors here. Up to its own maximum nobody is refused.
    let descriptors = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: descriptors.maximum, ..descriptors });
    // Before there are other threads. Without it everything is as right.
    let _ = time_slice::be_short();
    let processes = Processes::new().map_err(|errno| format!("epoll: {errno}"))?;
    let (authority, told) = Authority::new();
    let exports = Exports::default();
    let usage = Arc::new(Usage::default());
    let (areas, passing) = (Areas::new(options, Arc::clone(&usage)), Mutex::new(()));
    let program_has_ended = AtomicBool::new(false);
    let site = SITE.get_or_init(|| Site {
        authority,
        exports,
        processes,
        areas,
        usage,
        passing,
        program_has_ended,
    });
    Runtime::handle_site_messages(Box::new(|from, body| {
        // Links are there before `join` has returned, but no site speaks before all have.
        runtime().is_ok_and(|runtime| site.authority.receive(&runtime, from, body))
    }));
    let said = |error| if Runtime::tell_of(&error) { String::new() } else { error.to_string() };
    let runtime = Runtime::join().map_err(said)?;
    runtime.export_with(Box::new(Counted::new(site.exports.clone(), Arc::clone(&site.usage))));
    let sites = u32::from(runtime.node_count());
    runtime.barrier(READY, sites).map_err(|error| error.to_string())?;
    let listener = connection::Listener::open(runtime.rank())
        .map_err(|error| format!("its socket: {error}"))?;
    let variable = listener.variable();
    site.helper("sysv-calls", move || sessions::accept(site, runtime, listener))?;
    site.helper("sysv-ends", move || site.watch_processes(runtime))?;
    let Told { gone, questions } = told;
    site.helper("sysv-gone", move || site.remove_segments(runtime, &gone))?;
    site.helper("sysv-looks", move || site.answer_questions(runtime, &questions))?;
    descendants::adopt().map_err(|errno| format!("prctl: {errno}"))?;
    let code = program::run(runtime, command, (library, &variable), (descriptors, ignores_pipes))?;
    if code != 0 {
        // A node that fails ends its job: it does not wait for the others.
        descendants::kill_all();
        return Ok(code);
    }
    site.program_has_ended.store(true, Ordering::Relaxed);
    // What the program has left goes on until it has ended on all sites, and is served till then.
    runtime.barrier(ENDED, sites).map_err(|error| error.to_string())?;
    descendants::kill_all();
    runtime.leave_with(&site.usage.report(&site.authority)).map_err(|error| error.to_string())?;
    Ok(code)
}

/// Why a thread of this site cannot be made.
fn no_thread(name: &str, error: &std::io::Error) -> String {
    no_task(&format!("the thread {name}"), error)
}

/// Why a thread or a process cannot be made, and what to do if there are too many.
fn no_task(which: &str, error: &std::io::Error) -> String {
    let many = error.kind() == std::io::ErrorKind::WouldBlock;
    let advice = if many { "; raise ulimit -u or the pids of its control group" } else { "" };
    format!("{which}: {error}{advice}")
}

/// A line on this site's stderr, in one call: whole, or not at all if the site is killed meanwhile.
fn say(line: core::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("multigrain: {line}\n").as_bytes());
}

/// Ends this site, and the job with it, with one line: processes would wait for what it cannot do. They keep their
/// userfaultfds, and see nothing of it until they are killed.
fn end(why: &str) -> ! {
    match runtime() {
        Ok(runtime) => runtime.fatal(why),
        Err(_) => unreachable!("without a job nobody is served: {why}"),
    }
}

impl Site {
    fn helper(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        started.map(drop).map_err(|error| no_thread(name, &error))
    }

    fn program_has_ended(&self) -> bool {
        self.program_has_ended.load(Ordering::Relaxed)
    }

    /// Says what this site's processes do, each time that site 0 asks.
    fn answer_questions(&'static self, runtime: &'static Runtime, questions: &Receiver<u64>) {
        while let Ok(question) = questions.recv() {
            let seen = deadlock::look(self, runtime);
            self.authority.answer_question(runtime, question, seen);
        }
    }

    fn watch_processes(&'static self, runtime: &'static Runtime) {
        let mut swept = Instant::now();
        loop {
            self.processes.wait();
            self.catch_up(runtime);
            self.exports.lock().sweep();
            self.pass_notifications(runtime);
            if swept.elapsed() >= SWEEP {
                posix_shm::sweep(self, runtime);
                self.authority.look_for_deadlock(runtime);
                swept = Instant::now();
            }
        }
    }

    /// Has site 0 know of all processes that have ended, before a call that could tell of it.
    fn catch_up(&'static self, runtime: &'static Runtime) {
        self.processes.reap(|pid, calling| {
            // As the kernel does it: its memory goes first.
            let mut exports = self.exports.lock();
            exports.sweep();
            let attaching = calling.leaves();
            drop(exports);
            self.pass_notifications(runtime);
            attaching.iter().for_each(|id| self.authority.detached(runtime, *id, pid));
            self.authority.ended(runtime, pid);
        });
    }

    /// Hands on what the exports have noted.
    fn pass_notifications(&'static self, runtime: &'static Runtime) {
        let _in_order = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            // Not in the head of the loop: its lock is not to be held in the body.
            let notification = self.exports.lock().next_notification();
            match notification {
                None => return,
                Some(Notification::Forked { segment, pid }) => {
                    self.authority.forked(runtime, segment, pid);
                }
                Some(Notification::Detached { segment, pid }) => {
                    self.authority.detached(runtime, segment, pid);
                }
                Some(Notification::NewImage(key)) => {
                    let serve = move || faults::serve(self, runtime, key);
                    if let Err(why) = self.helper("sysv-faults", serve) {
                        end(&why);
                    }
                }
            }
        }
    }

    fn remove_segments(&'static self, runtime: &'static Runtime, gone: &Receiver<i32>) {
        while let Ok(id) = gone.recv() {
            self.areas.remove(runtime, &self.exports, id);
            if id < 0 {
                self.authority.proxies().remove(!id);
            }
        }
    }
}
