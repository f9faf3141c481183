//! Both sides of the handshake: only the right HELLO is let in, only the right WELCOME is believed,
//! and no verdict changes as more bytes come.
//!
//! Input: a byte that chooses the side, then what the other one says.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_transport::fuzzing::Shaker;
use multigrain_types::NodeId;

const NODES: u16 = 4;
const OWN: NodeId = NodeId(1);

fn shaker(rank: NodeId) -> Shaker {
    Shaker::new(rank, NODES, 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, [9; 32], 3)
}

fn accepts(said: &[u8]) {
    let own = shaker(OWN);
    let mut before = Ok(None);
    for cut in 0..=said.len() {
        let verdict = own.judge(&said[..cut]);
        assert!(before == Ok(None) || verdict == before, "{before:?}, then {verdict:?}");
        before = verdict;
    }
    if let Ok(Some(peer)) = before {
        let right = shaker(peer).hello();
        assert!(peer.0 > OWN.0 && peer.0 < NODES);
        // The free fields of the header are the sender's affair.
        assert_eq!((said[0], &said[32..right.len()]), (right[0], &right[32..]));
    }
}

fn connects(said: &[u8]) {
    let Some(said) = said.first_chunk() else { return };
    let (own, peer) = (shaker(OWN), NodeId(0));
    let refusal = own.answer(said, peer);
    assert_eq!(refusal.is_none(), said[..] == shaker(peer).welcome());
    assert!(refusal.is_none_or(|why| !why.contains('\n')));
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    if input.byte() & 1 == 0 { accepts(input.0) } else { connects(input.0) }
});
