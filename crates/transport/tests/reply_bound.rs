//! What may wait for a peer: answers that it does not read are bounded, all else is not.
#![expect(unsafe_code, reason = "its sink names no place")]
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::{Destination, Header, LostReason, MAX_BUFFER, Mesh, Sink, Timeout};
use multigrain_types::NodeId;
use support::{Family, Log, conformance, header, job};

conformance! {
    who_asks_without_reading_the_answers_is_cut_off
    what_nobody_asked_for_cuts_nobody_off
    what_is_owed_when_a_peer_asks_is_no_answer
}

/// Answers every frame with so many bytes.
struct Answering<'a> {
    mesh: &'a Mesh,
    bytes: &'a [u8],
    /// Answers go in batches.
    batches: bool,
    /// They are none: what this node owes of its own.
    owed: bool,
    received: usize,
    lost: Option<LostReason>,
}

// SAFETY: it names no place.
unsafe impl Sink for Answering<'_> {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, from: NodeId, asked: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.received += 1;
        let answer = header(2, asked.subject);
        if self.owed {
            let bytes = |out: &mut Vec<u8>| out.extend(self.bytes);
            self.mesh.unsolicited(from, || self.mesh.defer_with(from, answer, bytes)).unwrap();
            return Ok(());
        }
        if self.batches {
            self.mesh.defer_with(from, answer, |out| out.extend(self.bytes)).unwrap();
        } else {
            self.mesh.send_bytes(from, answer, self.bytes).unwrap();
        }
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        self.lost = Some(reason);
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

fn who_asks_without_reading_the_answers_is_cut_off(family: Family) {
    for batches in [false, true] {
        let (meshes, _) = job(family, 2);
        let bytes = vec![7; 40_000];
        let mut sink = Answering {
            mesh: &meshes[0],
            bytes: &bytes,
            batches,
            owed: false,
            received: 0,
            lost: None,
        };
        let mut asked = 0;
        while sink.lost.is_none() && asked < 10_000 {
            meshes[1].send_bytes(NodeId(0), header(1, asked), &[]).unwrap();
            asked += 1;
            meshes[0].receive(&mut sink, Timeout::Forever);
        }
        let Some(LostReason::Violation(why)) = &sink.lost else {
            panic!("{asked}: {:?}", sink.lost)
        };
        assert!(why.starts_with("asks without reading the answers"), "{why}");
        // The bound is 64 MiB; the sockets have taken some more.
        assert!((1600..2200).contains(&asked), "{asked} questions");
        assert_eq!(meshes[0].waiting_bytes(NodeId(1)), 0, "nothing waits for who is cut off");
    }
}

fn what_nobody_asked_for_cuts_nobody_off(family: Family) {
    const BULK: usize = 90;
    const ASKED: usize = 200;
    let (meshes, _) = job(family, 2);
    let bulk = vec![1; MAX_BUFFER as usize];
    for subject in 0..BULK {
        meshes[0].send_bytes(NodeId(1), header(3, subject as u64), &bulk).unwrap();
    }
    let mut sink = Answering {
        mesh: &meshes[0],
        bytes: &[2; 100],
        batches: false,
        owed: false,
        received: 0,
        lost: None,
    };
    for subject in 0..ASKED {
        meshes[1].send_bytes(NodeId(0), header(1, subject as u64), &[]).unwrap();
    }
    while sink.received < ASKED {
        meshes[0].receive(&mut sink, Timeout::Forever);
        assert_eq!(sink.lost, None);
    }
    let waiting = meshes[0].waiting_bytes(NodeId(1));
    assert!(waiting > 80 << 20, "{waiting} bytes wait: more than answers may");
    assert_eq!(meshes[0].most_waiting(80 << 20), Some(NodeId(1)));
    assert_eq!(meshes[0].most_waiting(waiting), None);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut log = Log::default();
            log.until(&meshes[1], |log| log.frames.len() == BULK + ASKED);
        });
        while meshes[0].waiting_bytes(NodeId(1)) > 0 {
            meshes[0].wait_for_room(NodeId(1));
        }
        reader.join().unwrap();
    });
}

/// A lock is asked for, and what was written under it goes to its home first, which asks.
fn what_is_owed_when_a_peer_asks_is_no_answer(family: Family) {
    let (meshes, _) = job(family, 2);
    let bytes = vec![7; 40_000];
    let mesh = &meshes[0];
    let mut sink =
        Answering { mesh, bytes: &bytes, batches: true, owed: true, received: 0, lost: None };
    for asked in 0..2500 {
        meshes[1].send_bytes(NodeId(0), header(1, asked), &[]).unwrap();
        meshes[0].receive(&mut sink, Timeout::Forever);
        assert_eq!(sink.lost, None, "after {asked}");
    }
    assert!(meshes[0].waiting_bytes(NodeId(1)) > 80 << 20, "more than answers may");
}
