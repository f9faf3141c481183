//! Collective operations as calls that wait: arrays are cut into pieces, each of which is one barrier.
//!
//! Operations that the engines know are folded by them on the way. Others (functions of the program, scans) are
//! gathered, and each thread folds them for itself: no code of the program runs inside of the runtime.

use multigrain_protocol::sync::{
    COLLECTIVE, Element, MOST_OPERAND_BYTES, MOST_SHARE_BYTES, Operand, Operation, Shape,
};
use multigrain_types::limits::MAX_THREADS;

use crate::driver::Driver;
use crate::error::Error;
use crate::sync::{Passed, SyncId, Synchronization, of_program};

/// The threads that take part in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    id: u64,
    threads: u32,
    place: u32,
}

impl Party {
    /// A thread at `place`, from 0, of `threads` threads of the job that come with this id; 0 threads: every
    /// node's. Ids of collective operations are others than those of barriers.
    pub fn new(id: impl Into<SyncId>, threads: u32, place: u32) -> Self {
        Self { id: id.into().value(), threads, place }
    }
}

/// What is done with the values of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// The thread at this place gives, all others take.
    Broadcast(u32),
    /// All values are combined; the thread at this place takes the result, or all do.
    Reduce(Operation, Option<u32>),
    /// Each thread takes what those up to its own place have brought, combined in their order.
    Scan(Operation),
}

/// A function of the program that combines values: the second with the first, into the first.
pub type Combine<'a> = &'a mut dyn FnMut(&mut [u8], &[u8]);

impl Collective {
    fn shape(self, element: Element, (count, whole): (u32, u64), gathers: bool) -> Shape {
        let gathered = |operation| if gathers { Operation::Gather } else { operation };
        let (operation, root) = match self {
            Self::Broadcast(root) => (Operation::Broadcast, Some(root)),
            Self::Reduce(operation, root) => (gathered(operation), root),
            Self::Scan(_) => (Operation::Gather, None),
        };
        Shape { operation, element, count, whole, root }
    }
}

impl Synchronization {
    /// Runs the operation on `values`, whole elements, which the result overwrites; true if this thread receives
    /// a result. `combine` combines elements instead of what `what` says; `each` is called after each piece.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a place that no thread has, or elements that are too large;
    /// [`Error::NotPermitted`] where threads disagree.
    pub(crate) fn collect(
        &self,
        driver: &Driver,
        party: Party,
        (what, element): (Collective, Element),
        values: &mut [u8],
        mut combine: Option<Combine<'_>>,
        mut each: impl FnMut(&Passed),
    ) -> Result<bool, Error> {
        let all = match party.threads {
            0 => self.threads().saturating_mul(driver.nodes().into()),
            threads => threads,
        };
        let gathers = combine.is_some() || matches!(what, Collective::Scan(_));
        check(party, what, all)?;
        can_all_come(driver, all)?;
        if values.is_empty() {
            return Err(Error::Invalid("no elements in a collective operation".into()));
        }
        let whole = values.len() as u64 / u64::from(element.bytes().max(1));
        let takes = match what {
            Collective::Reduce(_, Some(root)) => root == party.place,
            Collective::Broadcast(_) | Collective::Reduce(_, None) | Collective::Scan(_) => true,
        };
        let piece = piece_bytes(element, all, gathers)?;
        for piece in values.chunks_mut(piece) {
            let count = u32::try_from(piece.len()).unwrap_or(u32::MAX) / element.bytes();
            let shape = what.shape(element, (count, whole), gathers);
            let gives = !matches!(what, Collective::Broadcast(root) if root != party.place);
            let brought = if gives { piece.to_vec() } else { Vec::new() };
            let operand = Operand::new(shape, party.place, brought);
            let passed =
                self.meet(driver, (party.id | COLLECTIVE, party.threads), Some(operand))?;
            each(&passed);
            let result = driver.engine().take_result(passed.thread);
            if !takes {
                continue;
            }
            if !gathers {
                piece.copy_from_slice(fitting(&result, piece.len())?);
                continue;
            }
            let until = match what {
                Collective::Scan(_) => party.place + 1,
                Collective::Broadcast(_) | Collective::Reduce(..) => all,
            };
            fold(piece, fitting(&result, piece.len() * all as usize)?, until, |one, other| match (
                &mut combine,
                what,
            ) {
                (Some(combine), _) => {
                    let size = element.bytes() as usize;
                    one.chunks_mut(size)
                        .zip(other.chunks(size))
                        .for_each(|(one, other)| combine(one, other));
                }
                (None, Collective::Scan(operation) | Collective::Reduce(operation, _)) => {
                    Shape { operation, ..shape }.fold(one, other);
                }
                (None, Collective::Broadcast(_)) => {}
            });
        }
        Ok(takes)
    }
}

/// What the threads of the places below `until` have brought, combined in their order.
fn fold(piece: &mut [u8], all: &[u8], until: u32, mut combine: impl FnMut(&mut [u8], &[u8])) {
    let mut brought = all.chunks(piece.len()).take(until as usize);
    if let Some(first) = brought.next() {
        piece.copy_from_slice(first);
    }
    brought.for_each(|other| combine(piece, other));
}

/// Everybody was asked for this much.
fn fitting(result: &[u8], bytes: usize) -> Result<&[u8], Error> {
    if result.len() == bytes {
        return Ok(result);
    }
    let short = "a collective operation whose root, or one of whose places, no thread has";
    Err(Error::NotPermitted(short.into()))
}

/// As many threads can be in this job at one time.
///
/// # Errors
/// [`Error::Invalid`] if not: somebody who waits for them would for ever.
pub(crate) fn can_all_come(driver: &Driver, threads: u32) -> Result<(), Error> {
    let most = u32::from(driver.nodes()).saturating_mul(MAX_THREADS);
    if threads <= most {
        return Ok(());
    }
    Err(Error::Invalid(format!("{threads} threads are to come, and this job can have {most}")))
}

fn check(party: Party, what: Collective, all: u32) -> Result<(), Error> {
    of_program("collective operation", party.id)?;
    let root = match what {
        Collective::Broadcast(root) | Collective::Reduce(_, Some(root)) => root,
        Collective::Reduce(_, None) | Collective::Scan(_) => 0,
    };
    for (name, place) in [("place", party.place), ("root", root)] {
        if place >= all {
            let text = format!("{name} {place} in a collective operation of {all} threads");
            return Err(Error::Invalid(format!("{text}: places are from 0 on")));
        }
    }
    Ok(())
}

/// Bytes of the pieces of which each thread brings one at a time.
fn piece_bytes(element: Element, all: u32, gathers: bool) -> Result<usize, Error> {
    /// What a share takes beside its bytes; and an operand beside its shares.
    const HEAD: usize = 64;
    let size = element.bytes() as usize;
    let share = if gathers {
        ((MOST_OPERAND_BYTES - HEAD) / all as usize).saturating_sub(HEAD).min(MOST_SHARE_BYTES)
    } else {
        MOST_SHARE_BYTES
    };
    match share.checked_div(size) {
        Some(1..) => Ok(share / size * size),
        Some(0) => Err(Error::Invalid(format!(
            "elements of {size} bytes in a collective operation of {all} threads: {share} is the most"
        ))),
        None => Err(Error::Invalid("elements of no bytes in a collective operation".into())),
    }
}
