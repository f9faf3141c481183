//! Threads on named nodes: a program's function runs there, and any node may wait for its end.
//!
//! Function addresses agree because every node runs the same program at the same addresses
//! (`multigrain run` turns address randomization off).

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::thread;

use multigrain_types::NodeId;

use crate::boot::Runtime;
use crate::control::{Asker, kind};
use crate::error::Error;
use crate::races::Object;
use crate::signals::SignalMask;
use crate::tables::lock;
use crate::tsan::{self, Token};

/// A thread somewhere in the job: its node in the high half, a number there in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadHandle(pub u64);

/// A thread to start: what it runs, and who waits for the news.
#[derive(Debug)]
pub(crate) struct Start {
    asker: Asker,
    function: u64,
    argument: u64,
}

/// This node's books on threads started through Multigrain.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    next: u32,
    /// Results of ended threads and askers of running ones.
    known: BTreeMap<u32, State>,
    /// The thread that starts others; the receiver must not.
    pub(crate) starter: Option<Sender<Start>>,
}

#[derive(Debug)]
enum State {
    Running(Option<Asker>),
    Ended(u64),
}

impl Runtime {
    /// Starts `function(argument)` on a node; returns when it runs.
    ///
    /// # Errors
    /// [`Error::NoNode`]; [`Error::Limit`] when the node cannot start threads.
    pub fn thread_create(
        &self,
        node: i64,
        function: usize,
        argument: usize,
    ) -> Result<ThreadHandle, Error> {
        let to = match u16::try_from(node) {
            Ok(rank) if rank < self.nodes => NodeId(rank),
            _ => return Err(Error::NoNode(node, self.nodes)),
        };
        if function == 0 {
            return Err(Error::Invalid("the function of a thread is NULL".into()));
        }
        tsan::give(Token::ThreadStart);
        self.release()?;
        self.ask(to, kind::THREAD_START, function as u64, argument as u64, &[])
            .map(ThreadHandle)
            .map_err(|(code, _)| Error::from_code(code, &format!("{to} cannot start a thread")))
    }

    /// Waits for the end of a thread; returns its result.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a thread that never was or was joined already.
    pub fn thread_join(&self, handle: ThreadHandle) -> Result<u64, Error> {
        let rank = u16::try_from(handle.0 >> 32).unwrap_or(u16::MAX);
        if rank >= self.nodes {
            return Err(Error::Invalid(format!("thread {:#x} does not exist", handle.0)));
        }
        let ended = self.ask(NodeId(rank), kind::THREAD_JOIN, handle.0, 0, &[]).map_err(|_| {
            Error::Invalid(format!("thread {:#x} does not exist or was joined", handle.0))
        })?;
        tsan::take(Token::ThreadEnd(handle.0));
        Ok(ended)
    }

    pub(crate) fn serve_thread_start(&self, asker: Asker, function: u64, argument: u64) {
        let start = Start { asker, function, argument };
        let sent = lock(&self.thread_books)
            .starter
            .as_ref()
            .is_some_and(|starter| starter.send(start).is_ok());
        if !sent {
            self.answer(asker, Error::NotInitialized.code(), 0);
        }
    }

    /// The starter thread's work: one request.
    pub(crate) fn start_thread(&'static self, start: &Start) {
        let number = {
            let mut books = lock(&self.thread_books);
            books.next = books.next.wrapping_add(1);
            let number = books.next;
            books.known.insert(number, State::Running(None));
            number
        };
        let (function, argument) = (start.function, start.argument);
        let handle = u64::from(self.me.0) << 32 | u64::from(number);
        self.order_keep(Object::Start(number), start.asker, kind::THREAD_START);
        let run = move || {
            // The starter blocks all signals; a thread of the program must not.
            SignalMask::clear();
            tsan::take(Token::ThreadStart);
            self.order_follow(&Object::Start(number));
            self.acquire();
            let result = call(function, argument);
            tsan::give(Token::ThreadEnd(handle));
            // Without a slot nothing can wait; the joiner is told all the same.
            let _ = self.release();
            self.order_keep_own(Object::End(number));
            self.thread_ended(number, result);
        };
        match thread::Builder::new().name(format!("mg-{number}")).spawn(run) {
            Ok(_) => self.answer(start.asker, 0, handle),
            Err(_) => {
                lock(&self.thread_books).known.remove(&number);
                self.answer(start.asker, Error::Limit(String::new()).code(), 0);
            }
        }
    }

    fn thread_ended(&self, number: u32, result: u64) {
        let mut books = lock(&self.thread_books);
        let waiting = match books.known.get(&number) {
            Some(State::Running(asker)) => *asker,
            Some(State::Ended(_)) | None => None,
        };
        match waiting {
            Some(asker) => {
                books.known.remove(&number);
                drop(books);
                self.order_answer(asker, &Object::End(number));
                self.answer(asker, 0, result);
            }
            None => {
                books.known.insert(number, State::Ended(result));
            }
        }
    }

    pub(crate) fn serve_thread_join(&self, asker: Asker, handle: u64) {
        let number = u32::try_from(handle & 0xffff_ffff).unwrap_or(0);
        let mut books = lock(&self.thread_books);
        let ended = match books.known.get_mut(&number) {
            Some(State::Running(waiting @ None)) => {
                *waiting = Some(asker);
                return;
            }
            Some(State::Ended(result)) => Some(*result),
            Some(State::Running(Some(_))) | None => None,
        };
        if ended.is_some() {
            books.known.remove(&number);
        }
        drop(books);
        match ended {
            Some(result) => {
                self.order_answer(asker, &Object::End(number));
                self.answer(asker, 0, result);
            }
            None => self.answer(asker, Error::Invalid(String::new()).code(), 0),
        }
    }
}

#[expect(unsafe_code, reason = "the function's address comes from the program")]
fn call(function: u64, argument: u64) -> u64 {
    let address = core::ptr::with_exposed_provenance::<()>(usize::try_from(function).unwrap_or(0));
    // SAFETY: the caller of `thread_create` gave the address of a function of this signature, and
    // every node runs the same program at the same addresses.
    let function: extern "C" fn(u64) -> u64 = unsafe { core::mem::transmute(address) };
    function(argument)
}
