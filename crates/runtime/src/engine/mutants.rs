//! Seeded faults of the runtime: see [`multigrain_protocol::mutants`].
//!
//! Those of the protocol are in these nodes too. Here are the faults below it that only real nodes can show: the
//! order of bytes, protections and wake-ups.

#![expect(unsafe_code, reason = "a mutant writes page bytes at the wrong time")]

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use multigrain_protocol::mutants::{Mutant, on};
use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::sync::{Operand, SyncInput};
use multigrain_protocol::{Attach, Message, PageMessage, ReleaseWorld, SyncMessage, Turns, World};
use multigrain_transport::Destination;
use multigrain_types::{Access, MinipageId, NodeId, ThreadId};

use super::world::RealWorld;
use crate::platform::Platform;
use crate::shim::lock;

/// How late `protected-late` is: long enough for another thread to write.
const LATE: Duration = Duration::from_micros(200);

/// The real world, but for the mutant this process is. Without one it changes nothing.
pub(super) struct MutantWorld<'a, 'b> {
    real: &'a mut RealWorld<'b>,
    late: Option<(MinipageId, Access, Access)>,
}

/// `runs-closed-unseen`: threads have time to open what is about to be closed together.
pub(super) fn closes_unseen(to: Access) -> bool {
    let closes = on(const { Mutant::named("runs-closed-unseen") });
    if closes && to == Access::NoAccess {
        thread::sleep(LATE);
    }
    closes
}

/// `twin-after-opening`: these twins are made when somebody wants the diff.
static LATE_TWINS: Mutex<Vec<MinipageId>> = Mutex::new(Vec::new());

/// Whether there was one.
fn forget_late_twin(minipage: MinipageId) -> bool {
    let mut twins = lock(&LATE_TWINS);
    let place = twins.iter().position(|&late| late == minipage);
    place.map(|place| twins.swap_remove(place)).is_some()
}

impl<'a, 'b> MutantWorld<'a, 'b> {
    pub(super) fn new(real: &'a mut RealWorld<'b>) -> Self {
        Self { real, late: None }
    }

    fn released(&mut self) -> &mut dyn ReleaseWorld {
        self.real
    }

    fn protect_now(&mut self) {
        if let Some((minipage, from, to)) = self.late.take() {
            // In a run the message waits for the protections.
            self.real.carry_out_run();
            thread::sleep(LATE);
            self.real.protect(minipage, from, to);
        }
    }
}

impl Drop for MutantWorld<'_, '_> {
    fn drop(&mut self) {
        self.protect_now();
    }
}

impl World for MutantWorld<'_, '_> {
    fn send(&mut self, to: NodeId, message: Message) {
        if let (Attach::Diff, Some(minipage)) = (message.attach(), message.minipage())
            && forget_late_twin(minipage)
        {
            self.released().make_twin(minipage);
        }
        self.real.send(to, message);
        self.protect_now();
    }

    fn send_operand(&mut self, to: NodeId, id: u64, operand: &Operand) {
        self.real.send_operand(to, id, operand);
    }

    fn result(&mut self, thread: ThreadId, values: Arc<[u8]>) {
        self.real.result(thread, values);
    }

    fn on_request(&mut self, asked: &SyncInput) {
        self.real.on_request(asked);
    }

    fn on_send(&mut self, to: NodeId, id: u64, message: SyncMessage) {
        self.real.on_send(to, id, message);
    }

    fn on_receive(&mut self, from: NodeId, id: u64, message: SyncMessage) {
        self.real.on_receive(from, id, message);
    }

    fn send_deferred(&mut self, to: NodeId, message: Message) {
        let ack = matches!(message, Message::Page { body: PageMessage::Ack { .. }, .. });
        if !(ack && on(Mutant::named("deferred-ack-lost"))) {
            self.real.send_deferred(to, message);
        }
    }

    fn install(&mut self, minipage: MinipageId, access: Access) {
        self.real.install(minipage, access);
    }

    fn protect(&mut self, minipage: MinipageId, from: Access, to: Access) {
        if on(Mutant::named("protected-late")) && to < from {
            self.late = Some((minipage, from, to));
        } else {
            self.real.protect(minipage, from, to);
        }
    }

