//! The directory of areas: node 0 hands out address space, every node maps every area.
//!
//! An area is announced to all nodes, and mapped by all, before its allocator learns of it; so no
//! pointer into it can reach a node that does not know it. Areas are made rarely (their sizes grow
//! geometrically), so the round of messages does not matter.

mod directory;

use multigrain_memory::{Area, Shape, VIEWS_BASE};
use multigrain_protocol::NodeSet;
use multigrain_transport::{Header, Payload};
use multigrain_types::{AreaId, Consistency, NodeId, PAGE_BYTES};
use serde::{Deserialize, Serialize};

use crate::boot::Runtime;
use crate::control::{Asker, kind};
use crate::error::Error;
use crate::tables::lock;
use directory::Announced;
pub(crate) use directory::Directory;

/// What an answer about a minipage takes while it waits, in bytes: a header and where its contents
/// are.
const ANSWER_BYTES: usize = 160;

/// What an area consists of, from the allocator's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Items {
    /// Bytes of one item.
    pub(crate) bytes: u64,
    /// Items in the area.
    pub(crate) count: u64,
    /// Items that share a minipage (chunking level, Millipage 4.4).
    pub(crate) chunk: u32,
    /// Whether they are one array, not allocations of their own.
    pub(crate) array: bool,
}

/// An area as all nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaRecord {
    pub(crate) area: Area,
    /// The allocating node: first holder of every minipage.
    pub(crate) owner: NodeId,
    pub(crate) items: Items,
    /// What all its minipages promise, and so which protocol keeps them.
    pub(crate) consistency: Consistency,
}

/// A request for an area, and its announcement, on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AreaBody {
    id: u32,
    owner: u16,
    base: u64,
    file_offset: u64,
    bytes: u64,
    slot: u32,
    per_page: u16,
    pages: u32,
    items: Items,
    /// See [`number_of`].
    consistency: u8,
}

impl Items {
    /// Minipages an item takes: one, unless it is larger than a minipage of whole pages.
    pub(crate) fn span(&self, shape: Shape) -> u64 {
        match shape {
            Shape::Pages { pages } if self.chunk == 1 => {
                self.bytes.div_ceil(u64::from(pages) * PAGE_BYTES as u64)
            }
            Shape::Pages { .. } | Shape::Sub { .. } => 1,
        }
    }

    /// Whether they fit an area, so that no later arithmetic about them leaves it.
    fn fit(&self, area: &Area) -> bool {
        let Self { bytes, count, chunk, .. } = *self;
        let room = bytes.checked_mul(count).is_some_and(|all| all <= area.bytes);
        let minipages = |chunk: u32| {
            let chunks = count.div_ceil(chunk.into());
            chunks.checked_mul(self.span(area.shape))
        };
        room && bytes > 0
            && chunk > 0
            && minipages(chunk).is_some_and(|all| all <= u64::from(area.minipages()))
    }
}

impl AreaRecord {
    /// Whether an area that came over the wire makes sense here.
    fn is_sound(&self, nodes: u16) -> bool {
        self.area.validate().is_ok() && self.owner.0 < nodes && self.items.fit(&self.area)
    }

    /// Whether it is what was asked for, in some place.
    fn is_wish(&self, wish: &Self) -> bool {
        let Area { bytes, shape, .. } = wish.area;
        let area = Area { bytes, shape, ..self.area };
        *self == Self { area, ..*wish }
    }

    /// Whether the kernel may be left to find what homes write: their minipages are whole pages, and
    /// homes move at barriers only.
    pub(crate) fn is_watchable(&self) -> bool {
        matches!(self.area.shape, Shape::Pages { .. })
            && self.consistency == Consistency::LazyRelease
    }
}

impl AreaBody {
    fn from_record(record: &AreaRecord) -> Self {
        let Area { id, base, file_offset, bytes, shape } = record.area;
        let (slot, per_page, pages) = match shape {
            Shape::Sub { slot, per_page } => (slot, per_page, 0),
            Shape::Pages { pages } => (0, 0, pages),
        };
        Self {
            id: id.0,
            owner: record.owner.0,
            base: base as u64,
            file_offset,
            bytes,
            slot,
            per_page,
            pages,
            items: record.items,
            consistency: number_of(record.consistency),
        }
    }

    /// None if a number stands for nothing.
    fn to_record(self) -> Option<AreaRecord> {
        let shape = if self.pages == 0 {
            Shape::Sub { slot: self.slot, per_page: self.per_page }
        } else {
            Shape::Pages { pages: self.pages }
        };
        let area = Area {
            id: AreaId(self.id),
            base: usize::try_from(self.base).ok()?,
            file_offset: self.file_offset,
            bytes: self.bytes,
            shape,
        };
        let known = |&consistency: &Consistency| number_of(consistency) == self.consistency;
        let consistency = Consistency::ALL.into_iter().find(known)?;
        Some(AreaRecord { area, owner: NodeId(self.owner), items: self.items, consistency })
    }
}

