//! The way to the site: sockets that wait for the next call, and what a child of fork does about those of its parent.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicPtr, Ordering};
use std::os::fd::RawFd;
use std::sync::OnceLock;

use crate::cancellation;
use crate::datagrams::{Answered, Bytes, close, receive, result_of, send};
use crate::errno;
use crate::waits::Wait;
use crate::waits::{Blocked, await_answer, await_restarting};
use multigrain_types::sysv::{Ask, SITE_VARIABLE, TOKEN_BYTES};
use multigrain_types::{PAGE_BYTES, exit_codes};

/// Sockets of this process that nobody uses just now; -1 where there is none.
static IDLE: [AtomicI32; 32] = [const { AtomicI32::new(-1) }; 32];

/// All of them, so that a child can close those that its parent's other threads use. What finds no room here a child keeps until its exec.
static OPEN: [AtomicI32; 512] = [const { AtomicI32::new(-1) }; 512];
/// A page that the kernel empties in a child, whoever made that: 1 in who has the sockets.
static OWNED: AtomicPtr<u32> = AtomicPtr::new(null_mut());

/// This image of a process, among all of its site; 0 before the first call.
static IMAGE: AtomicI64 = AtomicI64::new(0);
/// The fork that this process comes from, if its parent had segments; 0 if not.
static FORK: AtomicI64 = AtomicI64::new(0);
/// Whether this process has, or had, segments: it has a userfaultfd then, which the site knows.
static GUARDED: AtomicBool = AtomicBool::new(false);

/// Whether the site has a userfaultfd of this process.
pub(crate) fn is_guarded() -> bool {
    GUARDED.load(Ordering::Relaxed)
}

pub(crate) fn set_guarded() {
    GUARDED.store(true, Ordering::Relaxed);
}

/// Where the site is, and what proves that this process may use it.
#[derive(Clone, Copy)]
struct Address {
    name: [u8; 64],
    length: usize,
    token: [u8; TOKEN_BYTES],
}

fn digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// As it was when this library was loaded: a program may clear its environment.
static ADDRESS: OnceLock<Address> = OnceLock::new();

/// Before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        if let Some(address) = of_environment() {
            let _ = ADDRESS.set(address);
        }
    }
    at_start
};

fn address() -> Option<Address> {
    ADDRESS.get().copied().or_else(of_environment)
}

fn of_environment() -> Option<Address> {
    let mut variable = [0; 32];
    variable[..SITE_VARIABLE.len()].copy_from_slice(SITE_VARIABLE.as_bytes());
    // SAFETY: a string that ends; the C library's own environment.
    let value = unsafe { libc::getenv(variable.as_ptr().cast()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv's strings end.
    let value = unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes();
    let colon = value.iter().position(|&byte| byte == b':')?;
    let mut address = Address { name: [0; 64], length: 0, token: [0; TOKEN_BYTES] };
    for (place, pair) in address.name.iter_mut().zip(value[..colon].chunks_exact(2)) {
        *place = digit(pair[0])? << 4 | digit(pair[1])?;
        address.length += 1;
    }
    let pairs = value[colon + 1..].chunks_exact(2);
    if pairs.len() != TOKEN_BYTES {
        return None;
    }
    for (place, pair) in address.token.iter_mut().zip(pairs) {
        *place = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(address)
}

/// The number of the next image: of this process, and at this time.
fn new_image() -> i64 {
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) };
    // SAFETY: zeroed is a timespec, too.
    let now = unsafe { now.assume_init() };
    // SAFETY: takes nothing.
    let pid = i64::from(unsafe { libc::getpid() });
    (pid << 40 ^ now.tv_sec << 30 ^ now.tv_nsec) & i64::MAX | 1
}

fn image() -> i64 {
    let new = new_image();
    let set = IMAGE.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
    set.err().unwrap_or(new)
}

/// A socket to the site, connected and introduced.
fn connect() -> Result<RawFd, c_int> {
    let Some(address) = address() else { return Err(libc::ENOSYS) };
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers.
    let low = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if low < 0 {
        return Err(errno());
    }
    let socket = raised(low);
    // SAFETY: zeroes are an address.
    let mut to: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    to.sun_family = libc::sa_family_t::try_from(libc::AF_UNIX).unwrap_or_default();
    // The first byte stays zero: an abstract name.
    for (place, byte) in to.sun_path[1..].iter_mut().zip(&address.name[..address.length]) {
        *place = byte.cast_signed();
    }
    let length = core::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + address.length;
    let length = libc::socklen_t::try_from(length).unwrap_or_default();
    // SAFETY: the address and its length.
    let connected = unsafe { libc::connect(socket, (&raw const to).cast(), length) };
    let hello = [image(), FORK.load(Ordering::Relaxed), 0, 0];
    let token = Bytes(address.token.as_ptr().cast_mut().cast(), TOKEN_BYTES);
    let introduced = if connected < 0 {
        Err(errno())
    } else {
        send(socket, Ask::Hello, hello, token, -1)
            .and_then(|()| receive(socket, Bytes::NONE))
            .and_then(|answered| result_of(&answered).map(|_| ()))
    };
    for place in &OPEN {
        if place.compare_exchange(-1, socket, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            break;
        }
    }
    introduced.map(|()| socket).map_err(|errno| {
        close_socket(socket);
        if !matches!(errno, libc::ECONNREFUSED | libc::ENOSYS) {
            return errno;
        }
        await_end();
        libc::ENOSYS
    })
}

/// Whether a descriptor is still a socket: a program may close what it does not know.
fn is_socket(descriptor: RawFd) -> bool {
    let (mut kind, mut length) = (0, 4);
    let place = (&raw mut kind).cast();
    // SAFETY: a place for an int, and its length.
    let asked = unsafe {
        libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_TYPE, place, &raw mut length)
    };
    asked == 0 && kind == libc::SOCK_SEQPACKET
}

