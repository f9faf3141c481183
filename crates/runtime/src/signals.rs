//! Which signals a thread of the runtime lets through: none; the program's handlers must not run
//! there.

#![expect(unsafe_code, reason = "the C library's signal sets and masks")]

/// All signals blocked in this thread until dropped.
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    pub(crate) fn block_all() -> Self {
        // SAFETY: all-zero bytes are a valid signal set.
        let mut all: libc::sigset_t = unsafe { core::mem::zeroed() };
        let mut before = all;
        // SAFETY: `all` is a valid place.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: both sets live through the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self(before)
    }

    /// No signal blocked, for good.
    pub(crate) fn clear() {
        // SAFETY: all-zero bytes are the empty signal set on Linux.
        let none: libc::sigset_t = unsafe { core::mem::zeroed() };
        // SAFETY: the set lives through the call.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, core::ptr::null_mut()) };
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: the set lives through the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, core::ptr::null_mut())
        };
    }
}
