//! Turns: a thread may keep a contended minipage for a while, so that all nodes have it alike (ADR 17).
//!
//! Role: the clock and the timer behind [`multigrain_protocol::window`]. A *window* is a pin on a grant
//! that goes when its time is over, and not before the instruction is through that waited for it. The
//! thread runs on meanwhile. A helper thread sleeps on a timer, which is set without waking anybody,
//! and retires what is due.
//!
//! Invariant: whoever is told to hold a minipage steps [`Input::Retired`] once: here, if
//! [`Runtime::begin_window`] took it, else its caller.

use core::sync::atomic::Ordering;
use core::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use multigrain_protocol::Input;
use multigrain_protocol::window::Estimator;
use multigrain_types::{MinipageId, ThreadId};

use crate::boot::Runtime;
use crate::error::Error;
use crate::shim::{AtomicBool, Mutex};
use crate::tables::lock;

/// Between two looks at the clock where the program has closed the timer.
const WITHOUT_TIMER: Duration = Duration::from_millis(1);

/// A thread keeps a minipage.
#[derive(Clone, Copy, Debug)]
struct Window {
    thread: ThreadId,
    minipage: MinipageId,
    ends_ns: u64,
    /// Its instruction is not through yet.
    stepped: bool,
    /// Somebody waited when it began: the minipage is taken away as soon as it may be.
    urgent: bool,
}

#[derive(Debug, Default)]
struct Books {
    turns: Estimator,
    open: Vec<Window>,
}

impl Books {
    /// The instruction that waited for a minipage is through: true if no window keeps it.
    fn is_through(&mut self, thread: ThreadId, minipage: MinipageId) -> bool {
        // A thread has a second window on a minipage if a free has ended the first one's grant.
        let of = (thread, minipage, true);
        let mut open = self.open.iter_mut();
        match open.find(|window| (window.thread, window.minipage, window.stepped) == of) {
            Some(window) => {
                window.stepped = false;
                false
            }
            None => true,
        }
    }

    /// Ends windows: those whose pins go now. The others go when their instructions are through.
    fn end(&mut self, over: impl Fn(&Window) -> bool) -> Vec<Window> {
        let ended = self.open.extract_if(.., |window| over(window));
        ended.filter(|window| !window.stepped).collect()
    }

    fn next_end_ns(&self) -> Option<u64> {
        self.open.iter().map(|window| window.ends_ns).min()
    }
}

/// The windows of a node.
#[derive(Debug)]
pub(crate) struct Windows {
    timer: OwnedFd,
    books: Mutex<Books>,
    /// Whether some window may be open; whether a passage may be measured. Set under the lock.
    any: AtomicBool,
    measures: AtomicBool,
}

