//! The writer: a thread that does all writing to the launcher's stdout and stderr.
//!
//! A pager or a stopped terminal may block such a write for ever; here it blocks a thread that
//! nobody waits for. The event loop hands over whole lines and stops reading from the nodes while
//! too much is queued. Since one thread writes everything, lines never mix and keep their order.

use super::event_source::Source;
use super::progress::Line;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Queued bytes at which reading from the nodes stops, and goes on.
const HIGH_BYTES: usize = 1 << 20;
const LOW_BYTES: usize = 1 << 18;
/// Bytes of one write: what a pipe takes whole.
const PIECE_BYTES: usize = 4096;

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The launcher's stdout.
    Out,
    /// The launcher's stderr.
    Err,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Target, Vec<u8>)>,
    queued_bytes: usize,
    progress: Option<String>,
    closing: bool,
    finished: bool,
    stdout_error: Option<Errno>,
    /// Pieces written so far.
    pieces: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Counts up when the event loop should look: below LOW_BYTES again, broken, or finished.
    wake: OwnedFd,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event loop's side.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// What is not read, because too much is queued.
    held_back: Vec<Source>,
    /// When output of a node came last, since the job's start.
    last: Duration,
    /// Pieces that were written at the last look, and when there first were so many.
    progress: (u64, Duration),
}

impl Writer {
    /// Starts the thread; `line` is the progress line it keeps below the output, if wanted.
    pub(super) fn start(line: Option<Line>) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), wake });
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("writer".to_owned())
            .stack_size(256 << 10)
            .spawn(move || write_all(&theirs, line))?;
        Ok(Self {
            shared,
            held_back: Vec::new(),
            last: Duration::ZERO,
            progress: (0, Duration::ZERO),
        })
    }

    /// Queues whole lines; never blocks.
    pub(super) fn push(&self, target: Target, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        state.queued_bytes += bytes.len();
        state.queue.push_back((target, bytes));
        self.shared.changed.notify_one();
    }

    /// Queues one line of the launcher itself for stderr.
    pub(super) fn say(&self, text: &str) {
        self.push(Target::Err, format!("multigrain: {text}\n").into_bytes());
    }

    /// Shows this in the progress line, instead of what was there.
    pub(super) fn show(&self, text: String) {
        self.shared.lock().progress = Some(text);
        self.shared.changed.notify_one();
    }

    /// Whether so much is queued that no more should be read from the nodes.
    pub(super) fn is_full(&self) -> bool {
        self.shared.lock().queued_bytes >= HIGH_BYTES
    }

    /// This source is not read until there is room.
    pub(super) fn hold_back(&mut self, source: Source) {
        self.held_back.push(source);
    }

    /// Whether this source is not read.
    pub(super) fn holds_back(&self, source: Source) -> bool {
        self.held_back.contains(&source)
    }

    /// Whether any source is not read.
    pub(super) fn is_held_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// There is room: the sources to be read again.
    pub(super) fn release(&mut self) -> Vec<Source> {
        std::mem::take(&mut self.held_back)
    }

    /// Output of a node has come.
    pub(super) fn came(&mut self, now: Duration) {
        self.last = now;
    }

    /// When output came last.
    pub(super) fn last(&self) -> Duration {
        self.last
    }

    /// Since when nothing was written, as far as looks tell.
    pub(super) fn look(&mut self, now: Duration) -> Duration {
        let pieces = self.shared.lock().pieces;
        if self.progress.0 != pieces {
            self.progress = (pieces, now);
        }
        self.progress.1
    }

    /// Why stdout takes nothing more: EPIPE where nobody reads it.
    pub(super) fn stdout_error(&self) -> Option<Errno> {
        self.shared.lock().stdout_error
    }

    /// Nothing more will come; [`Self::is_finished`] turns true once all is written.
    pub(super) fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_one();
    }

    /// Whether everything queued before [`Self::close`] is written.
    pub(super) fn is_finished(&self) -> bool {
        self.shared.lock().finished
    }

    /// Takes back the wake-up that made [`AsFd`] readable.
    pub(super) fn acknowledge(&self) {
        let _ = rustix::io::read(&self.shared.wake, &mut [0_u8; 8]);
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

/// Writes a last line to stderr past a writer that is stuck, if that does not block.
pub(super) fn write_if_possible(text: &str) {
    let stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut fds, Some(&now)) == Ok(1) {
        let _ = rustix::io::write(&stderr, format!("multigrain: {text}\n").as_bytes());
    }
}

enum Work {
    Bytes(Target, Vec<u8>),
    Progress(String),
    End,
}

fn next_work(shared: &Shared) -> Work {
    let mut state = shared.lock();
    loop {
        if let Some((target, bytes)) = state.queue.pop_front() {
            return Work::Bytes(target, bytes);
        }
        if state.closing {
            return Work::End;
        }
        if let Some(text) = state.progress.take() {
            return Work::Progress(text);
        }
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn write_all(shared: &Shared, mut line: Option<Line>) {
    loop {
        let wake = match next_work(shared) {
            Work::Progress(text) => {
                if let Some(line) = &mut line {
                    line.show(text);
                }
                false
            }
            Work::Bytes(target, bytes) => {
                let result = match &line {
                    Some(line) => line.aside(|| write(shared, target, &bytes)),
                    None => write(shared, target, &bytes),
                };
                let mut state = shared.lock();
                let before = state.queued_bytes;
                state.queued_bytes -= bytes.len();
                let error = result.err().filter(|_| target == Target::Out);
                let newly_broken = error.is_some() && state.stdout_error.is_none();
                state.stdout_error = state.stdout_error.or(error);
                newly_broken || (before > LOW_BYTES && state.queued_bytes <= LOW_BYTES)
            }
            Work::End => {
                drop(line);
                shared.lock().finished = true;
                let _ = rustix::io::write(&shared.wake, &1_u64.to_ne_bytes());
                return;
            }
        };
        if wake {
            let _ = rustix::io::write(&shared.wake, &1_u64.to_ne_bytes());
        }
    }
}

/// As much as is written at once: a slow reader makes progress that can be seen. Whole lines, if there are any.
fn piece(bytes: &[u8]) -> &[u8] {
    let most = &bytes[..bytes.len().min(PIECE_BYTES)];
    let end = most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |last| last + 1);
    if most.len() == bytes.len() { bytes } else { &most[..end] }
}

fn write(shared: &Shared, target: Target, mut bytes: &[u8]) -> Result<(), Errno> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let fd = match target {
        Target::Out => stdout.as_fd(),
        Target::Err => stderr.as_fd(),
    };
    while !bytes.is_empty() {
        match rustix::io::write(fd, piece(bytes)) {
            Ok(count) => {
                bytes = &bytes[count..];
                shared.lock().pieces += 1;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Another process that shares this descriptor made it non-blocking.
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
