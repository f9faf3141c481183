//! Threads on named nodes: a function of the program runs there, and any node may wait for its end.
//!
//! Function addresses agree because every node runs the same program at the same addresses
//! (`multigrain run` turns address randomization off). A node starts nothing but functions of the
//! program ([`crate::program`]). A thread has its slot before it runs, so it can always release
//! its writes before its end is reported.

mod private_argument;
mod table;
mod termination;

use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};

use multigrain_types::deadlock::HANDLE_NODE;
use multigrain_types::{NodeId, ThreadId};

use crate::driver::Driver;
use crate::error::Error;
use crate::frames::{Asker, Leave, Request};
use crate::node_programs::Programs;
use crate::program::{self, Program, ThreadFunction};
use crate::races::Ordered;
use crate::receiver::slots::{self, Reserved};
use crate::shim::{AtomicU64, Mutex, lock};
use crate::signals::{Set, SignalMask};
use crate::tsan::{self, Token};
use table::{Refusal, ThreadTable};
pub(crate) use termination::destructors_run;
use termination::{EndedThread, Life};

/// A thread somewhere in the job: its node in the top 16 bits, a number there, from 1, in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadHandle(pub u64);

const NUMBER_BITS: u32 = HANDLE_NODE;

impl ThreadHandle {
    fn new(node: NodeId, number: u64) -> Self {
        Self(u64::from(node.0) << NUMBER_BITS | number)
    }

    fn node(self) -> NodeId {
        NodeId(u16::try_from(self.0 >> NUMBER_BITS).unwrap_or(u16::MAX))
    }

    fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// How a thread is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ThreadAttributes {
    /// Bytes of its stack, [`ThreadAttributes::LEAST_STACK_BYTES`] at least; as `pthread_create` has it if `None`.
    pub stack_bytes: Option<usize>,
    /// Whether it begins detached: nobody can join it.
    pub detached: bool,
}

impl ThreadAttributes {
    /// Room for a trap, which is served on the thread's own stack, and for the program.
    pub const LEAST_STACK_BYTES: usize = 1 << 16;
    /// Bytes of the largest stack.
    pub const MOST_STACK_BYTES: usize = 1 << 40;

    /// Nothing for those of every thread.
    fn to_bytes(self) -> Vec<u8> {
        if self == Self::default() {
            return Vec::new();
        }
        let words = [self.stack_bytes.unwrap_or(0) as u64, u64::from(self.detached)];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let &[stack_bytes, detached] = words else { return None };
        let stack_bytes = usize::try_from(u64::from_le_bytes(stack_bytes)).ok()?;
        let detached = match u64::from_le_bytes(detached) {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { stack_bytes: (stack_bytes > 0).then_some(stack_bytes), detached })
    }