/// Nanoseconds of the clock that the timer knows.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Windows {
    pub(crate) fn new() -> Result<Self, Error> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)
            .map_err(|errno| Error::System(format!("timerfd_create: {errno}")))?;
        let (any, measures) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { timer, books: Mutex::default(), any, measures })
    }

    /// The timer rings then, and not before.
    fn ring_at(&self, at_ns: u64) {
        let at = Timespec {
            tv_sec: (at_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        // It only fails if the program has closed it; the helper looks at the clock then.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
    }

    /// The helper ends its sleep at once.
    pub(crate) fn ring(&self) {
        self.ring_at(1);
    }
}

impl Runtime {
    /// A thread is told to hold a minipage that it has wanted since then, for so many turns of others:
    /// whether a window keeps it for it. `stepped`: [`Runtime::is_through`] follows.
    pub(crate) fn begin_window(
        &self,
        (thread, minipage): (ThreadId, MinipageId),
        since_ns: u64,
        (turns, urgent): (u16, bool),
        stepped: bool,
    ) -> bool {
        if turns == 0 {
            return false;
        }
        let managed_here = self.tables.manages(minipage);
        let now_ns = now_ns();
        let mut books = lock(&self.windows.books);
        let waited_ns = now_ns.saturating_sub(since_ns);
        let window_ns = books.turns.window_ns(waited_ns, turns, managed_here);
        if window_ns == 0 {
            return false;
        }
        let ends_ns = now_ns + window_ns;
        if books.next_end_ns().is_none_or(|next_ns| ends_ns < next_ns) {
            self.windows.ring_at(ends_ns);
        }
        books.open.push(Window { thread, minipage, ends_ns, stepped, urgent });
        self.windows.any.store(true, Ordering::Relaxed);
        true
    }

    /// The instruction that waited for a minipage is through: true if no window keeps it.
    pub(crate) fn is_through(&self, thread: ThreadId, minipage: MinipageId) -> bool {
        !self.windows.any.load(Ordering::Relaxed)
            || lock(&self.windows.books).is_through(thread, minipage)
    }

    /// A thread is about to wait for something else: its windows are over.
    pub(crate) fn end_windows_of(&self, thread: ThreadId) {
        if self.windows.any.load(Ordering::Relaxed) {
            self.end_windows(|window| window.thread == thread);
        }
    }

    /// A thread of this node wants to write a minipage, or an instruction gives it up: nobody keeps it
    /// for a while.
    pub(crate) fn end_windows_on(&self, minipage: MinipageId) {
        if self.windows.any.load(Ordering::Relaxed) {
            self.end_windows(|window| window.minipage == minipage);
        }
    }

    /// A minipage is let go.
    pub(crate) fn let_go(&self, minipage: MinipageId) {
        if !self.tables.manages(minipage) {
            lock(&self.windows.books).turns.let_go(minipage, now_ns());
            self.windows.measures.store(true, Ordering::Relaxed);
        }
    }

    /// Threads of this node lose access to a minipage.
    pub(crate) fn taken(&self, minipage: MinipageId) {
        if self.windows.measures.load(Ordering::Relaxed) {
            let mut books = lock(&self.windows.books);
            books.turns.taken(minipage, now_ns());
            self.windows.measures.store(books.turns.measures(), Ordering::Relaxed);
        }
    }

    /// Ends windows, and retires the threads that are through.
    fn end_windows(&self, over: impl Fn(&Window) -> bool) {
        let mut books = lock(&self.windows.books);
        let open = books.open.len();
        let ended = books.end(over);
        if books.open.len() < open {
            match books.next_end_ns() {
                Some(next_ns) => self.windows.ring_at(next_ns),
                None => self.windows.any.store(false, Ordering::Relaxed),
            }
        }
        drop(books);
        for Window { thread, minipage, urgent, .. } in ended {
            if urgent {
                self.let_go(minipage);
            }
            self.step_sure(Input::Retired { thread, minipage });
        }
    }

    /// The helper: ends windows when they are over, until this node leaves.
    pub(crate) fn keep_time(&self) {
        while !self.is_leaving() {
            let mut rings = [0; 8];
            // A signal ends the wait early, which does no harm.
            if let Err(errno) = rustix::io::read(&self.windows.timer, &mut rings)
                && errno != Errno::INTR
            {
                std::thread::sleep(WITHOUT_TIMER);
            }
            let now_ns = now_ns();
            self.end_windows(|window| window.ends_ns <= now_ns);
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    const THREAD: ThreadId = ThreadId(1);
    const PAGE: MinipageId = MinipageId(7);

    fn window(stepped: bool, ends_ns: u64) -> Window {
        Window { thread: THREAD, minipage: PAGE, ends_ns, stepped, urgent: true }
    }

    /// Pins that go in this order of events: the step is through, a window ends.
    fn pins(windows: &[Window], events: &str) -> usize {
        let mut books = Books { open: windows.to_vec(), ..Books::default() };
        let pins = |event| match event {
            't' => usize::from(books.is_through(THREAD, PAGE)),
            _ => books.next_end_ns().map_or(0, |next| books.end(|of| of.ends_ns <= next).len()),
        };
        events.chars().map(pins).sum()
    }

    #[test]
    fn a_pin_goes_once_and_not_before_its_instruction_and_its_window_are_over() {
        assert_eq!((pins(&[], "t"), pins(&[window(false, 9)], "e")), (1, 1));
        let stepped = window(true, 9);
        assert_eq!((pins(&[stepped], "t"), pins(&[stepped], "e")), (0, 0));
        assert_eq!((pins(&[stepped], "te"), pins(&[stepped], "et")), (1, 1));
    }

    #[test]
    fn a_thread_with_two_windows_on_a_minipage_gives_two_pins_back() {
        for (first, second) in [(8, 9), (9, 8)] {
            let both = [window(false, first), window(true, second)];
            for events in ["tee", "ete", "eet"] {
                assert_eq!(pins(&both, events), 2, "{both:?} {events}");
            }
        }
    }
}
