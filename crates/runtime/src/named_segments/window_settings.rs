//! Setting the time window of a segment, or of some of its pages (Delta, MIRAGE+ 2.1), on all nodes.

use core::ops::Range;
use core::sync::atomic::Ordering;
use core::time::Duration;

use multigrain_protocol::Kind;
use multigrain_types::{Access, AreaId, NodeId};
use serde::{Deserialize, Serialize};

use super::{NamedSegments, SegmentOptions, area_id, encode, segment_at};
use crate::area::AreaRecord;
use crate::driver::Driver;
use crate::error::Error;
use crate::frames::{Asker, Request};
use crate::heap::Heap;

/// The longest window, so that waits stay bounded.
const MOST: Duration = Duration::from_secs(10);

/// On the wire.
#[derive(Debug, Serialize, Deserialize)]
struct Setting {
    /// The first minipage and how many; all of them if none.
    first: u32,
    count: u32,
    ns: u64,
}

/// Whether a segment may be created with its window.
///
/// # Errors
/// [`Error::Invalid`].
pub(super) fn check(driver: &Driver, options: SegmentOptions) -> Result<(), Error> {
    let job = driver.memory().policy(multigrain_memory::SegmentId::FIRST).consistency;
    let sequential = options.policy.consistency.unwrap_or(job).is_sequential();
    if options.window.is_zero() || sequential { length(options.window) } else { Err(relaxed()) }
}

fn length(window: Duration) -> Result<(), Error> {
    if window <= MOST {
        return Ok(());
    }
    let most = MOST.as_secs();
    Err(Error::Invalid(format!("a time window of {window:?}: it has {most} seconds at most")))
}

fn relaxed() -> Error {
    Error::Invalid(
        "a time window for release consistent memory, whose pages many nodes may write at a time"
            .into(),
    )
}

/// Tells every node, and returns when all know.
fn tell(
    driver: &Driver,
    id: AreaId,
    minipages: Option<Range<u32>>,
    window: Duration,
) -> Result<(), Error> {
    let Range { start: first, end } = minipages.unwrap_or_default();
    let ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let body = encode(&Setting { first, count: end - first, ns })?;
    let set = |node, stamp| {
        let told = driver.request(NodeId(node), Request::SegmentSet, id.0.into(), stamp, &body);
        told.map_err(|(code, _)| Error::from_code(code, "a time window"))
    };
    let stamp = set(0, 0)?;
    (1..driver.nodes()).try_for_each(|node| set(node, stamp).map(drop))
}

/// Sets the window that a segment is made with; gives its area back if that cannot be.
pub(super) fn first(
    driver: &Driver,
    heap: &Heap,
    record: AreaRecord,
    window: Duration,
) -> Result<AreaRecord, Error> {
    if window.is_zero() {
        return Ok(record);
    }
    tell(driver, record.area.id, None, window).map(|()| record).inspect_err(|_| {
        let _ = heap.free_segment(driver, &record);
    })
}

impl NamedSegments {
    /// Sets the window of the pages that so many bytes from an address lie in, or with 0 bytes at the start of a segment
    /// of all its pages.
    ///
    /// # Errors
    /// [`Error::NotShared`] if no segment is there; [`Error::Denied`] if this node is not attached to write;
    /// [`Error::Invalid`] for a range beyond it, a window that is too long, or release consistency.
    pub(crate) fn set_window(
        &self,
        driver: &Driver,
        (address, bytes): (usize, usize),
        window: Duration,
    ) -> Result<(), Error> {
        let record =
            segment_at(driver, address).ok_or_else(|| super::in_no_segment(driver, address))?;
        let id = record.area.id;
        if driver.memory().limit(id) < Access::ReadWrite {
            let line = format!("this node is not attached to write the segment at {address:#x}");
            return Err(Error::Denied(line));
        }
        length(window)?;
        if !record.consistency.is_sequential() {
            return Err(relaxed());
        }
        let minipages = if bytes == 0 {
            if address != record.area.base {
                let line =
                    format!("0 bytes from {address:#x}, which is not where its segment begins");
                return Err(Error::Invalid(line));
            }
            None
        } else {
            Heap::check_range(driver, address, bytes, Kind::Read)?;
            let mut all = driver.memory().translate_range(address, bytes).map(|one| one.index());
            let first = all.next().ok_or(Error::NotShared(address))?;
            Some(first..all.last().unwrap_or(first) + 1)
        };
        tell(driver, id, minipages, window)
    }

    pub(crate) fn serve_set(
        &self,
        driver: &Driver,
        asker: Asker,
        (subject, stamp): (u64, u64),
        body: &[u8],
    ) -> bool {
        let Ok(Setting { first, count, ns }) = postcard::from_bytes(body) else { return false };
        let area = area_id(subject).and_then(|id| driver.tables().area(id));
        let Some(record) = area.map(|area| area.record) else { return false };
        let end = first.checked_add(count);
        let fits = end.is_some_and(|end| end <= record.area.minipages());
        let is_first = driver.me() == NodeId(0);
        let sound = record.consistency.is_sequential() && u128::from(ns) <= MOST.as_nanos();
        let Some(sharing) = driver.tables().segment_sharing(record.area.id) else { return false };
        if !fits || !sound || is_first != (stamp == 0) {
            return false;
        }
        let own = |_| self.settings.fetch_add(1, Ordering::Relaxed) + 1;
        let stamp = if is_first { own(()) } else { stamp };
        sharing.set_delta((count > 0).then_some(first..first + count), ns, stamp);
        driver.answer(asker, 0, stamp);
        true
    }
}
