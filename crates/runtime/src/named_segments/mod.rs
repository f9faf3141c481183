//! Named segments (MIRAGE+ 2): created under a name by one node, its library site, and attached and detached by
//! any, each with rights and a policy of its own (ADR 50).
//!
//! A segment is an area of its own, at one address on every node. Every node has its states; a program has no
//! access before it attaches, which is a limit of the memory below the protocol. Node 0 keeps their registry ([`registry`]),
//! a node its own attaches.
//!
//! Invariant: an area's limit here is the most that an attach of this node allows. Whoever changes attaches has
//! their lock until the limit is changed.

mod permissions;
mod registry;
mod window_settings;

use core::time::Duration;
use std::collections::BTreeMap;

use multigrain_types::{Access, AreaId, Compression, Consistency, NodeId, PAGE_BYTES, Placement};
use serde::{Deserialize, Serialize};

use crate::area::{AreaRecord, NamedSharing, Origin};
use crate::compression::Compressed;
use crate::driver::Driver;
use crate::error::Error;
use crate::error_code;
use crate::frames::{Asker, MAX_NAME, Request};
use crate::heap::{Heap, Policy, beside_allocations};
use crate::segment_sharing::Shares;
use crate::shim::{AtomicU64, Mutex, lock};
pub use permissions::Rights;
use permissions::{Credentials, MODES, RegisteredSegment};
use registry::{MOST, Registry};

/// How a segment is shared; fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SegmentOptions {
    /// What a program may rely on, and the bytes of a minipage, in whole pages: one page if nothing is said.
    pub policy: Policy,
    /// Who manages its minipages; `None`: the node that creates it, its library site.
    pub placement: Option<Placement>,
    /// How long a node keeps a page that it was granted; zero for as long as contention suggests. Of sequentially
    /// consistent segments alone.
    pub window: Duration,
    /// How pages are compressed on their way to another node, where that pays.
    pub compression: Compression,
}

impl SegmentOptions {
    /// As the job has it, in minipages of a page, managed by the node that creates it.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            policy: Policy::new(),
            placement: None,
            window: Duration::ZERO,
            compression: Compression::None,
        }
    }

    /// The same of this consistency and grain.
    #[must_use]
    pub const fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// The same with these managers.
    #[must_use]
    pub const fn placement(self, placement: Placement) -> Self {
        Self { placement: Some(placement), ..self }
    }

    /// The same with this time window.
    #[must_use]
    pub const fn window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// The same with this compression.
    #[must_use]
    pub const fn compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }
}

/// A segment, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentStat {
    /// Where it lies on every node.
    pub address: usize,
    /// Its bytes, as it was created.
    pub bytes: usize,
    /// The node that created it.
    pub library: NodeId,
    /// How nodes share it.
    pub sharing: SegmentSharing,
    /// Whose it is, and what others may do.
    pub rights: Rights,
    /// Who uses it.
    pub uses: SegmentUses,
    /// What threads of this node have had of it.
    pub shares: Shares,
    /// What this node has sent of it.
    pub compressed: Compressed,
}

/// How a segment is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentSharing {
    /// What a program may rely on.
    pub consistency: Consistency,
    /// Bytes of a minipage.
    pub grain: usize,
    /// Who manages its minipages.
    pub placement: Placement,
    /// Its time window, but for pages for which another was set.
    pub window: Duration,
    /// How its pages are compressed.
    pub compression: Compression,
}

/// Who uses a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentUses {
    /// Attaches that have not been detached, over all nodes.
    pub attached: u64,
    /// Nodes that have some.
    pub nodes: u16,
    /// All attaches there have been.
    pub attaches: u64,
    /// Whether its name is gone: it goes itself with the last detach.
    pub removed: bool,
    /// What this node may do with it.
    pub access: Access,
}

/// The segments of a node; the registry on node 0.
#[derive(Debug, Default)]
pub(crate) struct NamedSegments {
    registry: Mutex<Registry>,
    /// Attaches of this node's program.
    attached: Mutex<BTreeMap<AreaId, Vec<Access>>>,
    /// How many windows were set: stamps of node 0.
    settings: AtomicU64,
}

/// What a node says of the segment it has made.
#[derive(Debug, Serialize, Deserialize)]
struct Made<'a> {
    /// None if it could not be.
    area: Option<u32>,
    rights: Rights,
    name: &'a [u8],
}

