//! Which other thread of the job a thread waits for: kept beside its slot, for the deadlock detection.

use core::sync::atomic::Ordering;

use multigrain_types::deadlock::BlockingCall;

use crate::frames::MAX_NAME;
use crate::shim::AtomicU64;

/// Room for the longest name, in words of 8 bytes.
const NAME_WORDS: usize = MAX_NAME.div_ceil(8);

/// Beside the first word of a call where a time ends the wait.
const TIMED: u64 = 1 << 32;

/// Above any number of threads.
const WHOLE: u64 = 1 << 32;

/// Written by the thread that waits, read by any.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// Where it waits ([`BlockingCall::to_words`]), and [`TIMED`]; 0 where it runs, or waits for something that comes by itself.
    call: AtomicU64,
    /// The second word, written before the first.
    id: AtomicU64,
    /// How often a thread has begun to wait so.
    waits_begun: AtomicU64,
    /// How many threads are to come to the barrier where it waits, and [`WHOLE`] if they are all threads of a large job.
    expected: AtomicU64,
    /// The handle of the thread, if Multigrain has started it, by which others wait for its end; else 0.
    handle: AtomicU64,
    /// The name it waits for: its bytes, and zeros behind them.
    name: [AtomicU64; NAME_WORDS],
}

impl Awaited {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self {
            call: AtomicU64::new(0),
            id: AtomicU64::new(0),
            waits_begun: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            handle: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; NAME_WORDS],
        }
    }

    /// The thread waits from now on, for no longer than `wait` takes, and what it has asked for is sent. `timed`: the
    /// protocol ends the wait at some time.
    pub(crate) fn wait_at<R>(
        &self,
        call: BlockingCall,
        timed: bool,
        wait: impl FnOnce() -> R,
    ) -> R {
        self.waits_begun.fetch_add(1, Ordering::SeqCst);
        let (call, id) = call.to_words();
        self.id.store(id, Ordering::SeqCst);
        self.call.store(call | if timed { TIMED } else { 0 }, Ordering::SeqCst);
        let result = wait();
        self.call.store(0, Ordering::SeqCst);
        result
    }

    /// Whether the thread waits: what it does besides is done by a handler of a signal.
    pub(crate) fn is_waiting(&self) -> bool {
        self.call.load(Ordering::SeqCst) != 0
    }

    /// The thread is about to wait with so many others at a barrier.
    pub(crate) fn set_expected(&self, threads: u32, whole: bool) {
        self.expected.store(u64::from(threads) | if whole { WHOLE } else { 0 }, Ordering::Release);
    }

    /// The thread that has the slot from now on has this handle, or 0.
    pub(crate) fn set_handle(&self, handle: u64) {
        self.handle.store(handle, Ordering::SeqCst);
    }

    /// What others wait for who join this thread.
    pub(super) fn own_end(&self) -> Option<BlockingCall> {
        let handle = self.handle.load(Ordering::SeqCst);
        (handle > 0).then_some(BlockingCall::Join(handle))
    }

    /// The thread is about to wait for this name.
    pub(crate) fn set_name(&self, name: &[u8]) {
        let mut chunks = name.chunks(8);
        for word in &self.name {
            let mut bytes = [0; 8];
            let chunk = chunks.next().unwrap_or_default();
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Ordering::SeqCst);
        }
    }

    /// Where the thread waits, whether a time ends that, and in which wait; none if it does not wait, or did not all the time
    /// that `waits` says that it does.
    pub(super) fn call(&self, waits: impl FnOnce() -> bool) -> Option<(BlockingCall, bool, u64)> {
        let wait = self.waits_begun.load(Ordering::SeqCst);
        let word = self.call.load(Ordering::SeqCst);
        let call = BlockingCall::from_words(word & !TIMED, self.id.load(Ordering::SeqCst))?;
        let same = waits() && self.waits_begun.load(Ordering::SeqCst) == wait;
        same.then_some((call, word & TIMED != 0, wait))
    }

    /// How many threads are to come to its barrier, and whether they are all threads of a large job.
    pub(super) fn expected(&self) -> (u32, bool) {
        let expected = self.expected.load(Ordering::SeqCst);
        (u32::try_from(expected & !WHOLE).unwrap_or(u32::MAX), expected & WHOLE != 0)
    }

    /// The name.
    pub(super) fn name(&self) -> String {
        let words = self.name.iter().map(|word| word.load(Ordering::SeqCst).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }
}
