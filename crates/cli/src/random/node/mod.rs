//! A node of a random program: executes what its threads do and compares what they read.
//!
//! Every node generates the program and executes the reference itself. The main thread is the first of
//! the initial threads, so that a node has no threads but those of the program.

mod execute;
mod memory;

use super::RandomArgs;
use super::generate::generate;
use super::program::{ObjectId, Program, Span, ThreadId};
use super::reference::{self, Expected};
use super::setting::Setting;
use anyhow::{Result, ensure};
use core::fmt;
use multigrain_runtime::{Error, Runtime, ThreadHandle};
use std::sync::OnceLock;
use std::thread;

/// Exit code of a node that found something wrong.
const FOUND: i32 = 3;

/// What this process knows.
#[derive(Debug)]
struct Node {
    runtime: &'static Runtime,
    program: Program,
    expected: Expected,
    /// By object: its address, once this node knows it.
    bases: Vec<OnceLock<usize>>,
    /// By thread: its handle, if it was started from here.
    handles: Vec<OnceLock<ThreadHandle>>,
}

/// Threads started from elsewhere find the program here.
static NODE: OnceLock<Node> = OnceLock::new();

/// Joins the job and executes this node's part of the program.
pub(super) fn run(args: &RandomArgs) -> Result<()> {
    let setting = &Setting::drawn(&args.job, args.runs.seed);
    let runtime = Runtime::join()?;
    ensure!(runtime.node_count() == setting.nodes, "--node is for the command's own jobs");
    let program = generate(setting, args.length);
    let mut expected = reference::execute(&program);
    if args.faults.spoil {
        expected.last.iter_mut().flatten().flatten().for_each(|byte| *byte ^= 1);
    }
    let bases = program.objects.iter().map(|_| OnceLock::new()).collect();
    let handles = program.threads.iter().map(|_| OnceLock::new()).collect();
    let node = NODE.get_or_init(|| Node { runtime, program, expected, bases, handles });
    let each = usize::from(setting.threads);
    let first = runtime.rank().index() * each;
    let others: Vec<_> = (first + 1..first + each)
        .map(|thread| thread::spawn(move || node.play(ThreadId(thread))))
        .collect();
    node.play(ThreadId(first));
    if args.faults.stall && first == 0 {
        // A unit that nobody posts.
        runtime.semaphore_wait(0)?;
    }
    for other in others {
        ensure!(other.join().is_ok(), "a thread has panicked");
    }
    node.or_end(ThreadId(first), &"the final contents", |node| node.compare_all());
    runtime.barrier(0, u32::from(runtime.node_count()))?;
    Ok(runtime.leave()?)
}

/// The first function of a started thread; its argument is the thread's number.
extern "C" fn started(thread: u64) -> u64 {
    let node = NODE.get().expect("nodes know the program before they meet");
    node.play(ThreadId(usize::try_from(thread).unwrap_or(usize::MAX)));
    thread
}

/// Why a node gives up.
enum Wrong {
    /// Bytes that are not as they should be.
    Bytes {
        span: Span,
        expected: Vec<u8>,
        found: Vec<u8>,
    },
    Other(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// Bytes shown of what was expected and found.
const SHOWN: usize = 8;

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(why) => out.write_str(why),
            Self::Bytes { span, expected, found } => {
                let differ = |place: &usize| expected[*place] != found[*place];
                let places: Vec<usize> = (0..expected.len()).filter(differ).collect();
                let (first, many) = (places.first().copied().unwrap_or(0), places.len());
                let object = span.object.0;
                let end = expected.len().min(first + SHOWN);
                let (wanted, seen) = (&expected[first..end], &found[first..end]);
                write!(
                    out,
                    "o{object}[{}..] expected {wanted:02x?}, found {seen:02x?}",
                    span.from + first
                )?;
                write!(out, "; {many} of {} bytes differ", expected.len())
            }
        }
    }
}

impl Node {
    /// Executes a thread's operations; what is wrong ends the process, and so the job.
    fn play(&self, thread: ThreadId) {
        let mut seen = vec![0; self.program.groups.len()];
        for (place, op) in self.program.threads[thread.0].ops.iter().enumerate() {
            let what = format_args!("op {place} ({op})").to_string();
            self.or_end(thread, &what, |node| {
                node.step(op, &node.expected.found[thread.0][place], &mut seen)
            });
        }
    }

    fn or_end(
        &self,
        thread: ThreadId,
        what: &dyn fmt::Display,
        body: impl FnOnce(&Self) -> Result<(), Wrong>,
    ) {
        if let Err(wrong) = body(self) {
            let rank = self.runtime.rank().index();
            eprintln!("node {rank} thread {} {what}: {wrong}", thread.0);
            std::process::exit(FOUND);
        }
    }

    /// The last contents of all objects, from here.
    fn compare_all(&self) -> Result<(), Wrong> {
        for (number, last) in self.expected.last.iter().enumerate() {
            let Some(last) = last else { continue };
            let object = ObjectId(number);
            let stride = self.program.objects[number].stride();
            for (part, expected) in last.chunks(stride).enumerate() {
                let span = Span { object, from: part * stride, bytes: expected.len() };
                self.compare(span, expected)?;
            }
        }
        Ok(())
    }
}