/// A consistency on the wire.
const fn number_of(consistency: Consistency) -> u8 {
    match consistency {
        Consistency::Sequential => 0,
        Consistency::EagerRelease => 1,
        Consistency::LazyRelease => 2,
        Consistency::Auto => 3,
    }
}

impl Runtime {
    /// Makes a new area owned by this node; every node has mapped it when this returns.
    pub(crate) fn new_area(
        &self,
        shape: Shape,
        bytes: u64,
        items: Items,
        consistency: Consistency,
    ) -> Result<AreaRecord, Error> {
        let bytes = bytes
            .checked_next_multiple_of(PAGE_BYTES as u64)
            .ok_or_else(|| Error::NoMemory(format!("{bytes} bytes")))?;
        let area = Area { id: AreaId(0), base: 0, file_offset: 0, bytes, shape };
        let wish = AreaRecord { area, owner: self.me, items, consistency };
        let body = postcard::to_allocvec(&AreaBody::from_record(&wish))
            .map_err(|error| Error::System(error.to_string()))?;
        let id = self.ask(NodeId(0), kind::AREA_REQUEST, 0, 0, &body).map_err(|(code, _)| {
            let views = shape.views();
            let shared = self.memory.shared_bytes();
            Error::from_code(code, &match code {
                -7 => format!(
                    "an area in {views} views cannot be made: one of the job's nodes has reached a limit, which its stderr names (areas of a job, vm.max_map_count)"
                ),
                _ => format!(
                    "an area of {bytes} bytes in {views} views cannot be made; the shared size is {shared} bytes (`multigrain run --shared`)"
                ),
            })
        })?;
        let id = AreaId(u32::try_from(id).unwrap_or(u32::MAX));
        match self.tables.area(id).map(|states| states.record) {
            Some(record) if record.is_wish(&wish) => Ok(record),
            Some(_) | None if self.me != NodeId(0) => {
                let what = format!("it gave area {}, which is none that was asked for", id.0);
                self.peer_broke(NodeId(0), what)
            }
            Some(_) | None => {
                Err(Error::System(format!("area {} is not what was asked for", id.0)))
            }
        }
    }

    /// Node 0: place the area, announce it, answer when all have mapped it.
    pub(crate) fn serve_area_request(&self, asker: Asker, body: &[u8]) -> bool {
        let Some(wish) = postcard::from_bytes::<AreaBody>(body).ok().and_then(AreaBody::to_record)
        else {
            return false;
        };
        // A wish names no place yet; any will do for judging the rest.
        let somewhere = Area { base: VIEWS_BASE, file_offset: 0, ..wish.area };
        let sound = AreaRecord { area: somewhere, owner: asker.node, ..wish }.is_sound(self.nodes);
        let views = u64::from(wish.area.shape.views());
        let mut directory = lock(&self.directory);
        // What makes no sense has no place anywhere.
        let bytes = if sound { wish.area.bytes } else { u64::MAX };
        let (id, base, file_offset) =
            match directory.place(bytes, views, self.memory.shared_bytes()) {
                Ok(place) => place,
                Err(why) => {
                    drop(directory);
                    if let Some(line) = why.line() {
                        crate::report::last_words(self.me, line);
                    }
                    self.answer(asker, why.code(), 0);
                    return true;
                }
            };
        let missing = NodeSet::all(self.nodes);
        directory.announced.insert(id.0, Announced { asker, missing, code: 0 });
        drop(directory);

        let area = Area { id, base, file_offset, ..wish.area };
        let record = AreaRecord { area, owner: asker.node, ..wish };
        let body = postcard::to_allocvec(&AreaBody::from_record(&record)).unwrap_or_default();
        for to in (0..self.nodes).map(NodeId).filter(|&to| to != self.me) {
            let header = Header { kind: kind::AREA_ANNOUNCE, from: self.me.0, ..Header::default() };
            self.send_frame(to, header, Payload::Bytes(&body));
        }
        let code = self.map_record(record);
        self.serve_area_mapped(self.me, id.0.into(), u64::from(code.cast_unsigned()))
    }

    /// Any node: map what node 0 announced.
    pub(crate) fn serve_area_announce(&self, from: NodeId, body: &[u8]) -> bool {
        let Some(record) =
            postcard::from_bytes::<AreaBody>(body).ok().and_then(AreaBody::to_record)
        else {
            return false;
        };
        let asked = record.owner != self.me || lock(&self.asked).awaits_any(kind::AREA_REQUEST);
        if !record.is_sound(self.nodes) || !asked {
            return false;
        }
        let code = self.map_record(record);
        let header = Header {
            kind: kind::AREA_MAPPED,
            from: self.me.0,
            subject: record.area.id.0.into(),
            value: u64::from(code.cast_unsigned()),
            ..Header::default()
        };
        self.send_frame(from, header, Payload::None);
        true
    }