    /// # Errors
    /// [`Error::Invalid`].
    fn check(self) -> Result<(), Error> {
        match self.stack_bytes {
            Some(bytes) if !(Self::LEAST_STACK_BYTES..=Self::MOST_STACK_BYTES).contains(&bytes) => {
                let (least, most) = (Self::LEAST_STACK_BYTES, Self::MOST_STACK_BYTES);
                Err(Error::Invalid(format!(
                    "a stack of {bytes} bytes: a thread has {least} to {most}"
                )))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// A thread to start: what it runs, its place here, and the thread that waits for the answer.
#[derive(Debug)]
pub(crate) struct Start {
    asker: Asker,
    number: u64,
    slot: Reserved,
    /// Its address; whether a function of the program begins there is for the starter to ask.
    function: u64,
    argument: u64,
    stack_bytes: Option<usize>,
    /// The signals that the thread has blocked which starts it.
    mask: Set,
}

/// Work of the starter.
#[derive(Debug)]
pub(crate) enum StarterWork {
    Start(Start),
    /// A thread has ended, and only the C library knows its result.
    Ended(EndedThread),
}

/// Threads started through Multigrain on this node.
#[derive(Debug)]
pub(crate) struct Threads {
    table: Mutex<ThreadTable>,
    /// The thread that starts others; the receiver must not.
    starter: Mutex<Option<Sender<StarterWork>>>,
    /// Where functions of the program lie, the only ones that threads may start with.
    program: Program,
    /// Which nodes run the same.
    programs: Programs,
    next_node: AtomicU64,
    stay: Mutex<Stay>,
}

/// Whether all nodes stay for threads that start here.
#[derive(Debug, Default)]
struct Stay {
    /// The main thread has ended, and nothing ends the process yet.
    stays: bool,
    /// Threads that hold all nodes.
    holding: u32,
}

impl Threads {
    pub(crate) fn new(program: Program, programs: Programs) -> Self {
        Self {
            table: Mutex::default(),
            starter: Mutex::default(),
            program,
            programs,
            next_node: AtomicU64::new(0),
            stay: Mutex::default(),
        }
    }

    /// The ranks that run this node's program.
    pub(crate) fn ranks(&self, driver: &Driver) -> Range<u16> {
        self.programs.ranks(driver.me(), driver.nodes())
    }

    /// The next node in turn that runs this node's program, for threads that may run anywhere.
    pub(crate) fn any_node(&self, driver: &Driver) -> i64 {
        let ranks = self.ranks(driver);
        let turn = self.next_node.fetch_add(1, Ordering::Relaxed) % ranks.len() as u64;
        i64::from(ranks.start) + turn.cast_signed()
    }

    /// The starter: starts what is asked for, until this node ends. The caller blocks all signals.
    pub(crate) fn start_as_asked(
        &'static self,
        driver: &'static Driver,
        work: &Receiver<StarterWork>,
    ) {
        for work in work {
            match work {
                StarterWork::Start(start) => self.start(driver, start),
                StarterWork::Ended(ended) => {
                    let number = ended.number();
                    self.tell_end(driver, number, ended.result());
                }
            }
        }
    }

    /// Starts may be asked for from now on; the result is for [`Threads::start_as_asked`].
    pub(crate) fn open(&self) -> Receiver<StarterWork> {
        let (starter, starts) = mpsc::channel();
        *lock(&self.starter) = Some(starter);
        starts
    }

    /// Starts `function(argument)` on a node; returns when it has been made. The function is one of the
    /// program: of its executable, or of a shared object that needs libmultigrain and was loaded
    /// before this process joined.
    ///
    /// # Errors
    /// [`Error::NoNode`]; [`Error::Invalid`] for a function of no such object or a stack too small;
    /// [`Error::Limit`] when the node can start no more threads, with the limit's name.
    pub(crate) fn create(
        &self,
        driver: &Driver,
        node: i64,
        attributes: ThreadAttributes,
        (function, argument): (ThreadFunction, u64),
    ) -> Result<ThreadHandle, Error> {
        attributes.check()?;
        let to = match u16::try_from(node) {
            Ok(rank) if rank < driver.nodes() => NodeId(rank),
            _ => return Err(Error::NoNode(node, driver.nodes())),
        };
        if !self.programs.are_alike(driver.me(), to) {
            let Range { start, end } = self.ranks(driver);
            return Err(Error::Invalid(format!(
                "{to} runs another program than this node, and has not its functions: start threads on \
                 nodes {start} to {}",
                end - 1
            )));
        }
        let address = (function as *const ()).expose_provenance();
        let code = self.program.code_of(address);
        let Some(code) = code.filter(|_| self.program.function(address as u64).is_some()) else {
            return Err(Error::Invalid(format!(
                "a thread cannot start at {address:#x}, which is no function of the program: of \
                 its executable, or of a library that is linked with libmultigrain and was loaded \
                 before mg_init"
            )));
        };
        if to != driver.me()
            && let Some(line) = private_argument::warning(&self.program, to, argument)
        {
            driver.platform().launcher().note(&line);
        }
        tsan::give(Token::ThreadStart);
        driver.release()?;
        let body =
            [&code.to_le_bytes()[..], &SignalMask::own().to_le_bytes(), &attributes.to_bytes()];
        let body = body.concat();
        let started = driver.request(to, Request::ThreadStart, address as u64, argument, &body);
        started.map(ThreadHandle).map_err(|(code, why)| match Refusal::from_wire(why) {
            Some(refusal) => {
                let object = program::object_of(address).filter(|_| refusal == Refusal::NotLoaded);
                let object = object.map(|path| format!(" ({path})")).unwrap_or_default();
                refusal.error(format!("{to} cannot start a thread: {}{object}", refusal.reason()))
            }
            None => Error::from_code(code, &format!("{to} cannot start a thread")),
        })
    }

    /// Waits for the end of a thread; returns its result.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub(crate) fn join(driver: &Driver, handle: ThreadHandle) -> Result<u64, Error> {
        let ended = ask_about(driver, handle, |to| {
            driver.request_pausing(to, Request::ThreadJoin, handle.0)
        })?;
        tsan::take(Token::ThreadEnd(handle.0));
        Ok(ended)
    }

    /// Nobody will wait for the end of a thread: its node forgets it then.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub(crate) fn detach(driver: &Driver, handle: ThreadHandle) -> Result<(), Error> {
        let ask = |to| driver.request(to, Request::ThreadDetach, handle.0, 0, &[]);
        ask_about(driver, handle, ask).map(drop)
    }

    /// Takes in a thread that shall start here, or says why it cannot.
    ///
    /// # Errors
    /// The address is no function of the program, or the attributes are none: what no correct peer asks for.
    pub(crate) fn serve_start(
        &self,
        driver: &Driver,
        asker: Asker,
        (function, argument): (u64, u64),
        body: &[u8],
    ) -> Result<(), String> {
        if !self.programs.are_alike(driver.me(), asker.node) {
            return Err("it asked to start a thread, and runs another program".into());
        }
        let words = body.split_first_chunk().and_then(|(code, rest)| {
            rest.split_first_chunk().map(|(mask, attributes)| (code, mask, attributes))
        });
        let (code, mask, attributes) = words.ok_or("it asked to start a thread from nowhere")?;
        if !self.program.has_code_from(u64::from_le_bytes(*code)) {
            let refusal = match self.program.is_fixed() {
                true => Refusal::NotLoaded,
                false => Refusal::Elsewhere,
            };
            self.refuse(driver, asker, refusal);
            return Ok(());
        }
        if !self.program.has(function) {
            return Err(no_function(function));
        }
        let attributes = ThreadAttributes::from_bytes(attributes);
        let Some(attributes) = attributes.filter(|attributes| attributes.check().is_ok()) else {
            return Err("it asked to start a thread with attributes that make no sense".into());
        };
        if let Err(refusal) =
            self.admit(asker, (attributes, Set::from_le_bytes(*mask)), (function, argument))
        {
            self.refuse(driver, asker, refusal);
        }
        Ok(())
    }

    fn admit(
        &self,
        asker: Asker,
        (ThreadAttributes { stack_bytes, detached }, mask): (ThreadAttributes, Set),
        (function, argument): (u64, u64),
    ) -> Result<(), Refusal> {
        let starter = lock(&self.starter).clone().ok_or(Refusal::System)?;
        let slot = slots::reserve().ok_or(Refusal::Slots)?;
        let number = lock(&self.table).admit(detached)?;
        let start = Start { asker, number, slot, function, argument, stack_bytes, mask };
        starter.send(StarterWork::Start(start)).map_err(|_| {
            lock(&self.table).strike(number);
            Refusal::System
        })
    }

    /// The asker gets the code and the reason; a C program sees the code alone, so this node's
    /// stderr says the reason, once.
    fn refuse(&self, driver: &Driver, asker: Asker, refusal: Refusal) {
        if lock(&self.table).is_new(refusal) {
            let line = format!("cannot start a thread: {}", refusal.reason());
            driver.platform().launcher().warn(&line);
        }
        driver.answer(asker, refusal.error(String::new()).code(), refusal.to_wire());
    }

    /// The starter thread's work: one request.
    fn start(&'static self, driver: &'static Driver, start: Start) {
        let Start { asker, number, slot, function, argument, stack_bytes, mask } = start;
        let Some(function) = self.program.function(function) else {
            driver.platform().peer_broke(asker.node, no_function(function));
        };
        let handle = ThreadHandle::new(driver.me(), number);
        driver.races().keep(Ordered::Start(number), asker, Request::ThreadStart);
        // Before it runs, and before any node is told that it does.
        let (thread, place) = slot.place();
        place.awaited().set_handle(handle.0);
        driver.begin_starting(thread, place);
        let stays_for = lock(&self.stay).stays.then_some(asker);
        let life = Life::new((self, driver), number, stays_for);
        match life.begin((slot, mask), (function, argument), stack_bytes) {
            Ok(()) if stays_for.is_some() => {}
            Ok(()) => driver.answer(asker, 0, handle.0),
            Err(_) => {
                driver.has_started();
                lock(&self.table).strike(number);
                self.refuse(driver, asker, Refusal::System);
            }
        }
    }

    /// The main thread has ended: threads that start from now on have all nodes stay (`job/departure.rs`). Those that have
    /// started before count as threads of this node.
    pub(crate) fn stay(&self, driver: &Driver) {
        lock(&self.stay).stays = driver.nodes() > 1;
    }

    /// A thread has called exit, which ends the others with it: nobody stays for them.
    pub(crate) fn exit(&self, driver: &Driver) {
        let Stay { holding, .. } = core::mem::take(&mut *lock(&self.stay));
        (0..holding).for_each(|_| driver.ask_to_stay(Leave::Over));
    }

    fn hold(&self, driver: &Driver) {
        driver.ask_to_stay(Leave::Hold);
        let mut stay = lock(&self.stay);
        let counts = stay.stays;
        stay.holding += u32::from(counts);
        drop(stay);
        if !counts {
            driver.ask_to_stay(Leave::Over);
        }
    }

    fn hold_no_more(&self, driver: &Driver) {
        let mut stay = lock(&self.stay);
        let counts = stay.stays;
        stay.holding -= u32::from(counts);
        drop(stay);
        if counts {
            driver.ask_to_stay(Leave::Over);
        }
    }

    /// In a thread that begins and has its slot.
    fn has_begun(&self, driver: &Driver, number: u64, stays_for: Option<Asker>) {
        driver.has_started();
        if let Some(asker) = stays_for {
            self.hold(driver);
            driver.answer(asker, 0, ThreadHandle::new(driver.me(), number).0);
        }
        tsan::take(Token::ThreadStart);
        driver.races().follow(&Ordered::Start(number));
        driver.acquire();
    }

    /// In a thread that ends: what it wrote can be seen from now on, and its slot is free.
    fn has_ended(&self, driver: &Driver, number: u64, stays: bool) {
        tsan::give(Token::ThreadEnd(ThreadHandle::new(driver.me(), number).0));
        if let Some(held) = slots::known() {
            driver.release_as(held);
        }
        driver.races().keep_own(Ordered::End(number));
        if stays {
            self.hold_no_more(driver);
        }
        // Before the end is told: the thread that joins may count on the slot.
        slots::leave();
    }

    /// The thread that joins it gets its result.
    fn tell_end(&self, driver: &Driver, number: u64, result: u64) {
        let mut table = lock(&self.table);
        let joiner = table.end(number, result);
        let kept = table.keeps(number);
        drop(table);
        if let Some(asker) = joiner {
            driver.races().answer(asker, &Ordered::End(number));
            driver.answer(asker, 0, result);
        } else if !kept {
            driver.races().forget(&Ordered::End(number));
        }
    }

    /// A thread ends whose result only the C library knows: the starter waits for it.
    fn ends_with(&self, ended: EndedThread) {
        let starter = lock(&self.starter).clone();
        let sent = starter.map(|starter| starter.send(StarterWork::Ended(ended)));
        debug_assert!(matches!(sent, Some(Ok(()))), "the starter lives as long as the process");
    }

    pub(crate) fn serve_join(&self, driver: &Driver, asker: Asker, handle: ThreadHandle) {
        let joined = match handle.node() == driver.me() {
            true => lock(&self.table).join(handle.number(), asker),
            false => Err(table::Unknown),
        };
        match joined {
            Ok(None) => {}
            Ok(Some(result)) => {
                driver.races().answer(asker, &Ordered::End(handle.number()));
                driver.answer(asker, 0, result);
            }
            Err(table::Unknown) => driver.answer(asker, Error::Invalid(String::new()).code(), 0),
        }
    }

    /// Threads that wait for the end of one of this node.
    pub(crate) fn joiners(&self) -> Vec<(NodeId, ThreadId)> {
        lock(&self.table).joiners().collect()
    }

    pub(crate) fn serve_detach(&self, driver: &Driver, asker: Asker, handle: ThreadHandle) {
        let here = handle.node() == driver.me();
        let known = here && lock(&self.table).detach(handle.number()).is_ok();
        if known {
            driver.races().forget(&Ordered::End(handle.number()));
        }
        let code = if known { 0 } else { Error::Invalid(String::new()).code() };
        driver.answer(asker, code, 0);
    }
}

/// What a peer has done wrong that asks for a thread at this address.
fn no_function(address: u64) -> String {
    format!("it asked to start a thread at {address:#x}, which is no function of the program")
}

/// Asks the node of a thread.
fn ask_about(
    driver: &Driver,
    handle: ThreadHandle,
    ask: impl FnOnce(NodeId) -> Result<u64, (i32, u64)>,
) -> Result<u64, Error> {
    let unknown = || {
        let text = "does not exist, or was joined or detached";
        Error::Invalid(format!("thread {:#x} {text}", handle.0))
    };
    if handle.node().0 >= driver.nodes() {
        return Err(unknown());
    }
    ask(handle.node()).map_err(|_| unknown())
}

#[cfg(all(test, not(miri), not(feature = "shuttle")))]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::driver::sink::NodeSink;
    use crate::job::Runtime;
    use multigrain_transport::{Header, Sink};

    /// A job of one node, joined once for all tests.
    fn joined() -> &'static Runtime {
        static JOINED: OnceLock<&Runtime> = OnceLock::new();
        JOINED.get_or_init(|| Runtime::join().expect("a job of one node"))
    }

