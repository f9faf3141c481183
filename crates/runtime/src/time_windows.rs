//! Time windows: for a while a thread may keep a contended minipage, so that all nodes get equal turns (ADR 17), and
//! a node the token of a contended lock (ADR 41).
//!
//! Role: the clock and the timer behind [`multigrain_protocol::window_length`]. A *window* is a pin on a grant
//! that is removed when its time is over, but not before the instruction that waited for it is complete. The
//! thread runs on meanwhile. A helper thread sleeps on a timer, which is set without waking it, and ends the
//! windows that are due.
//!
//! Invariants: every token that is kept has its lock in the list of windows to end, or is being returned. For each
//! window on a minipage that [`Windows::begin`] took, the pin is removed once: with the [`EndedWindow`] it
//! becomes, or with its instruction ([`Windows::is_through`]), whichever is later. A window that the program asked for, or
//! of a node's turn ([`requested`]), knows nothing of instructions, for its thread has not resumed the grant: the [`EndedWindow`] does.

mod lock_windows;
mod requested;
mod thrashing;

use core::num::NonZero;
use core::sync::atomic::Ordering;
use core::time::Duration;

use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use multigrain_protocol::window_length::{Estimator, window};
use multigrain_protocol::{Kind, Turns};
use multigrain_transport::TransportError;
use multigrain_types::descriptor::above_standard;
use multigrain_types::{Access, MinipageId, ThreadId};

use crate::error::Error;
use crate::shim::{AtomicBool, Mutex, lock};
use lock_windows::LockWindows;
use requested::{RequestedWindows, ThreadsMinipage};
use thrashing::{Thrashing, Turn};

/// Between two looks at the clock where the program has closed the timer.
const WITHOUT_TIMER: Duration = Duration::from_millis(1);

/// A thread keeps a minipage.
#[derive(Clone, Copy, Debug)]
struct OpenWindow {
    thread: ThreadId,
    minipage: MinipageId,
    /// When and after how much of its node's processor time it began.
    began: Moment,
    /// The processor time when it is over, and the time when it is over whatever was used.
    ends: Moment,
    /// When to look.
    look_ns: u64,
    /// Its instruction is not through yet.
    stepped: bool,
    /// Somebody waited when it began.
    urgent: bool,
}

/// A time, and the processor time that this node has used by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Moment {
    ns: u64,
    processor_ns: u64,
}

impl Moment {
    fn now() -> Self {
        Self { ns: now_ns(), processor_ns: read_ns(ClockId::ProcessCPUTime) }
    }
}

impl OpenWindow {
    /// Whether it is over; if not, when to look again: when it is if its threads go on as they did.
    fn is_over(&mut self, now: Moment) -> bool {
        if now.processor_ns >= self.ends.processor_ns || now.ns >= self.ends.ns {
            return true;
        }
        let used = now.processor_ns.saturating_sub(self.began.processor_ns).max(1);
        let left = self.ends.processor_ns - now.processor_ns;
        let after =
            u128::from(left) * u128::from(now.ns.saturating_sub(self.began.ns)) / u128::from(used);
        let after_ns = u64::try_from(after).unwrap_or(u64::MAX).max(LEAST_NS);
        self.look_ns = now.ns.saturating_add(after_ns).min(self.ends.ns);
        false
    }
}

/// A window that is over, whose pin goes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedWindow {
    pub(crate) thread: ThreadId,
    pub(crate) minipage: MinipageId,
    /// Somebody waits for the minipage.
    pub(crate) urgent: bool,
}

impl From<OpenWindow> for EndedWindow {
    fn from(OpenWindow { thread, minipage, urgent, .. }: OpenWindow) -> Self {
        Self { thread, minipage, urgent }
    }
}

impl From<ThreadsMinipage> for EndedWindow {
    fn from((minipage, thread): ThreadsMinipage) -> Self {
        Self { thread, minipage, urgent: false }
    }
}

/// Between two looks at how much processor time a window has used, at least.
const LEAST_NS: u64 = 20_000;

