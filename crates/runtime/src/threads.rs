//! Threads on named nodes: a program's function runs there, and any node may wait for its end.
//!
//! Function addresses agree because every node runs the same program at the same addresses
//! (`multigrain run` turns address randomization off). A node starts nothing but functions of the
//! program ([`crate::program`]). A thread has its slot before it runs, so it can always release
//! what it wrote before its end is told.

mod books;

use core::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;

use multigrain_types::NodeId;

use crate::boot::Runtime;
use crate::control::{Asker, kind};
use crate::error::Error;
use crate::program::ThreadFunction;
use crate::races::Object;
use crate::signals::SignalMask;
use crate::slots::{self, Reserved};
use crate::tables::lock;
use crate::tsan::{self, Token};
use books::{Books, Refusal};

/// A thread somewhere in the job: its node in the top 16 bits, a number there, from 1, in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadHandle(pub u64);

const NUMBER_BITS: u32 = 48;

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

/// A thread to start: what it runs, its place here, and who waits for the news.
#[derive(Debug)]
pub(crate) struct Start {
    asker: Asker,
    number: u64,
    slot: Reserved,
    function: ThreadFunction,
    argument: u64,
}

/// This node's books on threads started through Multigrain.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    books: Books,
    /// The thread that starts others; the receiver must not.
    pub(crate) starter: Option<Sender<Start>>,
}

impl Runtime {
    /// Starts `function(argument)` on a node; returns when it runs. The function is one of the
    /// program: of its executable, or of a shared object that needs libmultigrain and was loaded
    /// before this process joined.
    ///
    /// # Errors
    /// [`Error::NoNode`]; [`Error::Invalid`] for a function of no such object; [`Error::Limit`] when
    /// the node can start no more threads, with the limit's name.
    pub fn thread_create(
        &self,
        node: i64,
        function: ThreadFunction,
        argument: u64,
    ) -> Result<ThreadHandle, Error> {
        let to = match u16::try_from(node) {
            Ok(rank) if rank < self.nodes => NodeId(rank),
            _ => return Err(Error::NoNode(node, self.nodes)),
        };
        let address = (function as *const ()).expose_provenance();
        if self.program.function(address as u64).is_none() {
            return Err(Error::Invalid(format!(
                "a thread cannot start at {address:#x}, which is no function of the program: of \
                 its executable, or of a library that is linked with libmultigrain and was loaded \
                 before mg_init"
            )));
        }
        tsan::give(Token::ThreadStart);
        self.release()?;
        self.ask(to, kind::THREAD_START, address as u64, argument, &[]).map(ThreadHandle).map_err(
            |(code, why)| match Refusal::from_wire(why) {
                Some(refusal) => {
                    Error::Limit(format!("{to} cannot start a thread: {}", refusal.reason()))
                }
                None => Error::from_code(code, &format!("{to} cannot start a thread")),
            },
        )
    }

