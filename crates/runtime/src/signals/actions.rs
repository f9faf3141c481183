//! The program's actions for signals that the runtime handles.
//!
//! Handlers read them while any thread may change them, so they lie under a sequence lock: no reader waits for a
//! thread that it has interrupted, since a thread that changes them has all signals blocked.

#![expect(unsafe_code, reason = "the C library's structure of an action")]

use core::ffi::c_int;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use super::{OURS, Set, SignalMask, set_of, sigset_of};

/// What is done about a signal: the parts of `struct sigaction` that a program gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    /// SIG_DFL, SIG_IGN or a function.
    pub(super) handler: usize,
    pub(super) flags: c_int,
    pub(super) mask: Set,
}

impl Action {
    pub(super) const DEFAULT: Self = Self { handler: libc::SIG_DFL, flags: 0, mask: 0 };

    pub(super) fn of(action: &libc::sigaction) -> Self {
        let mask = set_of(&action.sa_mask);
        Self { handler: action.sa_sigaction, flags: action.sa_flags, mask }
    }

    pub(super) fn to_sigaction(self) -> libc::sigaction {
        // SAFETY: all-zero bytes are a valid sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        action.sa_mask = sigset_of(self.mask);
        action
    }

    /// Whether a function is called.
    pub(super) fn calls(self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }
}

/// The place of an action.
#[derive(Debug)]
pub(super) struct ActionCell {
    /// Odd while the rest is being changed.
    version: AtomicU32,
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static PLACES: [ActionCell; OURS.len()] = [const { ActionCell::new() }; OURS.len()];

/// The place of one of [`OURS`].
pub(super) fn place(signal: c_int) -> Option<&'static ActionCell> {
    PLACES.get(OURS.iter().position(|ours| *ours == signal)?)
}

impl ActionCell {
    const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> Action {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let action = self.read();
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return action;
            }
            spin_loop();
        }
    }

    /// Puts another one in its place, and returns it.
    pub(super) fn replace(&self, action: Action) -> Action {
        let masked = SignalMask::block_all();
        let even = |version: u32| version.is_multiple_of(2).then_some(version + 1);
        while self.version.fetch_update(Ordering::Acquire, Ordering::Relaxed, even).is_err() {
            spin_loop();
        }
        fence(Ordering::Release);
        let before = self.read();
        self.handler.store(action.handler, Ordering::Relaxed);
        self.flags.store(action.flags, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        drop(masked);
        before
    }

    fn read(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
            mask: self.mask.load(Ordering::Relaxed),
        }
    }
}

#[cfg(all(test, not(miri), not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_whole_while_it_is_replaced() {
        static SHARED: ActionCell = ActionCell::new();
        let of = |number: u8| {
            let (handler, flags) = (usize::from(number), i32::from(number));
            Action { handler, flags, mask: number.into() }
        };
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    (0..20_000u32).for_each(|turn| {
                        let _ = SHARED.replace(of(turn.to_le_bytes()[0] ^ thread));
                    });
                });
            }
            for _ in 0..20_000 {
                let Action { handler, flags, mask } = SHARED.get();
                assert_eq!((handler as u64, u64::from(flags.cast_unsigned())), (mask, mask));
            }
        });
    }

    #[test]
    fn the_c_library_s_structure_comes_back_as_it_was() {
        let action = Action { handler: 77, flags: libc::SA_NODEFER, mask: 1 << 63 | 5 };
        assert_eq!(Action::of(&action.to_sigaction()), action);
    }
}