/// The program's side.
impl NamedSegments {
    /// Makes a segment of `bytes` under a name, zeroed; nobody is attached.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Invalid`] for a name, size, mode or grain that is none; no room.
    pub(crate) fn create(
        driver: &Driver,
        heap: &Heap,
        name: &[u8],
        (bytes, mode): (usize, u32),
        options: SegmentOptions,
    ) -> Result<(), Error> {
        check(name)?;
        if bytes == 0 || mode & !MODES != 0 {
            let line = format!(
                "a segment of {bytes} bytes with mode {mode:o}: at least 1 byte, mode up to 777"
            );
            return Err(Error::Invalid(line));
        }
        window_settings::check(driver, options)?;
        Heap::check_grain(driver, options.policy)?;
        driver.request(NodeId(0), Request::SegmentName, 0, 0, name).map_err(
            |(code, _)| match code {
                error_code::EXISTS => Error::Exists(format!(
                    "there is a segment {} already: attach to it",
                    quoted(name)
                )),
                _ => {
                    Error::from_code(code, &format!("a job has at most {MOST} segments at a time"))
                }
            },
        )?;
        let SegmentOptions { placement, compression, .. } = options;
        let sharing = NamedSharing { placement: placement.unwrap_or_default(), compression };
        let area = heap.named_block(driver, bytes, options.policy, sharing);
        let area = area.and_then(|it| window_settings::first(driver, heap, it, options.window));
        let rights = Credentials::own().rights(mode);
        let made = Made { area: area.as_ref().ok().map(|record| record.area.id.0), rights, name };
        let told = driver.request(NodeId(0), Request::SegmentMade, 0, 0, &encode(&made)?);
        area?;
        told.map(drop).map_err(|(code, _)| Error::from_code(code, "a segment"))
    }

    /// Attaches this node to the segment of a name: its address, the same on every node. `waits` until there is
    /// one. What was written before others detached is seen.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Denied`]; [`Error::Invalid`] for a name that is none.
    pub(crate) fn attach(
        &self,
        driver: &Driver,
        name: &[u8],
        (access, waits): (Access, bool),
    ) -> Result<usize, Error> {
        check(name)?;
        let kind = if waits { Request::SegmentWait } else { Request::SegmentFind };
        let facts = self.ask(driver, kind, 0, name, || no_segment(name))?;
        if !facts.rights.allow(&Credentials::own(), access) {
            let wanted = if access == Access::ReadOnly { "read" } else { "read and write" };
            return Err(Error::Denied(format!(
                "segment {} has mode {:o} and belongs to user {}: this process may not attach to {wanted}",
                quoted(name),
                facts.rights.mode,
                facts.rights.user
            )));
        }
        let record = segment_of(driver, &facts).ok_or_else(|| no_segment(name))?;
        let id = record.area.id;
        driver
            .request(NodeId(0), Request::SegmentAttach, id.0.into(), 0, &[])
            .map_err(|_| no_segment(name))?;
        let mut attached = lock(&self.attached);
        attached.entry(id).or_default().push(access);
        set_limit(driver, id, &attached)?;
        Ok(record.area.base)
    }

    /// Ends an attach of this node to the segment at an address, those to read before those to write, for its threads share
    /// them. What this node wrote is seen by who attaches after that.
    ///
    /// # Errors
    /// [`Error::NotShared`] if this node is not attached to a segment there.
    pub(crate) fn detach(&self, driver: &Driver, heap: &Heap, address: usize) -> Result<(), Error> {
        let record = segment_at(driver, address).filter(|record| record.area.base == address);
        let record = record.ok_or_else(|| not_attached(address))?;
        let id = record.area.id;
        if !lock(&self.attached).contains_key(&id) {
            return Err(not_attached(address));
        }
        driver.release()?;
        let mut attached = lock(&self.attached);
        let of_segment = attached.get_mut(&id).ok_or_else(|| not_attached(address))?;
        of_segment.sort_unstable_by_key(|access| core::cmp::Reverse(*access));
        of_segment.pop();
        if of_segment.is_empty() {
            attached.remove(&id);
        }
        set_limit(driver, id, &attached)?;
        drop(attached);
        let goes = driver.request(NodeId(0), Request::SegmentDetach, id.0.into(), 0, &[]);
        match goes {
            Ok(0) => Ok(()),
            Ok(_) => heap.free_segment(driver, &record),
            Err((code, _)) => Err(Error::from_code(code, "a detach")),
        }
    }

