//! A small node: a state per minipage, a lock around it, and a handler that grants whatever
//! a trap asks for. Traps are counted per thread.
#![expect(unsafe_code, reason = "installs signal handlers and touches views")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::cell::Cell;
use std::ffi::c_void;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{siginfo_t, ucontext_t};
use multigrain_memory::{
    AccessPath, Area, Config, GuardChoice, GuardKind, Memory, MemoryError, Object, SegmentId,
    Shape, Trap, VIEW_ALIGN, VIEWS_BASE,
};
use multigrain_types::{
    Access, AreaId, Consistency, MinipageId, PAGE_BYTES, Placement, SegmentPolicy,
};

pub(crate) const PAGE: u64 = PAGE_BYTES as u64;
/// How the segments of these tests are shared, where it does not matter.
pub(crate) const POLICY: SegmentPolicy = SegmentPolicy {
    consistency: Consistency::Sequential,
    placement: Some(Placement::Allocator),
    chunk: 1,
};
const AREAS: usize = 16;
const LOCKED: u8 = 0x80;

static ONE_NODE: Mutex<()> = Mutex::new(());
static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(std::ptr::null_mut());
static STATES: [AtomicPtr<Vec<AtomicU8>>; AREAS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; AREAS];

/// How a trap that is granted updates the page, while other threads go for it (ParADE 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// It does not.
    No,
    /// Through the privileged view, and then the page is opened.
    ThenOpened(u32),
    /// As a system with one access path does it, which has to open the page first.
    OnceOpened(u32),
}

impl Update {
    fn of(word: u64) -> Self {
        let value = u32::try_from(word & u64::from(u32::MAX)).expect("32 bits");
        match word >> 32 {
            0 => Self::No,
            1 => Self::ThenOpened(value),
            _ => Self::OnceOpened(value),
        }
    }

    /// From now on, for all traps.
    pub(crate) fn begin(self) {
        let word = match self {
            Self::No => 0,
            Self::ThenOpened(value) => 1 << 32 | u64::from(value),
            Self::OnceOpened(value) => 2 << 32 | u64::from(value),
        };
        UPDATE.store(word, Ordering::SeqCst);
    }
}

static UPDATE: AtomicU64 = AtomicU64::new(0);

/// Fills a minipage through the privileged view, slowly: other threads get on in between.
fn fill(memory: &Memory, minipage: MinipageId, value: u32) {
    let (bytes, length) = memory.privileged(minipage);
    for word in 0..length / 4 {
        // SAFETY: a word of the minipage.
        let place = unsafe { bytes.cast::<u32>().add(word) };
        // SAFETY: aligned to four.
        unsafe { place.write_volatile(value) };
        if word % 128 == 0 {
            std::thread::yield_now();
        }
    }
}

/// What the handler saw in one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Log {
    /// Traps on accesses that the state did not allow.
    pub(crate) real: u64,
    /// Traps on accesses that it did.
    pub(crate) spurious: u64,
    pub(crate) last: Option<Trap>,
}

thread_local! {
    static LOG: Cell<Log> = const { Cell::new(Log { real: 0, spurious: 0, last: None }) };
}

/// The traps of this thread since the last call.
pub(crate) fn take_log() -> Log {
    LOG.replace(Log::default())
}

pub(crate) struct Node {
    pub(crate) memory: &'static Memory,
    /// Where the program has the bytes of the object, if it was adopted.
    adopted: Option<usize>,
    origin: Origin,
    private: Mutex<Vec<(usize, u64)>>,
    _only: MutexGuard<'static, ()>,
}

/// How the object of a node came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What `multigrain run --path` offers.
    Path(AccessPath),
    /// A file as of the path `file`, in /dev/shm.
    TemporaryInMemory,
    File,
    SystemV,
    Adopted,
}

/// The paths with each guard that the kernel has for them here.
pub(crate) const GUARDS: [GuardChoice; 2] = [GuardChoice::Uffd, GuardChoice::Mprotect];

impl Origin {
    pub(crate) fn object(self, bytes: u64) -> Object {
        match self {
            Self::Path(path) => Object::of_path(path, bytes).expect("an object of a path"),
            Self::TemporaryInMemory => {
                Object::unnamed_file("/dev/shm".as_ref(), bytes).expect("an object of a new file")
            }
            Self::File => Object::named_file(shm_file(bytes)).expect("an object of a file"),
            Self::SystemV => system_v(bytes),
            Self::Adopted => adopt(private_memory(bytes), bytes),
        }
    }
}

