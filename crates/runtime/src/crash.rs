//! Accesses that end the program: the launcher is told the address, for its one line about this node.
//!
//! Runs in signal context, in a thread that may have been in the middle of malloc: nothing here allocates
//! or takes a lock. A handler that the program installed comes first; only if the signal is left to its
//! default action is there anything to tell.

#![expect(unsafe_code, reason = "reads what the kernel says of a signal")]

use core::ffi::{c_int, c_void};
use core::fmt;

use multigrain_memory::{Memory, instruction};
use multigrain_types::Access;

/// Accesses so low are through a NULL pointer, to a field or an element perhaps: nothing can be mapped
/// there (`vm.mmap_min_addr`).
const NEAR_NULL: usize = 64 << 10;

/// What is refused so near to the stack pointer is the end of the stack: code that puts more there has moved
/// the pointer before.
const NEAR_STACK: usize = 64 << 10;

/// No stack is looked through for more than this: that of the main thread has arguments and environment above it, which may
/// be megabytes.
const MOST_STACK: usize = 16 << 20;

const PAGE: usize = 4096;

/// Nothing is mapped there, rather than protected (asm-generic/siginfo.h).
const SEGV_MAPERR: c_int = 1;

/// Whether this process may read there: of much that is reserved, by the C library for its heaps and stacks among others,
/// it may nothing. No answer from the system counts as yes.
fn is_readable(address: usize) -> bool {
    let mut byte = 0_u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: 1 };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: one byte is written into `byte`; what cannot be read is an error.
    let read = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    read == 1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// Where the thread's stack pointer was.
pub(crate) fn stack_pointer(context: *const c_void) -> Option<usize> {
    if context.is_null() {
        return None;
    }
    let context = context.cast::<libc::ucontext_t>();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: not null, so the kernel's own context of the signal being handled.
    let pointer = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] }.cast_unsigned();
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    let pointer = unsafe { (*context).uc_mcontext.sp };
    usize::try_from(pointer).ok()
}

/// Where the thread's control block is, which the C library has at the upper end of the stack of each thread that it
/// starts. From the processor: what is stored in the block may be overwritten.
fn thread_pointer() -> Option<usize> {
    let mut pointer = 0_usize;
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_GET_FS: c_int = 0x1003;
        // SAFETY: the kernel writes a word there.
        let got = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &raw mut pointer) };
        (got == 0).then_some(pointer)
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: reads a register.
        unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack)) };
        Some(pointer)
    }
}

/// Whether the stack goes from the thread's stack pointer up to `address`, and ends there. A full stack ends at its lower
/// end: the pointer is there too, where nothing is, or beyond the guard on the stack of another thread, and then the
/// thread's own control block is higher than `address`.
fn is_above_stack(address: usize, pointer: usize, memory: &Memory) -> bool {
    // A look at shared memory may wait for other nodes.
    let may_look = |address| !memory.reserves(address);
    let (first, last) = (pointer / PAGE, address / PAGE);
    if first >= last || address - pointer > MOST_STACK {
        return false;
    }
    let is_full = thread_pointer().is_some_and(|own| own > address && own - address < MOST_STACK);
    !is_full
        && (first..last).all(|page| may_look(page * PAGE) && is_readable(page * PAGE + PAGE - 1))
        && may_look(address)
        && !is_readable(address)
}

/// Where the instruction begins that was refused; behind a trap, the next one.
fn instruction_at(context: *const c_void) -> usize {
    if context.is_null() {
        return 0;
    }
    // SAFETY: not null, so the kernel's own context of the signal being handled.
    unsafe { instruction(context) }
}

/// Bytes of the thread's alternate stack, if it has one of less than the processor's state takes there.
fn small_alternate_stack(context: *const c_void) -> Option<usize> {
    /// What older systems need, and the least that any `sigaltstack` takes.
    const LEAST: usize = 2048;
    if context.is_null() {
        return None;
    }
    // SAFETY: not null, so the kernel's own context of the signal being handled.
    let stack = unsafe { (*context.cast::<libc::ucontext_t>()).uc_stack };
    // SAFETY: looks it up in what the kernel gave the process.
    let needed = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    let needed = usize::try_from(needed).unwrap_or_default().max(LEAST);
    // A thread that never had one may have no flag that says so, but it has a size of 0.
    let has_one = stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size > 0;
    (has_one && stack.ss_size < needed).then_some(stack.ss_size)
}

/// Where an access went that the processor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The processor does not say: an address that is none, or misaligned for its instruction.
    Unknown,
    /// A handler could not be called: its alternate stack, of so many bytes, holds less than the kernel puts there first.
    SmallStack(usize),
    /// In a job of one node, NULL has no more to it than elsewhere.
    At(usize),
    /// Through a NULL pointer, with other nodes in the job.
    NearNull(usize),
    /// Where this node maps nothing, with other nodes in the job: their own memory may lie there.
    NotMapped(usize),
    /// An instruction was looked for in shared memory.
    NoCode(usize),
    /// In shared memory that the program has unmapped or replaced, by a system call of its own.
    Unmapped(usize),
    /// Shared memory may lie there, and none does.
    Unallocated(usize),
    /// In a named segment that this node is not attached to, or only to read.
    Detached(usize),
    AttachedToRead(usize),
    /// At the thread's own stack pointer, where its stack has ended.
    StackFull(usize),
    /// Above all that is on the thread's stack.
    StackOverrun(usize),
    /// Not an access: a breakpoint or a step, which nobody handles, and the instruction behind.
    Trapped {
        next: usize,
        code: c_int,
    },
}

