//! Answers that are more than a number.

use std::collections::BTreeMap;

use multigrain_transport::{Header, Payload};
use multigrain_types::{NodeId, ThreadId};

use super::Driver;
use crate::error::Error;
use crate::frames::{Asker, DriverFrame, Request};
use crate::shim::{Mutex, lock};

/// Longest answer, bytes.
const LONGEST: usize = 4096;

/// Answers that have come and whose threads have not taken them.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<BTreeMap<ThreadId, Box<[u8]>>>);

impl Answers {
    /// False if it is too long.
    pub(super) fn keep(&self, thread: ThreadId, body: &[u8]) -> bool {
        if !body.is_empty() {
            lock(&self.0).insert(thread, body.into());
        }
        body.len() <= LONGEST
    }
}

impl Driver {
    /// Sends a request that is answered by bytes, and waits for them.
    ///
    /// # Errors
    /// The code that came instead.
    pub(crate) fn request_for_bytes(
        &self,
        to: NodeId,
        request: Request,
        subject: u64,
        body: &[u8],
    ) -> Result<Box<[u8]>, i32> {
        let (thread, _) = self.my_slot().map_err(|error| error.code())?;
        lock(&self.answers.0).remove(&thread);
        self.request(to, request, subject, 0, body).map_err(|(code, _)| code)?;
        lock(&self.answers.0).remove(&thread).ok_or(Error::System(String::new()).code())
    }

    /// Answers a request with bytes.
    pub(crate) fn answer_with(&self, asker: Asker, body: &[u8]) {
        if asker.node == self.me() {
            self.answers.keep(asker.thread, body);
            return self.answer(asker, 0, 0);
        }
        lock(&self.outstanding).close(asker);
        self.notify(asker.node);
        let (kind, from, thread) = (DriverFrame::Answer.number(), self.me().0, asker.thread.0);
        let header = Header { kind, from, thread, ..Header::default() };
        self.platform().send_frame(asker.node, header, Payload::Bytes(body));
    }
}