#[derive(Debug, Default)]
struct OpenWindows {
    turns: Estimator,
    open: Vec<OpenWindow>,
    asked: RequestedWindows,
    locks: Vec<LockWindows>,
}

impl OpenWindows {
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
    fn end(&mut self, mut over: impl FnMut(&mut OpenWindow) -> bool) -> Vec<EndedWindow> {
        let ended = self.open.extract_if(.., |window| over(window));
        ended.filter(|window| !window.stepped).map(EndedWindow::from).collect()
    }

    fn next_end_ns(&self) -> Option<u64> {
        let minipages = self.open.iter().map(|window| window.look_ns);
        let locks = self.locks.iter().map(|lock| lock.look_ns);
        minipages.chain(locks).chain(self.asked.next_end_ns()).min()
    }
}

/// The windows of a node.
#[derive(Debug)]
pub(crate) struct Windows {
    timer: OwnedFd,
    /// How many threads of this node can run at once.
    processors: u64,
    open_windows: Mutex<OpenWindows>,
    /// Whether some window may be open; whether a turn may be measured. Set under the lock.
    any: AtomicBool,
    measures: AtomicBool,
    /// Whether any page was ever locked.
    locks_pages: AtomicBool,
    thrashing: Mutex<Thrashing>,
    /// Whether it knows of a grant since a thread last called the library.
    granted: AtomicBool,
}

