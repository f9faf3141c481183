//! The runtime's own requests (areas, frees, names, threads) as a hostile peer may send them.
//!
//! Input: the victim, then requests: peer, kind, thread, subject, value, and a body: bytes, or the
//! fields of an area.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, ends_well, fuzz_target, peer, victim};
use multigrain_runtime::fuzzing::Outcome;
use multigrain_transport::Header;

/// The body of an area's request or announcement, as `multigrain_runtime` writes it.
fn area(input: &mut Input<'_>) -> Vec<u8> {
    let mut wide = || input.number();
    let (id, owner) = (wide() as u32, wide() as u16);
    let (base, file_offset, bytes) = (wide(), wide(), wide());
    let (slot, per_page, pages) = (wide() as u32, wide() as u16, wide() as u32);
    let (item_bytes, count, chunk, last) = (wide(), wide(), wide() as u32, wide());
    // One number for all three, so that the corpus from before there were consistencies and origins reads as it did.
    let (array, consistency, origin) = (last == 1, (last >> 1) as u8, (last >> 9) as u8);
    let items = (item_bytes, count, chunk, array);
    let place = (id, owner, base, file_offset, bytes, slot, per_page, pages);
    postcard::to_allocvec(&(place, items, consistency, origin)).expect("numbers can be written")
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (rank, mut victim) = victim(input.byte());
    while !input.is_empty() {
        let from = peer(rank, input.byte());
        let kind = 64 + input.byte() % 14;
        let thread = input.byte();
        let (subject, value) = (input.number(), input.number());
        let body = if thread & 128 == 0 { input.counted().to_vec() } else { area(&mut input) };
        let thread = u32::from(thread & 127);
        let header = Header { kind, thread, subject, value, ..Header::default() };
        let outcome = victim.request(from, &header, &body);
        if outcome != Outcome::Alive {
            return ends_well(&outcome);
        }
    }
});
