//! The states of a retired area, packed.
//!
//! Of release consistent minipages states stay that are not as at first: a write notice, an acknowledgement or a diff
//! may come that was on its way when the area went, and has to find them. Most minipages of an area are in the same
//! few states, so what stays is each of these once, and which minipage is in which, compressed.

#![expect(
    unsafe_code,
    reason = "states are borrowed under the locks of all shards, which the compiler cannot see"
)]

use core::hash::Hash;
use std::collections::HashMap;

use multigrain_protocol::hlrc::Copy;
use multigrain_protocol::mgs::{Client, Server};

use super::States;
use super::blocks::{BLOCK, Blocks};

/// The states of one area that are not as at first.
#[derive(Debug)]
pub(super) enum PackedStates {
    Eager { clients: Packed<Client>, servers: Packed<Server> },
    Lazy { copies: Packed<Copy> },
}

impl PackedStates {
    /// Packs the states of release consistent minipages; none if that would make them no smaller.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    pub(super) unsafe fn of(states: &States) -> Option<Self> {
        match states {
            States::Sequential { .. } => None,
            States::Eager { clients, servers } => {
                // SAFETY: the caller's promise.
                let clients = unsafe { Packed::of(clients) }?;
                // SAFETY: the caller's promise.
                let servers = unsafe { Packed::of(servers) }?;
                Some(Self::Eager { clients, servers })
            }
            // SAFETY: the caller's promise.
            States::Lazy { copies } => Some(Self::Lazy { copies: unsafe { Packed::of(copies) }? }),
        }
    }

    /// What was packed, of an area of so many minipages.
    pub(super) fn states(&self, minipages: u32) -> States {
        match self {
            Self::Eager { clients, servers } => States::Eager {
                clients: clients.blocks(minipages),
                servers: servers.blocks(minipages),
            },
            Self::Lazy { copies } => States::Lazy { copies: copies.blocks(minipages) },
        }
    }
}

/// States of one kind.
#[derive(Debug)]
pub(super) struct Packed<T> {
    /// Each state that occurs, once.
    distinct: Box<[T]>,
    /// Of each block that has come into being, in ascending order: how far it is behind the one before (`u32`), and
    /// the places of its states in `distinct` (`u16` each). Little-endian, compressed with LZ4.
    rows: Box<[u8]>,
}

impl<T: Clone + Eq + Hash> Packed<T> {
    /// Packs these; none if more than half of the states are distinct, or too many to be numbered.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    pub(super) unsafe fn of(blocks: &Blocks<T>) -> Option<Self> {
        let (mut distinct, mut places) = (Vec::new(), HashMap::new());
        let (mut rows, mut count, mut before) = (Vec::new(), 0, 0);
        for (block, row) in blocks.rows() {
            rows.extend((block - before).to_le_bytes());
            (before, count) = (block, count + row.len());
            for state in row {
                // SAFETY: the caller's promise: nobody changes it.
                let state = unsafe { &*state.get() };
                let place = *places.entry(state).or_insert_with(|| {
                    distinct.push(state.clone());
                    distinct.len() - 1
                });
                rows.extend(u16::try_from(place).ok()?.to_le_bytes());
            }
        }
        let packed = || Self {
            distinct: distinct.into(),
            rows: lz4_flex::compress_prepend_size(&rows).into(),
        };
        (2 * places.len() <= count).then(packed)
    }

    /// What was packed, of an area of so many minipages.
    ///
    /// # Panics
    /// Never: it reads what [`Packed::of`] wrote.
    fn blocks(&self, minipages: u32) -> Blocks<T> {
        const ROW: usize = 4 + 2 * BLOCK as usize;
        let rows =
            lz4_flex::decompress_size_prepended(&self.rows).expect("what was compressed here");
        let mut blocks = Blocks::new(minipages);
        let mut block = 0;
        for row in rows.chunks_exact(ROW) {
            let (behind, places) = row.split_at(4);
            block += u32::from_le_bytes(behind.try_into().expect("four bytes"));
            let mut states = places.chunks_exact(2).map(|place| {
                let place = u16::from_le_bytes([place[0], place[1]]);
                self.distinct[usize::from(place)].clone()
            });
            blocks.put(block, core::array::from_fn(|_| states.next().expect("one a minipage")));
        }
        blocks
    }

    /// Bytes beyond its own place.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.distinct) + self.rows.len()
    }
}
