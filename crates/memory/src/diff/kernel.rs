//! Which instructions read and write lines (scalar, AVX2, AVX-512): chosen once, at run time.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use super::compare::Scalar;
use super::format::Diff;
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Others, apply, encode};

/// A way to make and apply diffs that works on this processor; all have the same results.
///
/// Miri knows the reference only, unless it runs with `-C target-feature=+avx512bw` or the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel(Kind);

/// Numbered from 1 on in the order of [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Scalar = 1,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// In the order of preference.
#[cfg(target_arch = "x86_64")]
const KINDS: &[Kind] = &[Kind::Scalar, Kind::Avx2, Kind::Avx512];
/// In the order of preference.
#[cfg(not(target_arch = "x86_64"))]
const KINDS: &[Kind] = &[Kind::Scalar];

impl Kind {
    fn works(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => x86::has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::has_avx512(),
        }
    }
}

impl Kernel {
    /// The reference: ordinary instructions.
    pub const SCALAR: Self = Self(Kind::Scalar);

    /// The kernels that work on this processor, the reference first and the best last.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().copied().filter(|kind| kind.works()).map(Self)
    }

    /// The fastest kernel. Found out by the first call; for signal context too.
    #[must_use]
    #[inline]
    pub fn best() -> Self {
        // Its number, 0 for unknown. Threads that find out at the same time find the same.
        static BEST: AtomicU8 = AtomicU8::new(0);
        match BEST.load(Ordering::Relaxed) {
            0 => {
                let best = Self::all().last().unwrap_or(Self::SCALAR);
                BEST.store(best.0 as u8, Ordering::Relaxed);
                best
            }
            number => Self(KINDS[usize::from(number) - 1]),
        }
    }

    /// [`encode`](super::encode()) by this kernel.
    ///
    /// # Panics
    /// As for that.
    ///
    /// # Safety
    /// As for that.
    #[inline]
    pub unsafe fn encode(self, twin: &[u8], page: *const u8, out: &mut Vec<u8>) -> usize {
        match self.0 {
            // SAFETY: the caller's promise.
            Kind::Scalar => unsafe { encode::encode::<Scalar>(twin, page, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise; the kernel works here, or it would not have been made.
            Kind::Avx2 => unsafe { x86::encode_avx2(twin, page, out) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { x86::encode_avx512(twin, page, out) },
        }
    }

    /// [`differs`](super::differs()) by this kernel.
    ///
    /// # Safety
    /// As for that.
    #[must_use]
    #[inline]
    pub unsafe fn differs(self, twin: &[u8], page: *const u8) -> bool {
        match self.0 {
            // SAFETY: the caller's promise.
            Kind::Scalar => unsafe { encode::differs::<Scalar>(twin, page) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise; the kernel works here, or it would not have been made.
            Kind::Avx2 => unsafe { x86::differs_avx2(twin, page) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { x86::differs_avx512(twin, page) },
        }
    }

    /// [`Diff::apply`] by this kernel.
    ///
    /// # Safety
    /// As for that.
    #[inline]
    pub unsafe fn apply(self, diff: &Diff<'_>, page: *mut u8, others: Others) {
        match self.0 {
            // SAFETY: the caller's promise.
            Kind::Scalar => unsafe { apply::apply::<Scalar>(diff, page, others) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller's promise; the kernel works here, or it would not have been made.
            Kind::Avx2 => unsafe { x86::apply_avx2(diff, page, others) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx512 => unsafe { x86::apply_avx512(diff, page, others) },
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.0 {
            Kind::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
        })
    }
}