/// A file of /dev/shm that never had a name, so tests side by side have one each.
pub(crate) fn shm_file(bytes: u64) -> std::os::fd::OwnedFd {
    let mut options = std::fs::File::options();
    let options = options.read(true).write(true).custom_flags(libc::O_TMPFILE);
    let file = options.open("/dev/shm").expect("a file in /dev/shm");
    file.set_len(bytes).expect("room");
    file.into()
}

/// The object of a System V segment that goes with the last who has it attached.
fn system_v(bytes: u64) -> Object {
    let length = usize::try_from(bytes).expect("64 bits");
    // SAFETY: makes a segment.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, length, libc::IPC_CREAT | 0o600) };
    assert!(id >= 0, "shmget: {}", std::io::Error::last_os_error());
    let object = Object::system_v(id);
    // SAFETY: removes the segment when nobody has it attached any more.
    assert_eq!(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }, 0);
    object.expect("attached")
}

/// Private memory, as a program's `.bss` is; whoever asked for it unmaps it.
pub(crate) fn private_memory(bytes: u64) -> usize {
    let length = usize::try_from(bytes).expect("64 bits");
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel picks the address.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.expose_provenance()
}

pub(crate) fn adopt(address: usize, bytes: u64) -> Object {
    let bytes = usize::try_from(bytes).expect("64 bits");
    // SAFETY: private memory that the test has made and no other thread knows of.
    unsafe { Object::adopt(address, bytes) }.expect("adopted")
}

pub(crate) fn unmap(address: usize, bytes: u64) {
    let bytes = usize::try_from(bytes).expect("64 bits");
    // SAFETY: the test made this mapping and is done with it.
    assert_eq!(unsafe { libc::munmap(pointer(address).cast(), bytes) }, 0);
}

impl Node {
    /// None, with a line of output, where the guard does not work.
    pub(crate) fn start(guard: GuardChoice, shared_bytes: u64) -> Option<Self> {
        Self::start_with(|| Memory::new(&Config::new(shared_bytes, guard)))
    }

    /// The same with an object of any origin.
    fn start_of(origin: Origin, guard: GuardChoice, bytes: u64) -> Option<Self> {
        if let Origin::Path(path) = origin {
            let config = Config { path, ..Config::new(bytes, guard) };
            let mut node = Self::start_with(|| Memory::new(&config))?;
            node.origin = origin;
            return Some(node);
        }
        let mut node = Self::start_with(|| Memory::without_segments(guard))?;
        node.origin = origin;
        let object = if origin == Origin::Adopted {
            let address = private_memory(bytes);
            node.adopted = Some(address);
            adopt(address, bytes)
        } else {
            origin.object(bytes)
        };
        assert_eq!(node.memory.add_segment(object, POLICY), Ok(SegmentId::FIRST));
        Some(node)
    }

    /// The same with memory that tracks writes.
    pub(crate) fn start_tracking(path: AccessPath, shared_bytes: u64) -> Option<Self> {
        let config = Config { path, ..Config::new(shared_bytes, GuardChoice::Mprotect) };
        Self::start_with(|| Memory::new(&config).and_then(Memory::with_tracking))
    }

    /// As [`area`], where the node's object has its areas.
    pub(crate) fn area(
        &self,
        id: u32,
        chunk: usize,
        first_page: u64,
        pages: u64,
        shape: Shape,
    ) -> Area {
        let area = area(id, chunk, first_page, pages, shape);
        let offset = usize::try_from(area.file_offset).expect("64 bits");
        Area { base: self.adopted.map_or(area.base, |address| address + offset), ..area }
    }

    /// Whether areas of that shape can be mapped: adopted ones have one view.
    pub(crate) fn allows(&self, shape: Shape) -> bool {
        self.adopted.is_none() || shape.views() == 1
    }

