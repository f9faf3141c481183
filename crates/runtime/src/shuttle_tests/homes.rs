//! The other node fetches from its new home as soon as the barrier that moves it lets it go, while this node's
//! thread is still in the step that does so.

use multigrain_memory::{Area, GuardChoice, Memory, Shape, VIEWS_BASE};
use multigrain_protocol::{BarrierMessage, HlrcMessage, Kind, Message, SyncMessage};
use multigrain_transport::{Destination, Header, LostReason, Mesh, Sink, Timeout, pair};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId, PAGE_BYTES};
use shuttle::sync::mpsc;
use shuttle::thread;
use std::sync::Arc;

use super::{BARRIER, explore_with, leave_after};
use crate::area::{AreaRecord, Items, Origin};
use crate::config::Config;
use crate::driver::fetch::{For, Wanted};
use crate::frames::{DriverFrame, OwnKind, header_of, words_of};
use crate::job::Runtime;
use crate::minipage_run::Run;
use crate::receiver::WaitMode;
use crate::receiver::slots;
use crate::sync::LEAVING_BARRIER;

/// Minipages whose home moves: the more, the longer the step takes.
const COUNT: u32 = 16;
const BYTES: u64 = PAGE_BYTES as u64;

fn minipage(index: u32) -> MinipageId {
    MinipageId::new(AreaId(0), index)
}

/// The home of all minipages, until a barrier moves them to node 0, their only writer.
struct FormerHome {
    mesh: Mesh,
    received: Received,
}

#[derive(Default)]
struct Received {
    messages: Vec<Message>,
    answers: u64,
}

impl FormerHome {
    fn live(mut self, served: &mpsc::Sender<()>) {
        let arrive = BarrierMessage::Arrive { arrivals: 1, total: 2, quiescent: 1 };
        self.send(Message::Sync { id: BARRIER.into(), body: SyncMessage::Barrier(arrive) }, &[]);
        let mut leaving = false;
        while !leaving {
            self.mesh.receive(&mut self.received, Timeout::Forever);
            for message in core::mem::take(&mut self.received.messages) {
                match message {
                    Message::Hlrc { body: HlrcMessage::Fetch { .. }, minipage } => {
                        self.send(HlrcMessage::Data.about(minipage), &[0; PAGE_BYTES]);
                    }
                    Message::Hlrc { body: HlrcMessage::Diff { flush, .. }, minipage } => {
                        self.send(HlrcMessage::DiffAck { flush, count: 1 }.about(minipage), &[]);
                    }
                    Message::Hlrc { body: HlrcMessage::Data, .. } => served.send(()).unwrap(),
                    Message::Sync { id: LEAVING_BARRIER, .. } => leaving = true,
                    Message::Sync { .. } => {
                        let (requester, epoch, waits) = (NodeId(1), 1, false);
                        let fetch = HlrcMessage::Fetch { requester, epoch, waits };
                        self.send(fetch.about(minipage(COUNT - 1)), &[]);
                    }
                    other @ (Message::Page { .. } | Message::Mgs { .. } | Message::Hlrc { .. }) => {
                        panic!("{other:?}")
                    }
                }
            }
        }
        leave_after(self.mesh, &mut self.received, |received| received.answers > 0);
    }

    fn send(&self, message: Message, body: &[u8]) {
        self.mesh.send_bytes(NodeId(0), header_of(message), body).unwrap();
    }
}

// SAFETY: it names no place.
unsafe impl Sink for Received {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        match OwnKind::of(header.kind) {
            Some(OwnKind::Driver(DriverFrame::Answer)) => self.answers += 1,
            // Write notices, and node 0's own departure.
            Some(OwnKind::Request(_) | OwnKind::Driver(_)) => {}
            None => {
                let message = Message::from_words(&words_of(header));
                self.messages.push(message.map_err(|error| error.to_string())?);
            }
        }
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        assert_eq!(reason, LostReason::Left);
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

/// One schedule.
fn play(wait: WaitMode) {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(u64::from(COUNT) * BYTES, GuardChoice::Mprotect);
    let config = Config { wait, learn: false, ..Config::single() };
    let memory = Memory::new(&memory).unwrap();
    let runtime = Arc::new(Runtime::assemble(&config, 2, memory, ours, None).unwrap());
    let shape = Shape::Pages { pages: 1 };
    let bytes = u64::from(COUNT) * BYTES;
    let area = Area { id: AreaId(0), base: VIEWS_BASE, file_offset: 0, bytes, shape };
    let items = Items { bytes, count: 1, chunk: 1, array: false };
    let (owner, consistency, origin) = (NodeId(1), Consistency::LazyRelease, Origin::Heap);
    assert_eq!(runtime.adopt(AreaRecord { area, owner, items, consistency, origin }), 0);

    let service = {
        let runtime = Arc::clone(&runtime);
        thread::spawn(move || runtime.driver.serve_peers())
    };
    let (served, is_served) = mpsc::channel();
    let received = Received::default();
    let peer = thread::spawn(move || FormerHome { mesh: theirs, received }.live(&served));
    let own = runtime.driver.my_slot().unwrap();
    for written in (0..COUNT).map(minipage) {
        runtime.driver.fetch(
            own,
            Wanted::Run(Run::one(written), written, None),
            Kind::Write,
            For::Later,
        );
        let (page, _) = runtime.driver.memory().privileged(written);
        // SAFETY: the page is mapped as long as the memory, and nobody else writes it.
        unsafe { page.write(7) };
    }
    // So that the barrier is decided in this thread's own step, beside which the service thread receives.
    runtime.driver.release().unwrap();
    runtime.barrier(BARRIER, 0).unwrap();
    is_served.recv().unwrap();
    runtime.leave().unwrap();
    service.join().unwrap();
    peer.join().unwrap();
}

#[test]
fn who_is_let_go_by_a_barrier_is_served_by_the_new_home_at_once() {
    explore_with(play);
}