    /// Waits for the end of a thread; returns its result.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub fn thread_join(&self, handle: ThreadHandle) -> Result<u64, Error> {
        let ended = self.ask_about(handle, kind::THREAD_JOIN)?;
        tsan::take(Token::ThreadEnd(handle.0));
        Ok(ended)
    }

    /// Nobody will wait for the end of a thread: its node forgets it then.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was, or was joined or detached already.
    pub fn thread_detach(&self, handle: ThreadHandle) -> Result<(), Error> {
        self.ask_about(handle, kind::THREAD_DETACH).map(drop)
    }

    fn ask_about(&self, handle: ThreadHandle, kind: u8) -> Result<u64, Error> {
        let unknown = || {
            let text = "does not exist, or was joined or detached";
            Error::Invalid(format!("thread {:#x} {text}", handle.0))
        };
        if handle.node().0 >= self.nodes {
            return Err(unknown());
        }
        self.ask(handle.node(), kind, handle.0, 0, &[]).map_err(|_| unknown())
    }

    /// Takes in a thread that shall start here, or says why it cannot.
    ///
    /// # Errors
    /// The address is no function of the program: what no correct peer asks for.
    pub(crate) fn serve_thread_start(
        &self,
        asker: Asker,
        function: u64,
        argument: u64,
    ) -> Result<(), String> {
        let Some(function) = self.program.function(function) else {
            return Err(format!(
                "it asked to start a thread at {function:#x}, which is no function of the program"
            ));
        };
        if let Err(refusal) = self.admit(asker, function, argument) {
            self.refuse_thread(asker, refusal);
        }
        Ok(())
    }

    fn admit(&self, asker: Asker, function: ThreadFunction, argument: u64) -> Result<(), Refusal> {
        let mut threads = lock(&self.thread_books);
        let starter = threads.starter.clone().ok_or(Refusal::System)?;
        let slot = slots::reserve().ok_or(Refusal::Slots)?;
        let number = threads.books.admit()?;
        drop(threads);
        let start = Start { asker, number, slot, function, argument };
        starter.send(start).map_err(|_| {
            lock(&self.thread_books).books.strike(number);
            Refusal::System
        })
    }

    /// The asker gets the code and the reason; a C program sees the code alone, so this node's
    /// stderr says the reason, once.
    fn refuse_thread(&self, asker: Asker, refusal: Refusal) {
        if lock(&self.thread_books).books.is_news(refusal) {
            let line = format!("cannot start a thread: {}", refusal.reason());
            crate::report::last_words(self.me, &line);
        }
        self.answer(asker, Error::Limit(String::new()).code(), refusal.to_wire());
    }

    /// The starter thread's work: one request.
    pub(crate) fn start_thread(&'static self, start: Start) {
        let Start { asker, number, slot, function, argument } = start;
        let handle = ThreadHandle::new(self.me, number);
        self.order_keep(Object::Start(number), asker, kind::THREAD_START);
        // Before it runs, and before anybody hears that it does.
        let (thread, place) = slot.place();
        self.unborn.fetch_add(1, Ordering::Relaxed);
        self.begin(thread, place);
        let run = move || {
            let held = slot.adopt();
            self.unborn.fetch_sub(1, Ordering::Relaxed);
            // The starter blocks all signals; a thread of the program must not.
            SignalMask::clear();
            tsan::take(Token::ThreadStart);
            self.order_follow(&Object::Start(number));
            self.acquire();
            let result = function(argument);
            tsan::give(Token::ThreadEnd(handle.0));
            self.release_as(held);
            self.order_keep_own(Object::End(number));
            // Before the end is told: who joins may count on the slot.
            slots::leave();
            let mut threads = lock(&self.thread_books);
            let joiner = threads.books.end(number, result);
            let kept = threads.books.keeps(number);
            drop(threads);
            if let Some(asker) = joiner {
                self.order_answer(asker, &Object::End(number));
                self.answer(asker, 0, result);
            } else if !kept {
                self.order_forget(&Object::End(number));
            }
        };
        match thread::Builder::new().name(format!("mg-{number}")).spawn(run) {
            Ok(_) => self.answer(asker, 0, handle.0),
            Err(_) => {
                self.unborn.fetch_sub(1, Ordering::Relaxed);
                lock(&self.thread_books).books.strike(number);
                self.refuse_thread(asker, Refusal::System);
            }
        }
    }

    pub(crate) fn serve_thread_join(&self, asker: Asker, handle: ThreadHandle) {
        let mut threads = lock(&self.thread_books);
        let joined = match handle.node() == self.me {
            true => threads.books.join(handle.number(), asker),
            false => Err(books::Unknown),
        };
        drop(threads);
        match joined {
            Ok(None) => {}
            Ok(Some(result)) => {
                self.order_answer(asker, &Object::End(handle.number()));
                self.answer(asker, 0, result);
            }
            Err(books::Unknown) => self.answer(asker, Error::Invalid(String::new()).code(), 0),
        }
    }

    pub(crate) fn serve_thread_detach(&self, asker: Asker, handle: ThreadHandle) {
        let mut threads = lock(&self.thread_books);
        let known = handle.node() == self.me && threads.books.detach(handle.number()).is_ok();
        drop(threads);
        if known {
            self.order_forget(&Object::End(handle.number()));
        }
        let code = if known { 0 } else { Error::Invalid(String::new()).code() };
        self.answer(asker, code, 0);
    }
}

#[cfg(all(test, not(miri), not(feature = "shuttle")))]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::receive::NodeSink;
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
        lock(&runtime.thread_books).books.last = (1 << 32) - 2;
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
    fn a_peer_that_asks_for_anything_but_a_function_of_the_program_violates_the_protocol() {
        let runtime = joined();
        let in_libc = (libc::getpid as *const ()).addr() as u64;
        let addresses = [in_libc, 0, 1, (&raw const runtime).addr() as u64];
        for (thread, subject) in (0..).zip(addresses) {
            let kind = kind::THREAD_START;
            let header = Header { kind, thread, subject, ..Header::default() };
            let why = NodeSink::new(runtime).frame(NodeId(3), &header, None).unwrap_err();
            let text =
                format!("start a thread at {subject:#x}, which is no function of the program");
            assert!(why.contains(&text), "{why}");
        }
    }
}
