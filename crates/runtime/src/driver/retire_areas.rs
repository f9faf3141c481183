//! Retiring areas: afterwards no thread of this node has a state, a view or a byte of them.
//!
//! Views are unmapped first, while all states are locked; what arrives from then on is discarded. The bytes are
//! freed once no contents are being received into them. Only then is node 0 told, and may give the place away.
//! The protocol keeps the states, since messages about them may still be on their way.

use core::sync::atomic::{AtomicU32, Ordering};

use multigrain_memory::diff;
use multigrain_transport::{Header, Payload};
use multigrain_types::{AreaId, NodeId, ThreadId};

use super::Driver;
use crate::error::Error;
use crate::frames::{Asker, Request};
use crate::shim::{Mutex, lock};

/// Areas on their way out of this node.
#[derive(Debug)]
pub(super) struct Retiring {
    /// For each node, the area + 1 that contents of it are coming in for; 0 for none.
    arriving: Box<[AtomicU32]>,
    /// Areas without views that still have bytes, and how many they are.
    waiting: Mutex<Vec<AreaId>>,
    count: AtomicU32,
}

impl Retiring {
    pub(super) fn new(nodes: u16) -> Self {
        let arriving = (0..nodes).map(|_| AtomicU32::new(0)).collect();
        Self { arriving, waiting: Mutex::default(), count: AtomicU32::new(0) }
    }

    /// Contents of a minipage of an area are about to come in from a node: where is decided after this.
    pub(super) fn arrives(&self, from: NodeId, area: AreaId) {
        if let Some(arriving) = self.arriving.get(usize::from(from.0)) {
            arriving.store(area.0 + 1, Ordering::SeqCst);
        }
    }

    /// What was coming in from a node has come, or never will.
    pub(super) fn arrived(&self, from: NodeId) {
        // The thread that receives alone changes it, and most frames have no contents.
        if let Some(arriving) = self.arriving.get(usize::from(from.0))
            && arriving.load(Ordering::Relaxed) != 0
        {
            arriving.store(0, Ordering::SeqCst);
        }
    }

    fn is_awaited(&self, area: AreaId) -> bool {
        self.arriving.iter().any(|arriving| arriving.load(Ordering::SeqCst) == area.0 + 1)
    }
}

impl Driver {
    /// Takes an area away from this node, and tells node 0 when that is done; false if it is unknown.
    pub(crate) fn retire_area(&self, id: AreaId) -> bool {
        let Some(area) = self.memory().area(id) else { return false };
        let longest = diff::most_bytes(area.minipage_bytes(0));
        self.engine.disallow_diffs(area.minipages() as usize, longest);
        self.engine.writes().forget(id);
        let retire = || {
            let retired = self.memory().retire_area(id);
            if retired.is_ok() {
                self.engine.forget_twins(id);
            }
            retired
        };
        match self.tables().retire(id, retire) {
            Ok(()) => {
                self.races().forget_area(id);
                self.engine.forget_sharing(id);
                lock(&self.retiring.waiting).push(id);
                self.retiring.count.fetch_add(1, Ordering::SeqCst);
                self.finish_retiring();
            }
            Err(error) => {
                self.platform().launcher().warn(&error.to_string());
                self.has_retired(id, Error::System(String::new()).code());
            }
        }
        true
    }

    /// Tells node 0 that an area of this node is in use.
    pub(crate) fn keep_area(&self, id: AreaId) {
        self.has_retired(id, Error::NotPermitted(String::new()).code());
    }

    /// Goes on with areas that contents were coming in for.
    pub(super) fn finish_retiring(&self) {
        if self.retiring.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let is_free = |id: &mut AreaId| !self.retiring.is_awaited(*id);
        let free: Vec<AreaId> = lock(&self.retiring.waiting).extract_if(.., is_free).collect();
        for id in free {
            self.retiring.count.fetch_sub(1, Ordering::SeqCst);
            let code = match self.memory().discard_area(id) {
                Ok(()) => 0,
                Err(error) => {
                    self.platform().launcher().warn(&error.to_string());
                    Error::System(String::new()).code()
                }
            };
            self.has_retired(id, code);
        }
    }

    fn has_retired(&self, id: AreaId, code: i32) {
        let (subject, value) = (id.0.into(), u64::from(code.cast_unsigned()));
        let from = self.me().0;
        let header = Header {
            kind: Request::AreaMapped.number(),
            from,
            subject,
            value,
            ..Header::default()
        };
        if self.me() == NodeId(0) {
            let asker = Asker { node: self.me(), thread: ThreadId(0) };
            // What this node asks of itself makes sense.
            let _ = self.services.serve(self, asker, Request::AreaMapped, &header, &[]);
        } else {
            self.platform().send_frame(NodeId(0), header, Payload::None);
        }
    }
}