    /// Takes the name of a segment away; it goes itself when nobody is attached.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotPermitted`] for who has not created it.
    pub(crate) fn remove(&self, driver: &Driver, heap: &Heap, name: &[u8]) -> Result<(), Error> {
        check(name)?;
        let facts = self.ask(driver, Request::SegmentFind, 0, name, || no_segment(name))?;
        if !facts.rights.own(&Credentials::own()) {
            return Err(Error::NotPermitted(format!(
                "segment {} belongs to user {}, who alone may remove it",
                quoted(name),
                facts.rights.user
            )));
        }
        let id = facts.area();
        let goes = driver.request(NodeId(0), Request::SegmentRemove, id.0.into(), 0, &[]);
        match (goes, segment_of(driver, &facts)) {
            (Ok(0), _) => Ok(()),
            (Ok(_), Some(record)) => heap.free_segment(driver, &record),
            (Ok(_), None) | (Err(_), _) => Err(no_segment(name)),
        }
    }

    /// The segment of a name, as it is now.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) fn stat(&self, driver: &Driver, name: &[u8]) -> Result<SegmentStat, Error> {
        check(name)?;
        let facts = self.ask(driver, Request::SegmentFind, 0, name, || no_segment(name))?;
        stat(driver, &facts).ok_or_else(|| no_segment(name))
    }

    /// The segment at an address, which may be removed.
    ///
    /// # Errors
    /// [`Error::NotShared`] if none is there.
    pub(crate) fn stat_at(&self, driver: &Driver, address: usize) -> Result<SegmentStat, Error> {
        let none = || in_no_segment(driver, address);
        let id = segment_at(driver, address).ok_or_else(none)?.area.id;
        let facts = self.ask(driver, Request::SegmentStat, id.0.into(), &[], none)?;
        stat(driver, &facts).ok_or_else(none)
    }

    fn ask(
        &self,
        driver: &Driver,
        request: Request,
        subject: u64,
        name: &[u8],
        none: impl FnOnce() -> Error,
    ) -> Result<RegisteredSegment, Error> {
        let answer = driver.request_for_bytes(NodeId(0), request, subject, name);
        let bytes = answer.map_err(|code| match code {
            error_code::NOT_FOUND => none(),
            code => Error::from_code(code, "a segment"),
        })?;
        postcard::from_bytes(&bytes).map_err(|_| {
            let what = "its facts about a segment make no sense".into();
            driver.platform().peer_broke(NodeId(0), what)
        })
    }
}

/// Node 0's side.
impl NamedSegments {
    pub(crate) fn serve_name(&self, driver: &Driver, asker: Asker, name: &[u8]) -> bool {
        if check(name).is_err() {
            return false;
        }
        let reserved = lock(&self.registry).reserve(name, asker);
        reserved.into_iter().for_each(|it| driver.answer(asker, it.err().unwrap_or(0), 0));
        true
    }

    pub(crate) fn serve_made(&self, driver: &Driver, asker: Asker, body: &[u8]) -> bool {
        let Ok(Made { area, rights, name }) = postcard::from_bytes::<Made<'_>>(body) else {
            return false;
        };
        let area = area.map(AreaId);
        let is_its_own = |id: AreaId| {
            let record = driver.tables().area(id).map(|area| area.record);
            record.is_some_and(|record| record.is_named() && record.owner == asker.node)
        };
        if rights.mode & !MODES != 0 || area.is_some_and(|id| !is_its_own(id)) {
            return false;
        }
        let mut registry = lock(&self.registry);
        let Some(outcome) = registry.made(name, (area, rights), asker.node) else { return false };
        let facts = registry.find(name);
        drop(registry);
        outcome.attachers.into_iter().for_each(|it| answer_facts(driver, it, facts.as_ref()));
        let creators = outcome.creators.into_iter();
        creators.for_each(|(it, reserved)| driver.answer(it, reserved.err().unwrap_or(0), 0));
        driver.answer(asker, 0, 0);
        true
    }

    pub(crate) fn serve_find(
        &self,
        driver: &Driver,
        asker: Asker,
        name: &[u8],
        waits: bool,
    ) -> bool {
        if check(name).is_err() {
            return false;
        }
        let mut registry = lock(&self.registry);
        let facts = registry.find(name);
        if facts.is_none() && waits {
            registry.wait(name, asker);
            return true;
        }
        drop(registry);
        answer_facts(driver, asker, facts.as_ref());
        true
    }

    pub(crate) fn serve_stat(&self, driver: &Driver, asker: Asker, subject: u64) -> bool {
        let Some(id) = area_id(subject) else { return false };
        let facts = lock(&self.registry).facts(id);
        answer_facts(driver, asker, facts.as_ref());
        true
    }

    pub(crate) fn serve_attach(&self, driver: &Driver, asker: Asker, subject: u64) -> bool {
        let Some(id) = area_id(subject) else { return false };
        let attached = lock(&self.registry).attach(id, asker.node);
        driver.answer(asker, if attached { 0 } else { error_code::NOT_FOUND }, 0);
        true
    }

    pub(crate) fn serve_detach(&self, driver: &Driver, asker: Asker, subject: u64) -> bool {
        let Some(goes) =
            area_id(subject).and_then(|id| lock(&self.registry).detach(id, asker.node))
        else {
            return false;
        };
        driver.answer(asker, 0, goes.into());
        true
    }

    pub(crate) fn serve_remove(&self, driver: &Driver, asker: Asker, subject: u64) -> bool {
        let Some(id) = area_id(subject) else { return false };
        match lock(&self.registry).remove(id) {
            Some(goes) => driver.answer(asker, 0, goes.into()),
            None => driver.answer(asker, error_code::NOT_FOUND, 0),
        }
        true
    }
}