    /// An area that is there from the start, placed as node 0 would place it; a code or 0.
    #[cfg(any(feature = "fuzzing", all(test, feature = "shuttle")))]
    pub(crate) fn adopt(&self, record: AreaRecord) -> i32 {
        let Area { bytes, shape, .. } = record.area;
        let placed =
            lock(&self.directory).place(bytes, shape.views().into(), self.memory.shared_bytes());
        assert!(placed.is_ok(), "{record:?} has no place");
        self.map_record(record)
    }

    /// Maps an area and enters it in the tables; an error code or 0.
    fn map_record(&self, record: AreaRecord) -> i32 {
        let watched = self.races.is_some() && record.consistency != Consistency::Sequential;
        let fresh = record.owner == self.me && !watched;
        let mut mapped = self.memory.map_area(record.area, fresh);
        if record.is_watchable() {
            mapped = mapped.and_then(|()| self.memory.track_area(record.area.id));
        }
        if let Err(error) = mapped {
            crate::report::last_words(self.me, &error.to_string());
            return Error::Limit(String::new()).code();
        }
        if self.tables.add(record, record.area.minipages()) {
            // A node may ask for all of them at once, and then be slow to read.
            self.mesh.allow_answers(ANSWER_BYTES * record.area.minipages() as usize);
            0
        } else {
            Error::Limit(String::new()).code()
        }
    }

    /// Node 0: one more node has mapped the area.
    pub(crate) fn serve_area_mapped(&self, from: NodeId, id: u64, code: u64) -> bool {
        let mut directory = lock(&self.directory);
        let Ok(id) = u32::try_from(id) else { return false };
        let Some(announced) = directory.announced.get_mut(&id) else { return false };
        if !announced.missing.remove(from) {
            return false;
        }
        if code != 0 {
            announced.code = u32::try_from(code).unwrap_or(u32::MAX).cast_signed();
        }
        if announced.missing.is_empty() {
            let (asker, code) = (announced.asker, announced.code);
            directory.announced.remove(&id);
            drop(directory);
            self.answer(asker, code, id.into());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_whose_items_or_owner_or_place_make_no_sense_is_not_sound() {
        let shape = Shape::Sub { slot: 1024, per_page: 4 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 4096, bytes: 8192, shape };
        let items = Items { bytes: 1024, count: 8, chunk: 1, array: true };
        let consistency = Consistency::Sequential;
        let good = AreaRecord { area, owner: NodeId(1), items, consistency };
        assert!(good.is_sound(2));
        let with_items = |items| AreaRecord { items, ..good };
        for wrong in [
            with_items(Items { chunk: 0, ..items }),
            with_items(Items { bytes: 0, ..items }),
            with_items(Items { count: 9, ..items }),
            with_items(Items { bytes: u64::MAX, count: 2, ..items }),
            AreaRecord { owner: NodeId(2), ..good },
            AreaRecord { area: Area { bytes: 8000, ..area }, ..good },
            AreaRecord { area: Area { base: 4096, ..area }, ..good },
            AreaRecord { area: Area { shape: Shape::Pages { pages: 0 }, ..area }, ..good },
            AreaRecord {
                area: Area { shape: Shape::Sub { slot: 0, per_page: 0 }, ..area },
                ..good
            },
        ] {
            assert!(!wrong.is_sound(2), "{wrong:?}");
        }
    }

    #[test]
    fn items_of_several_minipages_have_to_fit_with_all_of_them() {
        let shape = Shape::Pages { pages: 1 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 0, bytes: 6 * 4096, shape };
        let items = Items { bytes: 5000, count: 3, chunk: 1, array: true };
        assert_eq!(items.span(shape), 2);
        assert_eq!(items.span(Shape::Pages { pages: 2 }), 1);
        assert!(items.fit(&area));
        // Four would fit by their bytes, but not in eight minipages.
        assert!(!Items { count: 4, ..items }.fit(&area));
        assert!(
            !Items { bytes: 4 * 4096 + 1, count: 1, ..items }
                .fit(&Area { bytes: 4 * 4096, ..area })
        );
    }

    #[test]
    fn the_consistency_of_an_area_crosses_the_wire_and_an_unknown_one_is_refused() {
        let shape = Shape::Pages { pages: 1 };
        let area = Area { id: AreaId(3), base: VIEWS_BASE, file_offset: 0, bytes: 8192, shape };
        let items = Items { bytes: 64, count: 128, chunk: 64, array: false };
        for consistency in Consistency::ALL {
            let record = AreaRecord { area, owner: NodeId(1), items, consistency };
            let body = postcard::to_allocvec(&AreaBody::from_record(&record)).unwrap();
            let heard: AreaBody = postcard::from_bytes(&body).unwrap();
            assert_eq!(heard.to_record(), Some(record));
            let unknown = AreaBody { consistency: heard.consistency + 4, ..heard };
            assert_eq!(unknown.to_record(), None);
        }
    }
}
