//! The directory of areas: node 0 hands out address space, every node maps every area.
//!
//! An area is announced to all nodes, and mapped by all, before its allocator is told; so no pointer into it can
//! reach a node that does not know it. Areas are made rarely (their sizes grow geometrically), so the round of
//! messages does not matter. Another round takes away an area of which nothing is allocated any more: once no
//! node has anything of it, its place is free for areas of any shape and owner.

mod address_space;
mod free_ranges;
pub(crate) mod names;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::area::{AreaRecord, Items, NamedSharing, Origin};
use crate::driver::Driver;
use crate::error::Error;
use crate::error_code;
use crate::frames::{Asker, Request};
use crate::shim::{Mutex, lock};
use address_space::{Announced, Places, Stage};
use multigrain_memory::{Area, MAX_MINIPAGE_BYTES, SegmentId, Shape, VIEWS_BASE, diff};
use multigrain_protocol::NodeSet;
use multigrain_transport::{Header, Payload};
use multigrain_types::{Access, AreaId, Consistency, NodeId, PAGE_BYTES, Placement};

/// What an answer about a minipage takes while it waits, in bytes: a header and where its contents
/// are.
const ANSWER_BYTES: usize = 160;

/// The directory of areas: of any use on node 0 alone, but for what it announces.
#[derive(Debug, Default)]
pub(crate) struct Directory(Mutex<Places>);

/// Makes a new area owned by this node; every node has mapped it when this returns.
pub(crate) fn new_area(
    driver: &Driver,
    shape: Shape,
    bytes: u64,
    items: Items,
    consistency: Consistency,
) -> Result<AreaRecord, Error> {
    make(driver, (shape, bytes, items), consistency, Origin::Heap)
}

/// The same for a named segment, to which no thread is attached.
pub(crate) fn new_segment(
    driver: &Driver,
    shape: Shape,
    items: Items,
    consistency: Consistency,
    sharing: NamedSharing,
) -> Result<AreaRecord, Error> {
    make(driver, (shape, items.bytes, items), consistency, Origin::Named(sharing))
}

fn make(
    driver: &Driver,
    (shape, bytes, items): (Shape, u64, Items),
    consistency: Consistency,
    origin: Origin,
) -> Result<AreaRecord, Error> {
    if let Shape::Pages { pages } = shape
        && pages as usize > MAX_MINIPAGE_BYTES / PAGE_BYTES
    {
        let line = format!(
            "a minipage of {} bytes is too large: it has at most 1 GiB; choose a smaller grain",
            u64::from(pages) * PAGE_BYTES as u64
        );
        driver.platform().launcher().warn(&line);
        return Err(Error::Limit(line));
    }
    let bytes = bytes
        .checked_next_multiple_of(PAGE_BYTES as u64)
        .ok_or_else(|| Error::NoMemory(format!("{bytes} bytes")))?;
    let area = Area { id: AreaId(0), base: 0, file_offset: 0, bytes, shape };
    let wish = AreaRecord { area, owner: driver.me(), items, consistency, origin };
    let body = wish.to_bytes()?;
    let id = driver.request(NodeId(0), Request::NewArea, 0, 0, &body).map_err(|(code, _)| {
        let views = shape.views();
        let shared = driver.memory().shared_bytes();
        Error::from_code(code, &match code {
            error_code::LIMIT => format!(
                "an area (views: {views}) cannot be made: one of the job's nodes has reached a limit, which its stderr names (areas of a job, vm.max_map_count, ulimit -v)"
            ),
            _ => format!(
                "an area of {bytes} bytes (views: {views}) cannot be made; the shared size is {shared} bytes (`multigrain run --shared`)"
            ),
        })
    })?;
    let id = AreaId(u32::try_from(id).unwrap_or(u32::MAX));
    match driver.tables().area(id).map(|states| states.record) {
        Some(record) if record.is_wish(&wish) => Ok(record),
        Some(_) | None if driver.me() != NodeId(0) => {
            let what = format!("it gave area {}, which is none that was asked for", id.0);
            driver.platform().peer_broke(NodeId(0), what)
        }
        Some(_) | None => Err(Error::System(format!("area {} is not what was asked for", id.0))),
    }
}

/// Any node: map what node 0 announced.
///
/// # Errors
/// What node 0 does not announce.
pub(crate) fn serve_announce(driver: &Driver, from: NodeId, body: &[u8]) -> Result<(), String> {
    let makes_sense = |record: &AreaRecord| {
        let asked = record.owner != driver.me() || driver.awaits_any(Request::NewArea);
        record.is_sound(driver.nodes()) && asked
    };
    let record = AreaRecord::from_bytes(body).filter(makes_sense);
    let record = record.ok_or("it announces an area that makes no sense")?;
    if driver.tables().area(record.area.id).is_some() {
        return Err(format!("it announces area {} again", record.area.id.0));
    }
    let code = map_record(driver, record);
    let header = Header {
        kind: Request::AreaMapped.number(),
        from: driver.me().0,
        subject: record.area.id.0.into(),
        value: u64::from(code.cast_unsigned()),
        ..Header::default()
    };
    driver.platform().send_frame(from, header, Payload::None);
    Ok(())
}

