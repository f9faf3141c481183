//! A connection between hosts: whatever is said to an end of it, nobody is let in without a key, and nothing is taken for
//! a node's words that no node has said.
//!
//! Input: a byte that chooses what happens and whose certificates are believed, then by what happens
//! - to an unauthenticated peer, at one end or the other: lengths, and what it says in pieces of them;
//! - to a handshake of two nodes, on the way: who is changed, at which byte, and how;
//! - after one: lengths, and what comes in place of what the other node says.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_transport::fuzzing::{TlsEnd, exchange};
use multigrain_types::NodeId;

const WORDS: &[u8] = b"what the other node says";

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let choice = input.byte();
    let pinned = choice & 4 != 0;
    match choice & 3 {
        0 => unauthenticated(&TlsEnd::new(true, pinned), input),
        1 => unauthenticated(&TlsEnd::new(false, pinned), input),
        2 => changed_on_the_way(pinned, input),
        _ => forged_afterwards(pinned, input),
    }
});

fn unauthenticated(node: &TlsEnd, mut input: Input<'_>) {
    loop {
        let ended = node.authenticate();
        assert_ne!(ended, Some(Ok(())), "an unauthenticated peer is let in");
        if ended.is_some() || input.is_empty() {
            break;
        }
        let piece = input.counted();
        if !node.feed(piece) {
            break;
        }
    }
    assert!(!node.may_be(NodeId(0)) && !node.may_be(NodeId(1)));
}

fn changed_on_the_way(pinned: bool, mut input: Input<'_>) {
    let ends = [true, false].map(|listens| TlsEnd::new(listens, pinned));
    let (from, place, how) = (usize::from(input.byte() & 1), input.short(), input.byte());
    let mut seen = [0; 2];
    let done = exchange(&ends, |who, said| {
        if who == from
            && let Some(byte) =
                usize::from(place).checked_sub(seen[who]).and_then(|place| said.get_mut(place))
        {
            *byte ^= how;
        }
        seen[who] += said.len();
    });
    if how == 0 {
        assert_eq!(done, [true; 2], "nothing was changed");
    }
    // The version in a record's header is the one thing that nobody looks at.
    for (end, done) in ends.iter().zip(done) {
        if done && end.say(WORDS) {
            let other = if core::ptr::eq(end, &ends[0]) { &ends[1] } else { &ends[0] };
            other.feed(&end.said());
            let received = other.receive();
            assert!(matches!(&received, Ok(None) | Err(_)) || received == Ok(Some(WORDS.to_vec())));
        }
    }
}

fn forged_afterwards(pinned: bool, mut input: Input<'_>) {
    let ends = [true, false].map(|listens| TlsEnd::new(listens, pinned));
    assert_eq!(exchange(&ends, |_, _| {}), [true; 2]);
    assert!(ends[0].may_be(NodeId(1)) && !ends[0].may_be(NodeId(0)));
    while !input.is_empty() {
        if !ends[0].feed(input.counted()) {
            return;
        }
        match ends[0].receive() {
            Ok(None) => {}
            Ok(Some(received)) => panic!("{received:?} was never said"),
            Err(_) => return,
        }
    }
}