fn answer_facts(driver: &Driver, asker: Asker, facts: Option<&RegisteredSegment>) {
    match facts.and_then(|facts| encode(facts).ok()) {
        Some(bytes) => driver.answer_with(asker, &bytes),
        None => driver.answer(asker, error_code::NOT_FOUND, 0),
    }
}

fn area_id(subject: u64) -> Option<AreaId> {
    u32::try_from(subject).ok().map(AreaId)
}

/// The segment an address lies in, attached or not.
fn segment_at(driver: &Driver, address: usize) -> Option<AreaRecord> {
    let minipage = driver.memory().translate(address)?;
    let record = driver.tables().area(minipage.area())?.record;
    record.is_named().then_some(record)
}

/// Why an address is of no segment.
fn in_no_segment(driver: &Driver, address: usize) -> Error {
    let what =
        "is shared memory's, but of no named segment: what mg_malloc and its kin give is none";
    match driver.memory().translate(address) {
        Some(_) => Error::OfOtherKind(address, what),
        None => beside_allocations(driver, address),
    }
}

/// The area of a segment that node 0 tells of; none if it is not one.
fn segment_of(driver: &Driver, facts: &RegisteredSegment) -> Option<AreaRecord> {
    let record = driver.tables().area(facts.area())?.record;
    record.is_named().then_some(record)
}

/// What threads of this node may have of a segment is what its attaches allow.
fn set_limit(
    driver: &Driver,
    id: AreaId,
    attached: &BTreeMap<AreaId, Vec<Access>>,
) -> Result<(), Error> {
    let of_segment = attached.get(&id).into_iter().flatten();
    let limit = of_segment.max().copied().unwrap_or_default();
    driver.tables().alone(|| driver.memory().limit_area(id, limit)).map_err(Error::from)
}

fn stat(driver: &Driver, facts: &RegisteredSegment) -> Option<SegmentStat> {
    let record = driver.tables().area(facts.area())?.record;
    let Origin::Named(NamedSharing { placement, compression }) = record.origin else { return None };
    let sharing = driver.tables().segment_sharing(facts.area())?;
    Some(SegmentStat {
        address: record.area.base,
        bytes: usize::try_from(record.items.bytes).ok()?,
        library: record.owner,
        sharing: SegmentSharing {
            consistency: record.consistency,
            grain: record.area.minipage_bytes(0).next_multiple_of(PAGE_BYTES),
            placement,
            window: Duration::from_nanos(sharing.whole_ns()),
            compression,
        },
        rights: facts.rights,
        uses: SegmentUses {
            attached: facts.attached,
            nodes: facts.nodes,
            attaches: facts.attaches,
            removed: facts.removed,
            access: driver.memory().limit(facts.area()),
        },
        shares: sharing.shares(),
        compressed: driver.tables().contents(facts.area())?.counts(),
    })
}

fn encode(what: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(what).map_err(|error| Error::System(error.to_string()))
}

fn not_attached(address: usize) -> Error {
    Error::OfOtherKind(address, "is not where a segment begins that this node is attached to")
}

fn no_segment(name: &[u8]) -> Error {
    Error::NotFound(format!(
        "there is no segment {}: create it first, or wait for it",
        quoted(name)
    ))
}

fn quoted(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name))
}

fn check(name: &[u8]) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_NAME {
        let length = name.len();
        return Err(Error::Invalid(format!("a name has 1 to {MAX_NAME} bytes, not {length}")));
    }
    Ok(())
}
