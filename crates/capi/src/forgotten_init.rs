//! A program that ends and never called `mg_init`, though it called something else: one line. Whoever looks at no code
//! would see nothing but results that are wrong.

use core::sync::atomic::{AtomicU8, Ordering};
use std::io::Write as _;

const NOTHING_CALLED: u8 = 0;
const INIT_CALLED: u8 = 1;
const CALLED_WITHOUT: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOTHING_CALLED);

/// `mg_init` is called, well or not.
pub(crate) fn init_called() {
    STATE.store(INIT_CALLED, Ordering::Relaxed);
}

/// A call has failed because this process is no node. It may be one later.
pub(crate) fn called_without() {
    let relaxed = Ordering::Relaxed;
    let _ = STATE.compare_exchange(NOTHING_CALLED, CALLED_WITHOUT, relaxed, relaxed);
}

extern "C" fn tell() {
    if STATE.load(Ordering::Relaxed) == CALLED_WITHOUT {
        let line = "multigrain: this program never called mg_init, so all calls of the library failed \
                    (MG_ENOTINIT): call mg_init first in main\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Called by the C library as the process ends, or this library goes; unlike `atexit` it needs no call to ask for it,
/// which a handler of a signal could not make.
#[used]
#[unsafe(link_section = ".fini_array")]
static TELL: extern "C" fn() = tell;