/// Gives an area back that nothing is allocated of: no node has it any more when this returns.
pub(crate) fn return_area(driver: &Driver, id: AreaId) {
    // It is used up if some node cannot take it away, which that node has told.
    let _ = driver.request(NodeId(0), Request::AreaReturn, id.0.into(), 0, &[]);
}

/// Any node: an area is no more. One that this node has made it keeps, unless it lets it go: it has given it back, or
/// never had it, for it is `fresh`.
pub(crate) fn serve_retire(
    driver: &Driver,
    lets_go: impl FnOnce(AreaId) -> bool,
    id: u64,
    fresh: bool,
) -> bool {
    let Ok(id) = u32::try_from(id).map(AreaId) else { return false };
    let own = !fresh && driver.tables().area(id).is_some_and(|one| one.record.owner == driver.me());
    if own && !lets_go(id) {
        driver.keep_area(id);
        return true;
    }
    driver.retire_area(id)
}

/// Areas that this node could not map.
static NOT_MAPPED: AtomicU32 = AtomicU32::new(0);

/// Maps an area and enters it in the tables; an error code or 0.
fn map_record(driver: &Driver, record: AreaRecord) -> i32 {
    let watched = driver.races().are_checked() && !record.consistency.is_sequential();
    let fresh = record.owner == driver.me() && !watched && !record.is_named();
    let mut mapped = driver.memory().map_area(record.area, fresh);
    let placement = match record.origin {
        Origin::Heap => {
            let chosen = driver.memory().policy(SegmentId::FIRST).placement;
            chosen.unwrap_or_else(|| Placement::for_nodes(driver.nodes()))
        }
        Origin::Named(sharing) => sharing.placement,
    };
    if record.is_named() {
        let limit = |()| driver.memory().limit_area(record.area.id, Access::NoAccess);
        mapped = mapped.and_then(limit);
    }
    if record.is_trackable() {
        mapped = mapped.and_then(|()| driver.memory().track_area(record.area.id));
    }
    if let Err(error) = mapped {
        let before = NOT_MAPPED.fetch_add(1, Ordering::Relaxed);
        match before + 1 {
            1 => driver.platform().launcher().warn(&error.to_string()),
            // A program may try again and again.
            times if times.is_power_of_two() => {
                driver.platform().launcher().warn(&format!("{error} ({times} times so far)"));
            }
            _ => {}
        }
        take_back(driver, record.area.id);
        return Error::Limit(String::new()).code();
    }
    let is_ready = driver.platform().coders().prepare(record.compression());
    if is_ready && driver.tables().add(record, placement) {
        // A node may ask for all of them at once, and then be slow to read.
        let longest = diff::most_bytes(record.area.minipage_bytes(0));
        driver.engine().allow_diffs(record.area.minipages() as usize, longest);
        driver.mesh().allow_answers(ANSWER_BYTES * record.area.minipages() as usize);
        0
    } else {
        take_back(driver, record.area.id);
        Error::Limit(String::new()).code()
    }
}

/// An area of which more could not be had than its views.
fn take_back(driver: &Driver, id: AreaId) {
    // Nothing can be done about an error: the memory is not used again.
    let _ = driver.memory().retire_area(id).and_then(|()| driver.memory().discard_area(id));
}

impl Directory {
    /// Node 0: place the area, announce it, answer when all have mapped it.
    pub(crate) fn serve_request(&self, driver: &Driver, asker: Asker, body: &[u8]) -> bool {
        let Some(wish) = AreaRecord::from_bytes(body) else { return false };
        // A wish names no place yet; any will do for judging the rest.
        let somewhere = Area { base: VIEWS_BASE, file_offset: 0, ..wish.area };
        let sound =
            AreaRecord { area: somewhere, owner: asker.node, ..wish }.is_sound(driver.nodes());
        let views = u64::from(wish.area.shape.views());
        let mut directory = lock(&self.0);
        // What makes no sense has no place anywhere.
        let bytes = if sound { wish.area.bytes } else { u64::MAX };
        let (id, base, file_offset) =
            match directory.place(bytes, views, driver.memory().shared_bytes()) {
                Ok(place) => place,
                Err(why) => {
                    drop(directory);
                    if let Some(line) = why.line() {
                        driver.platform().launcher().warn(line);
                    }
                    driver.answer(asker, why.code(), 0);
                    return true;
                }
            };
        let area = Area { id, base, file_offset, ..wish.area };
        let stage = Stage::Map(area, NodeSet::default());
        let missing = NodeSet::all(driver.nodes());
        directory.announced.insert(id.0, Announced { asker, missing, code: 0, stage });
        drop(directory);

        let record = AreaRecord { area, owner: asker.node, ..wish };
        let body = record.to_bytes().unwrap_or_default();
        for to in (0..driver.nodes()).map(NodeId).filter(|&to| to != driver.me()) {
            let header = Header {
                kind: Request::AreaAnnounce.number(),
                from: driver.me().0,
                ..Header::default()
            };
            driver.platform().send_frame(to, header, Payload::Bytes(&body));
        }
        let code = map_record(driver, record);
        self.serve_mapped(driver, driver.me(), id.0.into(), u64::from(code.cast_unsigned()))
    }