    fn reprotect(&mut self, minipage: MinipageId, access: Access) {
        self.real.reprotect(minipage, access);
    }

    fn wake(&mut self, thread: ThreadId) {
        self.real.wake(thread);
    }

    fn refuse(&mut self, thread: ThreadId) {
        self.real.refuse(thread);
    }

    fn hold(&mut self, thread: ThreadId, minipage: MinipageId, turns: Turns, urgent: bool) {
        self.real.hold(thread, minipage, turns, urgent);
    }

    fn reclaimed(&mut self, minipage: MinipageId) {
        self.real.reclaimed(minipage);
    }

    fn competing(&mut self, minipage: MinipageId) {
        self.real.competing(minipage);
    }

    fn release_world(&mut self) -> Option<&mut dyn ReleaseWorld> {
        Some(self)
    }
}

impl ReleaseWorld for MutantWorld<'_, '_> {
    fn send_notices(&mut self, to: NodeId, notices: WriteNotices) {
        self.released().send_notices(to, notices);
    }

    fn send_notices_alone(&mut self) {
        self.released().send_notices_alone();
    }

    fn closing(&mut self, minipages: &[MinipageId]) {
        self.released().closing(minipages);
    }

    fn losing(&mut self, minipages: &[MinipageId]) {
        self.released().losing(minipages);
    }

    fn send_batched(&mut self) {
        self.released().send_batched();
    }

    fn track(&mut self, minipage: MinipageId, from: Access) {
        self.released().track(minipage, from);
    }

    fn written(&mut self) -> Vec<MinipageId> {
        self.released().written()
    }

    fn make_twin(&mut self, minipage: MinipageId) {
        if on(Mutant::named("twin-after-opening")) {
            lock(&LATE_TWINS).push(minipage);
        } else {
            self.released().make_twin(minipage);
        }
    }

    fn drop_twin(&mut self, minipage: MinipageId) {
        forget_late_twin(minipage);
        self.released().drop_twin(minipage);
    }

    fn store(&mut self, minipage: MinipageId) {
        self.released().store(minipage);
    }

    fn buffer_diff(&mut self, minipage: MinipageId) {
        self.released().buffer_diff(minipage);
    }

    fn merge_diffs(&mut self, minipage: MinipageId, open: bool) {
        self.released().merge_diffs(minipage, open);
    }

    fn forward_diff(&mut self, to: NodeId, message: Message) {
        self.released().forward_diff(to, message);
    }

    fn close_if_unwritten(&mut self, minipage: MinipageId) -> bool {
        self.released().close_if_unwritten(minipage)
    }

    fn install_zero(&mut self, minipage: MinipageId, access: Access) {
        self.released().install_zero(minipage, access);
    }

    fn close_if_zero(&mut self, minipage: MinipageId) -> bool {
        self.released().close_if_zero(minipage)
    }
}

/// `granted-before-bytes`: page bytes wait here until the next frame comes.
static ON_THEIR_WAY: Mutex<Option<(MinipageId, Vec<u8>)>> = Mutex::new(None);

/// Where page bytes go instead of their place.
pub(crate) fn detour(place: Destination) -> Destination {
    if on(Mutant::named("granted-before-bytes")) { Destination::Buffer } else { place }
}

/// A frame is about to be taken: puts the last page in its place and keeps the one that came.
pub(crate) fn arrive(platform: &Platform, message: Message, body: Option<&[u8]>) {
    if !on(Mutant::named("granted-before-bytes")) {
        return;
    }
    let mut waiting = lock(&ON_THEIR_WAY);
    if let Some((minipage, bytes)) = waiting.take() {
        let (place, length) = platform.memory().privileged(minipage);
        assert_eq!(bytes.len(), length, "the detour keeps the bytes of a minipage");
        // SAFETY: the minipage's place in the privileged view is writable for its length.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, length) };
    }
    if let (Message::Page { minipage, .. }, Attach::Page, Some(bytes)) =
        (message, message.attach(), body)
    {
        *waiting = Some((minipage, bytes.to_vec()));
    }
}
