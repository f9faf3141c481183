//! Coverage marks: which rows of Figure 22 have run on this thread. The golden tests compare them with the table.
//!
//! In builds with debug assertions only; elsewhere a mark is nothing. This is no feature of the crate, since tests
//! and programs would then need separate builds. Nothing is recorded until a test asks for it: a node passes marks
//! in signal handlers, where thread-local storage of a shared library may have to be allocated.

#[cfg(debug_assertions)]
pub use self::reached::{Mark, take_reached};

/// Notes that a row runs: `mark!(Row)`, or `mark!(Row, or Other if condition)`.
macro_rules! mark {
    ($row:ident) => {
        #[cfg(debug_assertions)]
        $crate::mgs::row_coverage::note($crate::mgs::row_coverage::Mark::$row);
    };
    ($row:ident, or $other:ident if $condition:expr) => {
        #[cfg(debug_assertions)]
        $crate::mgs::row_coverage::note(if $condition {
            $crate::mgs::row_coverage::Mark::$other
        } else {
            $crate::mgs::row_coverage::Mark::$row
        });
    };
}
pub(super) use mark;
#[cfg(debug_assertions)]
pub(super) use reached::note;

#[cfg(debug_assertions)]
mod reached {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicBool, Ordering};

    macro_rules! marks {
        ($($mark:ident,)*) => {
            /// A row of the engines that runs.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[expect(missing_docs, reason = "the rows say what each one is")]
            pub enum Mark {
                $($mark,)*
            }

            impl Mark {
                /// All of them.
                pub const ALL: &[Self] = &[$(Self::$mark,)*];
            }
        };
    }

    marks! {
        // Client, faults.
        SpuriousFault,
        WriteClean,
        Upgrade,
        AskRead,
        AskWrite,
        JoinWait,
        Prefetch,
        ReadData,
        WriteData,
        // Client, releases.
        Release,
        ReleasePassed,
        ReleaseAck,
        // Client, invalidations.
        InvalidateRead,
        InvalidateClean,
        InvalidateSingle,
        InvalidateWritten,
        InvalidateUnreleased,
        InvalidateAllocated,
        SingleInvalidate,
        SingleInvalidateClean,
        SingleGrant,
        // Server, copies.
        ServeRead,
        ServeWrite,
        WriteNotify,
        // Server, releases.
        ReleaseAll,
        ReleaseReaders,
        ReleaseKeeper,
        ReleaseSingle,
        QueueRead,
        QueueWrite,
        QueueRelease,
        ReleaseAgain,
        LateNotify,
        CountAck,
        CountDiff,
        CountData,
        LastAck,
        LastDiff,
        LastData,
        KeeperOutdated,
        // Server, single writer.
        SingleAckBusy,
        SingleAck,
        ThirdRead,
        ThirdWrite,
    }

    /// Whether a test has asked.
    static ASKED: AtomicBool = AtomicBool::new(false);

    std::thread_local! {
        static REACHED: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn note(mark: Mark) {
        if ASKED.load(Ordering::Relaxed) {
            REACHED.with(|reached| reached.set(reached.get() | 1 << (mark as u8)));
        }
    }

    /// The rows that have run on this thread since the last call, in the order of the enum. Marks are noted from
    /// the first call on.
    #[must_use]
    pub fn take_reached() -> Vec<Mark> {
        ASKED.store(true, Ordering::Relaxed);
        let reached = REACHED.take();
        Mark::ALL.iter().copied().filter(|&mark| reached >> (mark as u8) & 1 == 1).collect()
    }
}