    fn start_with(make: impl FnOnce() -> Result<Memory, MemoryError>) -> Option<Self> {
        let only = ONE_NODE.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = match make() {
            Ok(memory) => Box::into_raw(Box::new(memory)),
            Err(
                error @ (MemoryError::GuardUnavailable { .. }
                | MemoryError::PathNotGuarded { .. }
                | MemoryError::TrackingUnavailable { .. }),
            ) => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        MEMORY.store(memory, Ordering::SeqCst);
        for signal in [libc::SIGBUS, libc::SIGSEGV] {
            install(signal);
        }
        take_log();
        // SAFETY: just leaked; it is taken back when this node is dropped, which borrows end by.
        let memory = unsafe { &*memory };
        let origin = Origin::Path(AccessPath::Memfd);
        Some(Self { memory, adopted: None, origin, private: Mutex::default(), _only: only })
    }

    pub(crate) fn map(&self, area: Area, fresh: bool) {
        self.map_of(SegmentId::FIRST, area, fresh);
    }

    /// As `map`, an area of any segment.
    pub(crate) fn map_of(&self, segment: SegmentId, area: Area, fresh: bool) {
        self.memory.map_area_of(segment, area, fresh).expect("a valid area");
        let state = if fresh { Access::ReadWrite } else { Access::NoAccess };
        let states: Vec<AtomicU8> =
            (0..area.minipages()).map(|_| AtomicU8::new(encode(state))).collect();
        let old =
            STATES[area.id.0 as usize].swap(Box::into_raw(Box::new(states)), Ordering::SeqCst);
        drop_states(old);
    }

    /// A protection change as the protocol makes it: under the minipage's lock.
    pub(crate) fn set(&self, minipage: MinipageId, to: Access) {
        self.set_then(minipage, to, || ());
    }

    /// As `set`, and then does something before the lock is given back.
    pub(crate) fn set_then<R>(
        &self,
        minipage: MinipageId,
        to: Access,
        then: impl FnOnce() -> R,
    ) -> R {
        let cell = cell(minipage);
        let from = lock(cell);
        self.memory.protect(minipage, from, to).expect("an allowed change");
        let result = then();
        cell.store(encode(to), Ordering::Release);
        result
    }

    /// Addresses that go with the node, after its memory.
    pub(crate) fn unmap_when_done(&self, address: usize, bytes: u64) {
        let mut private = self.private.lock().expect("one thread");
        private.push((address, bytes));
    }

    /// Whether pages that nobody touched are allocated already: the guard uffd traps on them then.
    pub(crate) fn is_allocated_at_once(&self) -> bool {
        self.origin == Origin::TemporaryInMemory
    }

    pub(crate) fn is_uffd(&self) -> bool {
        self.memory.guard() == GuardKind::Uffd
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let memory = MEMORY.swap(std::ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: this is the box that start() leaked, and its threads have been joined.
        let memory = unsafe { Box::from_raw(memory) };
        let bytes = memory.shared_bytes();
        drop(memory);
        if let Some(address) = self.adopted {
            // What was adopted stays, open for reading and writing.
            write(address, read(address) + 1);
            unmap(address, bytes);
        }
        for &(address, bytes) in self.private.lock().expect("one thread").iter() {
            unmap(address, bytes);
        }
        for states in &STATES {
            drop_states(states.swap(std::ptr::null_mut(), Ordering::SeqCst));
        }
    }
}

fn drop_states(states: *mut Vec<AtomicU8>) {
    if !states.is_null() {
        // SAFETY: every non-null entry is a box leaked by map(), swapped out only once.
        drop(unsafe { Box::from_raw(states) });
    }
}

/// Runs what makes memory of its own while no node is there.
pub(crate) fn without_node<R>(run: impl FnOnce() -> R) -> R {
    let _only = ONE_NODE.lock().unwrap_or_else(PoisonError::into_inner);
    run()
}

/// Runs a test once for each guard.
pub(crate) fn with_guards(shared_bytes: u64, test: impl Fn(&Node)) {
    for guard in [GuardChoice::Uffd, GuardChoice::Mprotect] {
        if let Some(node) = Node::start(guard, shared_bytes) {
            test(&node);
        }
    }
}

/// Runs a test once for each guard and each kind of object that it guards.
pub(crate) fn with_objects(bytes: u64, test: impl Fn(&Node)) {
    with_paths(bytes, &test);
    for guard in GUARDS {
        for origin in [Origin::File, Origin::TemporaryInMemory, Origin::SystemV, Origin::Adopted] {
            if (origin, guard) == (Origin::SystemV, GuardChoice::Uffd) {
                // The kernel does not: `the_guard_uffd_refuses_what_the_kernel_does_not_guard`.
                continue;
            }
            if let Some(node) = Node::start_of(origin, guard, bytes) {
                test(&node);
            }
        }
    }
}

/// Runs a test once for each guard and each access path that it guards.
pub(crate) fn with_paths(bytes: u64, test: impl Fn(&Node)) {
    for guard in GUARDS {
        for path in AccessPath::ALL {
            if let Some(node) = Node::start_of(Origin::Path(path), guard, bytes) {
                test(&node);
            }
        }
    }
}

/// An area whose views start `chunk` translation chunks into the views.
pub(crate) fn area(id: u32, chunk: usize, first_page: u64, pages: u64, shape: Shape) -> Area {
    Area {
        id: AreaId(id),
        base: VIEWS_BASE + chunk * VIEW_ALIGN,
        file_offset: first_page * PAGE,
        bytes: pages * PAGE,
        shape,
    }
}

pub(crate) fn minipage(area: &Area, index: u32) -> MinipageId {
    MinipageId::new(area.id, index)
}

pub(crate) fn read(address: usize) -> u32 {
    // SAFETY: tests pass addresses of mapped views; a trap grants access and retries.
    unsafe { pointer(address).read_volatile() }
}

pub(crate) fn write(address: usize, value: u32) {
    // SAFETY: tests pass addresses of mapped views; a trap grants access and retries.
    unsafe { pointer(address).write_volatile(value) }
}

pub(crate) fn pointer(address: usize) -> *mut u32 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// The first word of a minipage as the privileged view has it.
pub(crate) fn privileged_word(memory: &Memory, minipage: MinipageId) -> u32 {
    let (bytes, _) = memory.privileged(minipage);
    // SAFETY: minipages have at least four bytes, aligned to four, always readable there.
    unsafe { bytes.cast::<u32>().read_volatile() }
}

/// Drops the entry of a vpage behind the guard's back, as the kernel does when it swaps.
pub(crate) fn lose_entry(address: usize) {
    let start = pointer(address & !(PAGE_BYTES - 1)).cast::<c_void>();
    // SAFETY: drops an entry of a shared mapping, which loses no byte.
    let done = unsafe { libc::madvise(start, PAGE_BYTES, libc::MADV_DONTNEED) };
    assert_eq!(done, 0);
}

fn install(signal: i32) {
    let handler: extern "C" fn(i32, *mut siginfo_t, *mut c_void) = on_signal;
    // SAFETY: all-zero is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler has the signature SA_SIGINFO asks for.
    let installed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
}

extern "C" fn on_signal(signal: i32, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: null, or the memory of the node that is running.
    let handled = unsafe { MEMORY.load(Ordering::SeqCst).as_ref() }.and_then(|memory| {
        let trap = memory.decode(signal, info, context.cast::<ucontext_t>().cast())?;
        grant(memory, trap)
    });
    if handled.is_none() {
        // SAFETY: back to the default action, which ends the process at the retried access.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn grant(memory: &Memory, trap: Trap) -> Option<()> {
    let minipage = memory.translate(trap.address)?;
    let cell = cell(minipage);
    let state = lock(cell);
    let wanted = if trap.write { Access::ReadWrite } else { Access::ReadOnly };
    let mut log = LOG.get();
    log.last = Some(trap);
    let (done, state) = if state < wanted {
        log.real += 1;
        let update = Update::of(UPDATE.load(Ordering::SeqCst));
        if let Update::ThenOpened(value) = update {
            fill(memory, minipage, value);
        }
        let done = memory.protect(minipage, state, wanted);
        if let Update::OnceOpened(value) = update {
            fill(memory, minipage, value);
        }
        (done, wanted)
    } else {
        log.spurious += 1;
        (memory.reprotect(minipage, state), state)
    };
    LOG.set(log);
    cell.store(encode(state), Ordering::Release);
    done.ok()
}

fn cell(minipage: MinipageId) -> &'static AtomicU8 {
    let states = STATES[minipage.area().0 as usize].load(Ordering::SeqCst);
    // SAFETY: tests use minipages of areas they mapped, while their node lives.
    unsafe { &(&*states)[minipage.index() as usize] }
}

fn lock(cell: &AtomicU8) -> Access {
    loop {
        let seen = cell.load(Ordering::Relaxed) & !LOCKED;
        let taken =
            cell.compare_exchange_weak(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_ok() {
            return [Access::NoAccess, Access::ReadOnly, Access::ReadWrite][usize::from(seen)];
        }
        std::thread::yield_now();
    }
}

const fn encode(access: Access) -> u8 {
    access as u8
}
