//! Twins and diffs: the cost of release consistency for a page, without messages. One process.
#![expect(unsafe_code, reason = "twins and diffs take pages by pointer")]

use crate::bench::clock::grouped;
use crate::bench::row::Row;
use crate::bench::samples::Samples;
use anyhow::Result;
use core::hint::black_box;
use multigrain_memory::{Twins, diff};
use multigrain_types::{AreaId, MinipageId, PAGE_BYTES};

/// Pages by turns: more than the nearest cache holds.
const PAGES: usize = 64;
const GROUP: usize = 64;
const GROUPS: usize = 4;

/// What changed in every page.
#[derive(Clone, Copy)]
enum Change {
    Nothing,
    Word,
    All,
}

impl Change {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Nothing, "none", "nothing changed"),
        (Self::Word, "word", "one word changed"),
        (Self::All, "all", "all changed"),
    ];

    fn page(self) -> Vec<u8> {
        let mut page = vec![1; PAGE_BYTES];
        let changed = match self {
            Self::Nothing => 0..0,
            Self::Word => 1024..1032,
            Self::All => 0..PAGE_BYTES,
        };
        page[changed].fill(2);
        page
    }
}

/// The rows of twins and diffs.
pub(super) fn measure(samples: usize) -> Result<Vec<Row>> {
    let mut rows = vec![twin(samples)];
    for (change, key, words) in Change::ALL {
        rows.push(encode(samples, change, key, words));
    }
    // There is nothing to apply of nothing.
    for (change, key, words) in &Change::ALL[1..] {
        rows.push(apply(samples, *change, key, words)?);
    }
    Ok(rows)
}

/// Times an operation on page number i in turn with copying a page.
fn beside_copies(samples: usize, mut operation: impl FnMut(usize)) -> (Samples, Samples) {
    let from = vec![vec![3_u8; PAGE_BYTES]; PAGES];
    let mut to = vec![0_u8; PAGE_BYTES];
    let (mut ours, mut floor) = (Samples::default(), Samples::default());
    for _ in 0..(samples / GROUPS).max(2) {
        floor.append(grouped(GROUPS, GROUP, |i| {
            black_box(&mut to).copy_from_slice(black_box(&from[i % PAGES]));
        }));
        ours.append(grouped(GROUPS, GROUP, |i| operation(i % PAGES)));
    }
    (ours, floor)
}

fn row(key: String, operation: String, (ours, floor): (Samples, Samples)) -> Row {
    Row::new(key, operation, ours.summary()).over("copy of 4 KiB", floor.summary())
}

fn twin(samples: usize) -> Row {
    let twins = Twins::new();
    let pages = vec![Change::Nothing.page(); PAGES];
    let times = beside_copies(samples, |i| {
        let minipage = MinipageId::new(AreaId(0), u32::try_from(i).unwrap_or(0));
        // SAFETY: the page has so many bytes.
        unsafe { twins.make(minipage, pages[i].as_ptr(), PAGE_BYTES) };
        twins.discard(minipage);
    });
    row("twin-4096".to_owned(), "twin of 4 KiB, made and dropped".to_owned(), times)
}

fn encode(samples: usize, change: Change, key: &str, words: &str) -> Row {
    let twin = Change::Nothing.page();
    let pages = vec![change.page(); PAGES];
    let mut out = Vec::new();
    let times = beside_copies(samples, |i| {
        out.clear();
        // SAFETY: twin and page are of one length.
        black_box(unsafe { diff::encode(black_box(&twin), pages[i].as_ptr(), &mut out) });
    });
    row(format!("diff-{key}"), format!("diff of 4 KiB, {words}"), times)
}

fn apply(samples: usize, change: Change, key: &str, words: &str) -> Result<Row> {
    let mut bytes = Vec::new();
    // SAFETY: twin and page are of one length.
    unsafe { diff::encode(&Change::Nothing.page(), change.page().as_ptr(), &mut bytes) };
    let mut pages = vec![Change::Nothing.page(); PAGES];
    diff::apply_to(&bytes, &mut pages[0])?;
    let times = beside_copies(samples, |i| {
        let _ = black_box(diff::apply_to(black_box(&bytes), &mut pages[i]));
    });
    Ok(row(format!("apply-{key}"), format!("apply a diff to 4 KiB, {words}"), times))
}
