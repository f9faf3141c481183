//! A peer that breaks the rules of the mesh: a tool that shall find mutants. The tests of the same are in
//! `tests/reply_bound.rs`. What breaks the rules of what is above the mesh knows no sockets, and so no kind of
//! them: `hostile_peer.rs` of the runtime.

#![expect(unsafe_code, reason = "its sink names no place")]

use crate::mesh::Mesh;
use crate::pair::{pair, pair_over_tcp};
use crate::sink::{Destination, LostReason, Sink};
use crate::{Header, Timeout};
use multigrain_types::NodeId;

/// All scenes, by name.
pub const SCENES: [(&str, fn()); 2] = [
    ("who asks without reading the answers is cut off", || {
        who_asks_without_reading_the_answers_is_cut_off(pair(None));
    }),
    ("who asks without reading the answers is cut off, over TCP", || {
        who_asks_without_reading_the_answers_is_cut_off(pair_over_tcp());
    }),
];

/// Bytes of an answer.
const ANSWER: usize = 40_000;
/// Questions whose answers are far more than may wait.
const QUESTIONS: u64 = 3_000;

/// Answers every frame.
struct Answering<'a> {
    mesh: &'a Mesh,
    lost: Option<LostReason>,
}

// SAFETY: it names no place.
unsafe impl Sink for Answering<'_> {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, from: NodeId, asked: &Header, _: Option<&[u8]>) -> Result<(), String> {
        let answer = Header { kind: 2, subject: asked.subject, ..Header::default() };
        let sent = self.mesh.send_bytes(from, answer, &[7; ANSWER]);
        sent.map(drop).map_err(|error| error.to_string())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        self.lost = Some(reason);
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

fn who_asks_without_reading_the_answers_is_cut_off([ours, theirs]: [Mesh; 2]) {
    let mut sink = Answering { mesh: &ours, lost: None };
    for subject in 0..QUESTIONS {
        let question = Header { kind: 1, subject, ..Header::default() };
        if sink.lost.is_some() || theirs.send_bytes(NodeId(0), question, &[]).is_err() {
            break;
        }
        ours.receive(&mut sink, Timeout::Now);
    }
    match sink.lost {
        Some(LostReason::Violation(why)) if why.starts_with("asks without reading") => {}
        Some(reason) => panic!("it is lost: {reason}"),
        None => panic!("{} bytes of answers wait", ours.waiting_bytes(NodeId(1))),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg_attr(miri, ignore = "has sockets")]
    fn every_scene_ends_as_it_must() {
        for (_, scene) in super::SCENES {
            scene();
        }
    }
}
