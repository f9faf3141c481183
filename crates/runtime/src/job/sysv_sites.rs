//! What a site of System V programs needs beside the calls of a program (ADR 55): messages between sites, which the runtime
//! carries and does not read, and areas that processes of a site map themselves.

use std::sync::OnceLock;

use multigrain_memory::{Export, Memory};
use multigrain_protocol::Kind;
use multigrain_transport::{Header, Payload};
use multigrain_types::control::Message;
use multigrain_types::{AreaId, MinipageId, NodeId};

use super::Runtime;
use crate::error::Error;
use crate::frames::Request;
use crate::receiver::between_waits;

/// Takes the messages of other sites, in the order in which each has sent them. It must not wait. False for one that no
/// correct site sends: the job ends, and names its sender.
pub type SiteHandler = Box<dyn Fn(NodeId, &[u8]) -> bool + Send + Sync>;

static HANDLER: OnceLock<SiteHandler> = OnceLock::new();

/// Serves a message of another site.
pub(super) fn serve(from: NodeId, body: &[u8]) -> bool {
    HANDLER.get().is_some_and(|handler| handler(from, body))
}

/// A minipage that this node has and keeps meanwhile.
#[derive(Debug)]
pub struct Here<'a> {
    memory: &'a Memory,
    minipage: MinipageId,
}

impl Here<'_> {
    /// Where its bytes are.
    #[must_use]
    pub fn contents(&self) -> *mut u8 {
        self.memory.privileged(self.minipage).0
    }

    /// Whether nobody has written it, so that its bytes are zero; to look at them would allocate a page.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        self.memory.is_hole(self.minipage)
    }
}

/// Sites.
impl Runtime {
    /// Who takes the messages of other sites; set before this process joins its job, and once.
    pub fn handle_site_messages(handler: SiteHandler) {
        let _ = HANDLER.set(handler);
    }

    /// Sends a message to another site, without waiting.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] when this node has left.
    pub fn send_to_site(&self, to: NodeId, body: &[u8]) -> Result<(), Error> {
        let driver = self.member()?;
        let header = Header {
            kind: Request::SiteMessage.number(),
            from: self.rank().0,
            ..Header::default()
        };
        driver.platform().send_frame(to, header, Payload::Bytes(body));
        Ok(())
    }

    /// Tells the launcher why this process is about to be ended by a signal: what follows "was killed by signal 11 (SIGSEGV)".
    pub fn tell_crash(&self, signal: i32, why: &str) {
        self.launcher().tell(&Message::Crash { signal, text: why });
    }

    /// Ends this process, and the job, with one line: "failed: " and why.
    pub fn fatal(&self, why: &str) -> ! {
        self.launcher().fatal(why)
    }

    /// Tells the launcher which processes of the programs wait, and for what: words for the line of a job that its limit of time ends.
    pub fn tell_blocked(&self, who: &str) {
        self.launcher().tell(&Message::Blocked(who));
    }

    /// Tells the launcher that the programs can never go on, and for what they wait: it ends the job.
    pub fn tell_deadlock(&self, who: &str) {
        self.launcher().tell(&Message::Deadlock(who));
    }

    /// [`Runtime::touch`] of pages for a process that has trapped; whether another node was asked, whose bytes are here then.
    ///
    /// # Errors
    /// As [`Runtime::touch`].
    pub fn fetch(&self, address: usize, bytes: usize, kind: Kind) -> Result<bool, Error> {
        self.prefetcher.touch(self.member()?, address, bytes, kind)
    }

    /// This thread is to fetch again soon: until it says [`Runtime::rest`] it does not sleep, and calls [`Runtime::look`] each time
    /// that it has found nothing to fetch, so that nobody is woken by what arrives.
    pub fn stay_awake(&self) {
        between_waits::begin();
    }

    /// Serves what has arrived since this thread has fetched, if it stays awake.
    pub fn look(&self) {
        if let Ok(driver) = self.member() {
            driver.look();
        }
    }

    /// This thread is about to sleep.
    pub fn rest(&self) {
        if let Ok(driver) = self.member() {
            driver.rest();
        }
    }

    /// Areas are exported so from now on.
    pub fn export_with(&self, exports: Box<dyn Export>) {
        self.driver.memory().export_with(exports);
    }

    /// The area that an address lies in.
    #[must_use]
    pub fn area_at(&self, address: usize) -> Option<AreaId> {
        self.driver.memory().translate(address).map(|minipage| minipage.area())
    }

    /// Hands the minipage at an address to `with` if this node has it for that kind of access, and keeps it until `with`
    /// returns, which must not wait. None if it has it not: touch it first.
    pub fn while_here<T>(
        &self,
        address: usize,
        kind: Kind,
        with: impl FnOnce(&Here<'_>) -> T,
    ) -> Option<T> {
        let memory = self.driver.memory();
        let minipage = memory.translate(address)?;
        let mut cell = self.driver.tables().lock(minipage);
        if cell.access() < kind.access() {
            return None;
        }
        Some(with(&Here { memory, minipage }))
    }
}
