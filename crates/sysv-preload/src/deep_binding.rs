//! dlopen(3) without RTLD_DEEPBIND: a library that is opened so (PHP opens its extensions so) looks for functions in its own libraries
//! before this one, and would find the C library's System V calls.

use core::ffi::{c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The C library's.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Finds it before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        find();
    }
    at_start
};

fn find() -> *mut c_void {
    // SAFETY: a string that ends.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    NEXT.store(next, Ordering::Relaxed);
    next
}

/// dlopen(3). A jump, so that the C library sees who has called, in whose directories (DT_RUNPATH) and namespace it is to look.
///
/// # Safety
/// As the C library's: a string or null.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "and esi, {kept}",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz {first}",
        "jmp rax",
        kept = const !libc::RTLD_DEEPBIND,
        next = sym NEXT,
        first = sym first,
    )
}

/// The constructor of a library has called before this one's has run.
extern "C" fn first(file: *const c_char, flags: c_int) -> *mut c_void {
    type Function = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    let next = find();
    if next.is_null() {
        return next;
    }
    // SAFETY: the C library's function of this name.
    let function = unsafe { transmute::<*mut c_void, Function>(next) };
    // SAFETY: the caller's arguments.
    unsafe { function(file, flags) }
}