impl Crash {
    /// The access behind a signal, if it came from one.
    pub(crate) fn of(
        signal: c_int,
        info: *const libc::siginfo_t,
        context: *const c_void,
        memory: &Memory,
        nodes: u16,
    ) -> Option<Self> {
        if !matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGTRAP) || info.is_null() {
            return None;
        }
        // SAFETY: not null, so the kernel's own siginfo_t of the signal being handled.
        let info = unsafe { &*info };
        match info.si_code {
            // Somebody's kill.
            ..=0 => None,
            code if signal == libc::SIGTRAP => {
                Some(Self::Trapped { next: instruction_at(context), code })
            }
            libc::SI_KERNEL => {
                Some(small_alternate_stack(context).map_or(Self::Unknown, Self::SmallStack))
            }
            _ => {
                // SAFETY: both signals carry an address with these codes.
                let address = unsafe { info.si_addr() }.addr();
                let pointer = stack_pointer(context);
                Some(if pointer.is_some_and(|pointer| is_above_stack(address, pointer, memory)) {
                    Self::StackOverrun(address)
                } else if pointer.is_some_and(|pointer| pointer.abs_diff(address) < NEAR_STACK) {
                    Self::StackFull(address)
                } else if memory.reserves(address) {
                    let area = memory.translate(address).map(|minipage| minipage.area());
                    match area.map(|area| memory.limit(area)) {
                        Some(Access::NoAccess) => Self::Detached(address),
                        Some(Access::ReadOnly) => Self::AttachedToRead(address),
                        Some(Access::ReadWrite) if instruction_at(context) == address => {
                            Self::NoCode(address)
                        }
                        // Says nothing about mappings.
                        Some(Access::ReadWrite) if signal == libc::SIGBUS => Self::At(address),
                        Some(Access::ReadWrite) => Self::Unmapped(address),
                        None => Self::Unallocated(address),
                    }
                } else if address < NEAR_NULL && nodes > 1 {
                    Self::NearNull(address)
                } else if nodes > 1
                    && signal == libc::SIGSEGV
                    && (info.si_code == SEGV_MAPERR || !is_readable(address))
                    && instruction_at(context) != address
                {
                    Self::NotMapped(address)
                } else {
                    Self::At(address)
                })
            }
        }
    }
}

/// What follows "was killed by signal 11 (SIGSEGV)".
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(
                "at an address that cannot be: a damaged pointer, or one misaligned for its \
                 instruction",
            ),
            Self::SmallStack(bytes) => write!(
                f,
                "as a signal came: the alternate stack of {bytes} bytes has no room for the processor's state; give \
                 sigaltstack 64 KiB"
            ),
            Self::At(address) => write!(f, "at address {address:#x}"),
            Self::NearNull(address) => write!(
                f,
                "at address {address:#x}, near NULL: globals are private to a node; what one node \
                 keeps there others find by mg_publish and mg_lookup"
            ),
            Self::NotMapped(address) => write!(
                f,
                "at address {address:#x}, where this node has no memory: malloc, stacks and globals are \
                 private to a node; nodes share what mg_malloc gives"
            ),
            Self::StackFull(address) => write!(
                f,
                "at address {address:#x}, beyond the end of its thread's stack: a recursion without end, or a \
                 larger stack is needed (ulimit -s, stack_bytes of mg_thread_attr)"
            ),
            Self::StackOverrun(address) => write!(
                f,
                "at address {address:#x}, where its thread's stack begins: something on the stack, a local \
                 array perhaps, was accessed past its end"
            ),
            Self::Detached(address) => write!(
                f,
                "at address {address:#x}, in a named segment that this node is not attached to: \
                 mg_segment_attach comes first, and nothing after mg_segment_detach"
            ),
            Self::AttachedToRead(address) => write!(
                f,
                "at address {address:#x}, in a named segment that this node is attached to for reading alone"
            ),
            Self::NoCode(address) => write!(
                f,
                "at address {address:#x}, in shared memory, which holds data and no code: the pointer to a function \
                 is damaged, or is no such pointer"
            ),
            Self::Unmapped(address) => write!(
                f,
                "at address {address:#x}, in shared memory that this program has unmapped, protected or \
                 replaced by a system call of its own: only mg_free takes it away"
            ),
            Self::Trapped { next, code } => write!(
                f,
                "before instruction {next:#x}: a breakpoint or a single step (si_code {code}), and the program has no handler for it"
            ),
            Self::Unallocated(address) => write!(
                f,
                "at address {address:#x}, where shared memory may lie, but none is allocated"
            ),
        }
    }
}