/// Nanoseconds of the clock that the timer knows.
pub(crate) fn now_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Windows {
    pub(crate) fn new() -> Result<Self, Error> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)
            .and_then(|timer| above_standard(timer).map_err(Errno::from_raw_os_error))
            .map_err(|errno| TransportError::System { call: "timerfd_create", errno })?;
        let [any, measures, locks_pages, granted] = [(); 4].map(|()| AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
        Ok(Self {
            timer,
            processors,
            open_windows: Mutex::default(),
            any,
            measures,
            locks_pages,
            thrashing: Mutex::default(),
            granted,
        })
    }

    /// The timer's descriptor.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.timer.as_raw_fd()
    }

    /// The timer rings then, and not before; false if the program has closed it.
    fn ring_at(&self, at_ns: u64) -> bool {
        let at = Timespec {
            tv_sec: (at_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_ok()
    }

    /// The helper ends its sleep at once.
    pub(crate) fn ring(&self) {
        let _ = self.ring_at(1);
    }
}

impl Windows {
    /// A thread is told to hold a minipage that it has wanted since then, after these turns of others: whether a
    /// window keeps it for it. `stepped`: [`Windows::is_through`] follows.
    pub(crate) fn begin(
        &self,
        (thread, minipage): (ThreadId, MinipageId),
        (since_ns, managed_here, kind): (u64, bool, Kind),
        (turns, urgent): (Turns, bool),
        stepped: bool,
    ) -> bool {
        if turns.count == 0 {
            return false;
        }
        let began = Moment::now();
        let mut open_windows = lock(&self.open_windows);
        let turn_began_ns = open_windows.turns.granted(minipage, began.processor_ns);
        self.measures.store(true, Ordering::Relaxed);
        let waited_ns = began.ns.saturating_sub(since_ns);
        let passage_ns = if managed_here { 0 } else { open_windows.turns.passage_ns() };
        let waited = (waited_ns, passage_ns);
        let Some(window) = window(turns, waited, self.processors) else { return false };
        // Readers have their turns side by side, and the first goes on until the last is through.
        let time_ns = match kind {
            Kind::Read => window.time_ns.min(window.processor_ns),
            Kind::Write => window.time_ns,
        };
        let ns = began.ns.saturating_add(time_ns);
        let ends = Moment { ns, processor_ns: turn_began_ns.saturating_add(window.processor_ns) };
        // Threads that have it run side by side, if there are processors for them.
        let same = open_windows.open.iter().filter(|window| window.minipage == minipage);
        let at_once = (1 + same.count() as u64).min(self.processors);
        let left_ns = ends.processor_ns.saturating_sub(began.processor_ns);
        let look_ns = ns.min(began.ns + left_ns / at_once);
        // A closed timer wakes nobody who sleeps on it: no window opens then.
        if open_windows.next_end_ns().is_none_or(|next_ns| look_ns < next_ns)
            && !self.ring_at(look_ns)
        {
            return false;
        }
        open_windows.open.push(OpenWindow {
            thread,
            minipage,
            began,
            ends,
            look_ns,
            stepped,
            urgent,
        });
        self.any.store(true, Ordering::Relaxed);
        true
    }

    /// A thread keeps a minipage that it was granted for so long, as the program asked: pins that go now,
    /// or none if nobody would end that.
    pub(crate) fn keep(
        &self,
        thread: ThreadId,
        minipage: MinipageId,
        delta_ns: u64,
    ) -> Option<Vec<EndedWindow>> {
        let ends_ns = now_ns().saturating_add(delta_ns);
        self.keep_until(ends_ns, |asked| asked.keep((minipage, thread), ends_ns))
    }

    /// A thread was granted a minipage to write that it has wanted since then, with this access before, and its node may
    /// keep it in its turn, the one of that node of so many: as above, and none if it does not thrash, or it is another's turn.
    pub(crate) fn keep_in_turn(
        &self,
        (thread, minipage): (ThreadId, MinipageId),
        before: Access,
        since_ns: u64,
        (node, nodes): (u64, u64),
    ) -> Option<Vec<EndedWindow>> {
        let mut thrashing = lock(&self.thrashing);
        self.granted.store(true, Ordering::Relaxed);
        if !thrashing.granted(minipage, before) {
            return None;
        }
        let now_ns = now_ns();
        let turn = Turn { node, nodes, clock_ns: read_ns(ClockId::Realtime) };
        let left_ns = thrashing.fault(minipage, (since_ns, now_ns), turn)?;
        drop(thrashing);
        let ends_ns = now_ns + left_ns;
        self.keep_until(ends_ns, |asked| asked.keep_until_wait((minipage, thread), ends_ns))
    }

    fn keep_until(
        &self,
        ends_ns: u64,
        keep: impl FnOnce(&mut RequestedWindows) -> Option<ThreadsMinipage>,
    ) -> Option<Vec<EndedWindow>> {
        let mut open_windows = lock(&self.open_windows);
        if open_windows.next_end_ns().is_none_or(|next_ns| ends_ns < next_ns)
            && !self.ring_at(ends_ns)
        {
            return None;
        }
        let before = keep(&mut open_windows.asked);
        self.any.store(true, Ordering::Relaxed);
        Some(before.map(EndedWindow::from).into_iter().collect())
    }

    /// A thread calls the library.
    pub(crate) fn called(&self) {
        if self.granted.load(Ordering::Relaxed) {
            let mut thrashing = lock(&self.thrashing);
            self.granted.store(false, Ordering::Relaxed);
            thrashing.called();
        }
    }

    /// Whether there may be one to end.
    pub(crate) fn may_be_open(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The instruction that waited for a minipage is through: true if no window keeps it.
    pub(crate) fn is_through(&self, thread: ThreadId, minipage: MinipageId) -> bool {
        !self.may_be_open() || lock(&self.open_windows).is_through(thread, minipage)
    }

    /// A thread is about to wait for something else: its windows are over.
    pub(crate) fn end_of(&self, thread: ThreadId) -> Vec<EndedWindow> {
        self.end(|open| {
            let mut ended = open.end(|window| window.thread == thread);
            ended.extend(open.asked.end_of(thread).into_iter().map(EndedWindow::from));
            ended
        })
    }

    /// A thread of this node wants to write a minipage, or an instruction gives it up: nobody keeps it
    /// for a while.
    pub(crate) fn end_on(&self, minipage: MinipageId) -> Vec<EndedWindow> {
        if self.measures.load(Ordering::Relaxed) {
            lock(&self.open_windows).turns.given_up(minipage);
        }
        self.end(|open| {
            let mut ended = open.end(|window| window.minipage == minipage);
            ended.extend(open.asked.end_on(minipage).into_iter().map(EndedWindow::from));
            ended
        })
    }

    /// Those whose time is over: the timer has rung.
    pub(crate) fn end_due(&self) -> Vec<EndedWindow> {
        let now_ns = now_ns();
        let ended = self.end(|open| {
            let due = open.open.iter().any(|window| window.look_ns <= now_ns);
            let now = due.then(Moment::now);
            let mut ended = open.end(|window| now.is_some_and(|now| window.is_over(now)));
            ended.extend(open.asked.end_due(now_ns).into_iter().map(EndedWindow::from));
            ended
        });
        let open_windows = lock(&self.open_windows);
        if let Some(next_ns) = open_windows.next_end_ns() {
            // Whatever it rang for, also if that is not due by this processor's clock.
            let _ = self.ring_at(next_ns);
        }
        drop(open_windows);
        ended
    }

    /// The token of a lock stays for a window: false if nobody would end that.
    pub(crate) fn keep_lock(&self, id: u64) -> bool {
        let now_ns = now_ns();
        let mut open_windows = lock(&self.open_windows);
        if let Some(windows) = open_windows.locks.iter_mut().find(|lock| lock.id == id) {
            windows.began_ns = now_ns;
            return true;
        }
        let windows = LockWindows::new(id, now_ns);
        let first = open_windows.next_end_ns().is_none_or(|next_ns| windows.look_ns < next_ns);
        if first && !self.ring_at(windows.look_ns) {
            return false;
        }
        open_windows.locks.push(windows);
        true
    }

    /// Locks whose windows are over: the timer has rung. [`Windows::end_due`] follows.
    pub(crate) fn locks_due(&self) -> Vec<u64> {
        let now_ns = now_ns();
        let mut open_windows = lock(&self.open_windows);
        let over =
            open_windows.locks.extract_if(.., |lock| lock.look_ns <= now_ns && lock.look(now_ns));
        over.map(|lock| lock.id).collect()
    }

    /// A thread has locked a minipage.
    pub(crate) fn lock_page(&self, thread: ThreadId, minipage: MinipageId) {
        lock(&self.open_windows).asked.lock((minipage, thread));
        self.locks_pages.store(true, Ordering::Relaxed);
    }

    /// Whether a thread has.
    pub(crate) fn has_locked(&self, thread: ThreadId, minipage: MinipageId) -> bool {
        lock(&self.open_windows).asked.locks((minipage, thread)) > 0
    }

    /// Whether any thread has.
    pub(crate) fn is_page_locked(&self, minipage: MinipageId) -> bool {
        self.locks_pages.load(Ordering::Relaxed)
            && lock(&self.open_windows).asked.is_locked(minipage)
    }

    /// It unlocks it, once.
    pub(crate) fn unlock_page(&self, thread: ThreadId, minipage: MinipageId) {
        lock(&self.open_windows).asked.unlock((minipage, thread));
    }

    /// All minipages that a thread has locked, each as often, which are not any more.
    pub(crate) fn unlock_pages_of(&self, thread: ThreadId) -> Vec<MinipageId> {
        if !self.locks_pages.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let unlocked = lock(&self.open_windows).asked.unlock_all_of(thread);
        unlocked.into_iter().map(|(minipage, _)| minipage).collect()
    }

    /// A thread that was told to hold a minipage lets it go: how long its node's turns are, in microseconds of
    /// processor time; 0 if that is not known. `released`: others wait for it, and another node manages it, so
    /// its passage begins.
    pub(crate) fn turn_us(&self, minipage: MinipageId, released: bool) -> u32 {
        if !self.measures.load(Ordering::Relaxed) {
            return 0;
        }
        let mut open_windows = lock(&self.open_windows);
        if !open_windows.turns.knows(minipage) {
            return 0;
        }
        let now = Moment::now();
        if released {
            open_windows.turns.released(minipage, now.ns);
        }
        open_windows.turns.turn_us(minipage, now.processor_ns)
    }

    /// Threads of this node lose access to a minipage.
    pub(crate) fn revoked(&self, minipage: MinipageId) {
        if self.measures.load(Ordering::Relaxed) {
            let mut open_windows = lock(&self.open_windows);
            if open_windows.turns.knows(minipage) {
                let now = Moment::now();
                open_windows.turns.revoked(minipage, now.processor_ns, now.ns);
                self.measures.store(open_windows.turns.measures(), Ordering::Relaxed);
            }
        }
    }

    /// Ends windows; the pins of those returned go now.
    fn end(&self, end: impl FnOnce(&mut OpenWindows) -> Vec<EndedWindow>) -> Vec<EndedWindow> {
        if !self.may_be_open() {
            return Vec::new();
        }
        let mut open_windows = lock(&self.open_windows);
        let before = open_windows.next_end_ns();
        let ended = end(&mut open_windows);
        match open_windows.next_end_ns() {
            // If it is closed it rings as it was set before, and the helper looks again and again.
            Some(next_ns) if before != Some(next_ns) => _ = self.ring_at(next_ns),
            Some(_) => {}
            None => self.any.store(false, Ordering::Relaxed),
        }
        ended
    }

    /// Sleeps until the timer rings.
    pub(crate) fn sleep(&self) {
        let mut rings = [0; 8];
        // A signal ends the wait early, which does no harm.
        if let Err(errno) = rustix::io::read(&self.timer, &mut rings)
            && errno != Errno::INTR
        {
            std::thread::sleep(WITHOUT_TIMER);
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    const THREAD: ThreadId = ThreadId(1);
    const PAGE: MinipageId = MinipageId(7);

    fn window(stepped: bool, look_ns: u64) -> OpenWindow {
        let ends = Moment { ns: look_ns, processor_ns: u64::MAX };
        let began = Moment::default();
        OpenWindow { thread: THREAD, minipage: PAGE, began, ends, look_ns, stepped, urgent: true }
    }

    #[test]
    fn a_timer_that_the_program_has_closed_or_put_something_else_in_its_place_does_not_ring() {
        let windows = Windows::new().unwrap();
        assert!(windows.ring_at(1));
        let other = std::fs::File::open("/dev/null").unwrap().into();
        assert!(!Windows { timer: other, ..windows }.ring_at(1));
    }

    /// Pins that go in this order of events: the step is through, a window ends.
    fn pins(windows: &[OpenWindow], events: &str) -> usize {
        let mut open_windows = OpenWindows { open: windows.to_vec(), ..OpenWindows::default() };
        let pins = |event| match event {
            't' => usize::from(open_windows.is_through(THREAD, PAGE)),
            _ => open_windows
                .next_end_ns()
                .map_or(0, |next| open_windows.end(|of| of.look_ns <= next).len()),
        };
        events.chars().map(pins).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no timers of this kind")]
    fn the_window_of_a_lock_that_its_thread_takes_again_is_not_over() {
        let windows = Windows::new().unwrap();
        assert!(windows.keep_lock(7) && windows.keep_lock(8));
        let began_ns = |of: usize| lock(&windows.open_windows).locks[of].began_ns;
        let first_ns = began_ns(1);
        while began_ns(1) == first_ns {
            assert!(windows.keep_lock(8));
        }
        let rings_ns = lock(&windows.open_windows).locks[1].look_ns;
        while now_ns() < rings_ns {}
        // A thread that comes back now, however long this one is kept from its processor.
        lock(&windows.open_windows).locks[1].began_ns = u64::MAX;
        assert_eq!(windows.locks_due(), [7]);
        assert_eq!(lock(&windows.open_windows).locks.len(), 1, "the other's goes on");
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

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no timers of this kind")]
    fn a_timer_that_rings_too_early_is_set_again() {
        let windows = Windows::new().unwrap();
        let far = now_ns() + 1_000_000_000_000;
        windows.any.store(true, Ordering::Relaxed);
        lock(&windows.open_windows).open.push(window(false, far));
        // On another processor's clock it was not yet due.
        windows.ring();
        windows.sleep();
        assert_eq!(windows.end_due(), []);
        let left = rustix::time::timerfd_gettime(&windows.timer).unwrap().it_value;
        assert!(left.tv_sec > 900, "it rings for the window that is open: {left:?}");
    }
}