    extern "C" fn double(number: u64) -> u64 {
        number * 2
    }

    #[test]
    fn threads_with_numbers_beyond_32_bits_are_started_joined_and_detached() {
        let runtime = joined();
        lock(&runtime.threads().table).last = (1 << 32) - 2;
        let create = |argument| runtime.thread_create(0, double, argument).unwrap();
        let handles = [21, 22, 23, 24].map(create);
        assert_eq!(handles.map(|handle| handle.0), [1, 2, 3, 4].map(|n| (1 << 32) - 2 + n));
        runtime.thread_detach(handles[3]).unwrap();
        for (handle, result) in handles.into_iter().zip([42, 44, 46]) {
            assert_eq!(runtime.thread_join(handle).unwrap(), result);
        }
        for handle in handles {
            assert!(matches!(runtime.thread_join(handle), Err(Error::Invalid(_))));
            assert!(matches!(runtime.thread_detach(handle), Err(Error::Invalid(_))));
        }
        let elsewhere = ThreadHandle::new(NodeId(1), handles[0].number());
        assert!(matches!(runtime.thread_join(elsewhere), Err(Error::Invalid(_))));
    }

    #[test]
    fn attributes_cross_the_wire_and_those_that_are_none_are_refused() {
        let some = [
            ThreadAttributes::default(),
            ThreadAttributes { detached: true, ..ThreadAttributes::default() },
            ThreadAttributes { stack_bytes: Some(1 << 30), detached: false },
        ];
        for attributes in some {
            assert_eq!(ThreadAttributes::from_bytes(&attributes.to_bytes()), Some(attributes));
        }
        assert!(some[0].to_bytes().is_empty(), "most threads have none");
        for bytes in [&[0; 15][..], &[0; 24], &[2; 16]] {
            assert_eq!(ThreadAttributes::from_bytes(bytes), None, "{bytes:?}");
        }
        let small = ThreadAttributes { stack_bytes: Some(65_535), detached: false };
        let refused = joined().thread_create_with(0, small, double, 1);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }

    #[test]
    fn a_peer_that_asks_for_anything_but_a_function_of_the_program_violates_the_protocol() {
        let runtime = joined();
        let code = runtime.threads().program.code_of((double as *const ()).addr()).unwrap();
        let in_libc = (libc::getpid as *const ()).addr() as u64;
        let addresses = [in_libc, 0, 1, (&raw const runtime).addr() as u64];
        for (thread, subject) in (0..).zip(addresses) {
            let kind = Request::ThreadStart.number();
            let header = Header { kind, thread, subject, ..Header::default() };
            let mut sink = NodeSink::new(&runtime.driver);
            let why = sink
                .frame(NodeId(3), &header, Some(&[code, 0].map(u64::to_le_bytes).concat()))
                .unwrap_err();
            let text =
                format!("start a thread at {subject:#x}, which is no function of the program");
            assert!(why.contains(&text), "{why}");
            let why = sink.frame(NodeId(4), &header, None).unwrap_err();
            assert!(why.contains("start a thread from nowhere"), "{why}");
        }
    }
}