fn close_socket(socket: RawFd) {
    for place in &OPEN {
        if place.compare_exchange(socket, -1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            break;
        }
    }
    close(socket);
}

/// Whether this is a child that nobody has told of (`_Fork`, clone): the sockets are its parent's.
fn is_unknown_child() -> bool {
    let owned = OWNED.load(Ordering::Relaxed);
    // SAFETY: a page of this library's, for good.
    !owned.is_null() && unsafe { owned.read_volatile() } == 0
}

/// The sockets are this process's from now on.
fn own_sockets() {
    let mut owned = OWNED.load(Ordering::Relaxed);
    if owned.is_null() {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new page.
        let page = unsafe { libc::mmap(null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return;
        }
        // SAFETY: that page.
        if unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
            return;
        }
        owned = page.cast();
        // SAFETY: that page.
        unsafe { owned.write_volatile(1) };
        OWNED.store(owned, Ordering::Relaxed);
        return;
    }
    // SAFETY: as in `is_unknown_child`.
    unsafe { owned.write_volatile(1) };
}

/// A child closes the sockets of its parent, on which that is in the middle of calls, and is another image.
fn leave_parent() {
    for place in &OPEN {
        let socket = place.load(Ordering::Relaxed);
        if socket >= 0 && is_socket(socket) {
            close(socket);
        }
    }
    forget_sockets();
}

fn forget_sockets() {
    IDLE.iter().chain(&OPEN).for_each(|place| place.store(-1, Ordering::Relaxed));
    IMAGE.store(0, Ordering::Relaxed);
    own_sockets();
}

/// Whether a child has the descriptors of its parent themselves (CLONE_FILES), and no copies.
fn shares_descriptors() -> bool {
    const KCMP_FILES: c_int = 2;
    // SAFETY: takes nothing.
    let own = unsafe { libc::getpid() };
    // SAFETY: takes nothing.
    let parent = unsafe { libc::getppid() };
    // SAFETY: takes numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, own, parent, KCMP_FILES, 0, 0) == 0 }
}