    /// An area that is there from the start, placed as node 0 would place it; a code or 0.
    #[cfg(any(feature = "fuzzing", all(test, feature = "shuttle")))]
    pub(crate) fn adopt(&self, driver: &Driver, record: AreaRecord) -> i32 {
        let Area { bytes, shape, .. } = record.area;
        let placed =
            lock(&self.0).place(bytes, shape.views().into(), driver.memory().shared_bytes());
        assert!(placed.is_ok(), "{record:?} has no place");
        map_record(driver, record)
    }

    /// Node 0: one more node has mapped the area.
    pub(crate) fn serve_mapped(&self, driver: &Driver, from: NodeId, id: u64, code: u64) -> bool {
        let mut directory = lock(&self.0);
        let Ok(id) = u32::try_from(id) else { return false };
        let Some(announced) = directory.announced.get_mut(&id) else { return false };
        if !announced.missing.remove(from) {
            return false;
        }
        if code != 0 {
            announced.code = u32::try_from(code).unwrap_or(u32::MAX).cast_signed();
        } else if let Stage::Map(_, mapped) = &mut announced.stage {
            mapped.insert(from);
        }
        if !announced.missing.is_empty() {
            return true;
        }
        let Some(Announced { asker, code, stage, .. }) = directory.announced.remove(&id) else {
            return true;
        };
        let next = match (code, stage) {
            (0, Stage::RetireAtOwner(area)) => {
                let mut missing = NodeSet::all(driver.nodes());
                missing.remove(from);
                Some((area, missing, Stage::Retire(area)))
            }
            (1.. | ..0, Stage::Map(area, mapped)) => {
                Some((area, mapped, Stage::TakeBack(area, code)))
            }
            (0, Stage::Retire(area)) => {
                directory.give(&area);
                None
            }
            (_, Stage::TakeBack(area, failure)) => {
                if code == 0 {
                    directory.give(&area);
                }
                drop(directory);
                driver.answer(asker, failure, id.into());
                return true;
            }
            // What a node could not take away stays where it is.
            (0, Stage::Map(..)) | (_, Stage::RetireAtOwner(_) | Stage::Retire(_)) => None,
        };
        match next {
            Some((area, missing, stage)) if missing.is_empty() => {
                directory.give(&area);
                drop(directory);
                let code = if let Stage::TakeBack(_, failure) = stage { failure } else { code };
                driver.answer(asker, code, id.into());
            }
            Some((_, missing, stage)) => {
                let fresh = matches!(stage, Stage::TakeBack(..));
                let nodes: Vec<NodeId> = missing.iter().collect();
                directory.announced.insert(id, Announced { asker, missing, code: 0, stage });
                drop(directory);
                tell_to_retire(driver, nodes, AreaId(id), fresh);
            }
            None => {
                drop(directory);
                driver.answer(asker, code, id.into());
            }
        }
        true
    }

    /// Node 0: take an area away from all nodes, and answer when none has anything of it. Any node may ask, that frees
    /// what was allocated last; the node that has made the area says whether it did.
    pub(crate) fn serve_return(
        &self,
        driver: &Driver,
        lets_go: impl FnOnce(AreaId) -> bool,
        asker: Asker,
        id: u64,
    ) -> bool {
        let Ok(id) = u32::try_from(id).map(AreaId) else { return false };
        let mut directory = lock(&self.0);
        let area = driver.memory().area(id).filter(|_| !directory.announced.contains_key(&id.0));
        let owner = driver.tables().area(id).map(|states| states.record.owner);
        let (Some(area), Some(owner)) = (area, owner) else {
            drop(directory);
            driver.answer(asker, Error::NotPermitted(String::new()).code(), 0);
            return true;
        };
        let (missing, stage) = (core::iter::once(owner).collect(), Stage::RetireAtOwner(area));
        let announced = Announced { asker, missing, code: 0, stage };
        directory.announced.insert(id.0, announced);
        drop(directory);
        if owner == driver.me() {
            return serve_retire(driver, lets_go, id.0.into(), false);
        }
        tell_to_retire(driver, [owner], id, false);
        true
    }
}

/// Node 0: these nodes take an area away. `fresh`: it never was to be had.
fn tell_to_retire(
    driver: &Driver,
    nodes: impl IntoIterator<Item = NodeId>,
    id: AreaId,
    fresh: bool,
) {
    let mut own = false;
    for to in nodes {
        own |= to == driver.me();
        if to != driver.me() {
            let header = Header {
                kind: Request::AreaRetire.number(),
                from: driver.me().0,
                subject: id.0.into(),
                value: fresh.into(),
                ..Header::default()
            };
            driver.platform().send_frame(to, header, Payload::None);
        }
    }
    if own {
        driver.retire_area(id);
    }
}