fn take() -> Result<RawFd, c_int> {
    if is_unknown_child() {
        // Its userfaultfd, if it has one, the site has alone.
        GUARDED.store(false, Ordering::Relaxed);
        FORK.store(0, Ordering::Relaxed);
        if shares_descriptors() {
            forget_sockets();
        } else {
            leave_parent();
        }
    }
    for place in &IDLE {
        let socket = place.load(Ordering::Relaxed);
        let took = socket >= 0
            && place.compare_exchange(socket, -1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if took && is_socket(socket) {
            return Ok(socket);
        }
    }
    if OWNED.load(Ordering::Relaxed).is_null() {
        own_sockets();
    }
    connect()
}

fn give_back(socket: RawFd) {
    for place in &IDLE {
        if place.compare_exchange(-1, socket, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
    }
    close_socket(socket);
}

/// Asks the site. Its answer's error number is an error.
pub(crate) fn ask(ask: Ask, arguments: [i64; 4], behind: Bytes) -> Result<i64, c_int> {
    exchange(ask, arguments, (behind, Bytes::NONE), -1, Wait::Answer).map(|it| it.result)
}

/// The same with bytes both ways, a descriptor to hand over or -1, and a way to wait.
pub(crate) fn exchange(
    ask: Ask,
    arguments: [i64; 4],
    both: (Bytes, Bytes),
    descriptor: RawFd,
    wait: Wait,
) -> Result<Answered, c_int> {
    without_cancellation(|| exchange_uncancelled(ask, arguments, both, descriptor, wait, false))
}

/// The same of a call that waits, and is a cancellation point: [`cancellation::ENDED`] if it was ended for that.
pub(crate) fn exchange_at_point(
    ask: Ask,
    arguments: [i64; 4],
    both: (Bytes, Bytes),
    wait: Wait,
) -> Result<Answered, c_int> {
    without_cancellation(|| exchange_uncancelled(ask, arguments, both, -1, wait, true))
}

fn without_cancellation<T>(call: impl FnOnce() -> T) -> T {
    let mut state = 0;
    // A thread that is cancelled amid a call would leave its socket in the middle of one.
    // SAFETY: a place for an int.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut state) };
    let answered = call();
    // SAFETY: null is no place.
    unsafe { pthread_setcancelstate(state, null_mut()) };
    answered
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE.
const CANCEL_DISABLE: c_int = 1;

fn exchange_uncancelled(
    ask: Ask,
    arguments: [i64; 4],
    (behind, into): (Bytes, Bytes),
    descriptor: RawFd,
    wait: Wait,
    is_point: bool,
) -> Result<Answered, c_int> {
    let blocked = match wait {
        Wait::Answer | Wait::Event(_) => Some(Blocked::new()),
        Wait::Restarting => None,
    };
    let socket = take()?;
    let mut sent = send(socket, ask, arguments, behind, descriptor);
    if sent == Err(libc::EFAULT) {
        give_back(socket);
        return Err(libc::EFAULT);
    }
    let no_signals = || if blocked.is_none() { Some(Blocked::new()) } else { None };
    if is_point && sent.is_ok() {
        let _no_signals = no_signals();
        cancellation::begins(socket);
    }
    if sent.is_ok()
        && let Some(over) = match (wait, &blocked) {
            (Wait::Event(within_ns), Some(blocked)) => await_answer(socket, within_ns, blocked),
            (Wait::Restarting, _) => await_restarting(socket),
            (Wait::Answer | Wait::Event(_), _) => None,
        }
    {
        sent = send(socket, Ask::Cancel, [over.into(), 0, 0, 0], Bytes::NONE, -1);
    }
    let answered = sent.and_then(|()| receive(socket, into));
    let is_ended = is_point && {
        let _no_signals = no_signals();
        cancellation::ends()
    };
    match answered {
        Ok(answered) => {
            give_back(socket);
            match result_of(&answered) {
                Err(libc::EINTR) if is_ended => Err(cancellation::ENDED),
                result => result.map(|_| answered),
            }
        }
        Err(errno) => {
            close_socket(socket);
            if errno == libc::ENOSYS {
                await_end();
                end_without_site();
            }
            Err(errno)
        }
    }
}

/// The site is gone, and this process is about to be killed: a call is not to fail before.
fn await_end() {
    let time = libc::timespec { tv_sec: 3, tv_nsec: 0 };
    // SAFETY: a time, and no place for what is left of it.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, null_mut::<libc::timespec>()) };
}

/// Nobody has ended this process with its site: the way there was cut, or the job is over and this process is what it has left. Its
/// memory and its semaphores are lost to it, and what it asked for may have been done or not: no error would be a true answer.
fn end_without_site() -> ! {
    const LINE: &[u8] =
        b"multigrain: a process has lost its site, with its segments and semaphores, and ends\n";
    // Where nobody reads stderr, SIGPIPE is not to be the process's end, nor to run a handler of the program.
    let _no_signals = Blocked::new();
    // SAFETY: bytes and their length.
    unsafe { libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len()) };
    // SAFETY: ends this process; nothing of the program is run.
    unsafe { libc::_exit(exit_codes::PEER_LOST.into()) }
}

/// Announces a fork, if the process has segments.
pub(crate) fn before_fork() {
    if !is_guarded() {
        return;
    }
    let mut number = 0_u64;
    // SAFETY: a place of that size.
    unsafe { libc::syscall(libc::SYS_getrandom, &raw mut number, size_of::<u64>(), 0) };
    // Nobody can guess it: who knows it is the child.
    let number = (number >> 1 | 1).cast_signed();
    FORK_NUMBER.store(number, Ordering::Relaxed);
    // Where it fails the child is as one of `_Fork`.
    let _ = ask(Ask::Fork, [number, 0, 0, 0], Bytes::NONE);
}

/// The number of the fork under way.
static FORK_NUMBER: AtomicI64 = AtomicI64::new(0);

/// The child has no sockets, and is another image.
pub(crate) fn in_child() {
    leave_parent();
    if !is_guarded() {
        return;
    }
    FORK.store(FORK_NUMBER.load(Ordering::Relaxed), Ordering::Relaxed);
    let none = (Bytes::NONE, Bytes::NONE);
    match exchange(Ask::Forked, [0; 4], none, -1, Wait::Answer) {
        // It stays open: where the site dies, accesses wait for ever, and the process dies with it.
        Ok(answered) => {
            raised(answered.descriptor);
        }
        // Its parent had no segment any more.
        Err(libc::EINVAL) => GUARDED.store(false, Ordering::Relaxed),
        // Nobody guards its mappings: holes would be zeros, in all processes of the site.
        Err(libc::ENOSYS) => {
            // SAFETY: ends this process; nothing of the program is run.
            unsafe { libc::_exit(exit_codes::PEER_LOST.into()) }
        }
        // It has no descriptor left: the site guards it, as long as that lives.
        Err(_) => {}
    }
}

/// A descriptor in a place beside the numbers that a program expects to get.
pub(crate) fn raised(low: RawFd) -> RawFd {
    // SAFETY: takes numbers.
    let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 600) };
    if high < 0 {
        return low;
    }
    close(low);
    high
}
