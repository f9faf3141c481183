//! Pages fetched from a segment by what is in them and how it is compressed (MIRAGE+ 5.2, 5.3): zeros, of which EachN, UptoN and
//! RandN have written some bytes with values that do not compress.

use super::NodeArgs;
use super::raw_sockets::REQUEST_BYTES;
use super::team::{Sums, Team};
use crate::bench::clock::{load, store, timed};
use crate::bench::row::{Row, size_name};
use crate::bench::samples::Samples;
use anyhow::Result;
use multigrain_runtime::{Policy, SegmentOptions};
use multigrain_types::{Compression, Consistency, PAGE_BYTES};

const CODECS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("rle", Compression::RunLength),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];
/// The node that creates the segments and writes.
const LIBRARY: usize = 1;
const WORD: usize = size_of::<u64>();

/// Which bytes of a page are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    EachN(usize),
    UptoN(usize),
    RandN(usize),
}

/// What run-length code makes one, two, three and four packets of 1 KiB of (Table 4).
pub(super) const PACKETS: &[Pattern] =
    &[Pattern::UptoN(896), Pattern::UptoN(1920), Pattern::UptoN(2944), Pattern::UptoN(4096)];

/// Figure 4.
pub(super) const ALL: &[Pattern] = &[
    Pattern::EachN(2),
    Pattern::EachN(8),
    Pattern::EachN(11),
    Pattern::EachN(16),
    Pattern::EachN(32),
    Pattern::EachN(64),
    Pattern::EachN(128),
    Pattern::UptoN(128),
    Pattern::UptoN(512),
    Pattern::UptoN(896),
    Pattern::UptoN(1920),
    Pattern::UptoN(2944),
    Pattern::UptoN(4096),
    Pattern::RandN(25),
    Pattern::RandN(50),
    Pattern::RandN(100),
    Pattern::RandN(200),
    Pattern::RandN(650),
    Pattern::RandN(1000),
];

impl Pattern {
    fn name(self) -> String {
        match self {
            Self::EachN(n) => format!("each-{n}"),
            Self::UptoN(n) => format!("upto-{n}"),
            Self::RandN(n) => format!("rand-{n}"),
        }
    }

    /// A page of it.
    fn page(self, seed: &mut u64) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        let (places, step) = match self {
            Self::EachN(n) => (PAGE_BYTES.div_ceil(n), Some(n)),
            Self::UptoN(n) => (n, Some(1)),
            Self::RandN(n) => (n, None),
        };
        for index in 0..places {
            let place = step.map_or_else(|| below(seed, PAGE_BYTES), |step| index * step);
            page[place] = next(seed).to_le_bytes()[0] | 1;
        }
        page
    }
}

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn below(state: &mut u64, limit: usize) -> usize {
    usize::try_from(next(state) % limit as u64).unwrap_or_default()
}

/// `--batch` is the pages of a segment.
pub(super) fn run(args: &NodeArgs, patterns: &[Pattern]) -> Result<()> {
    let mut team = Team::join(args)?;
    let rounds = (args.samples / args.batch).max(1);
    let mut seed = 1;
    for &pattern in patterns {
        for (name, codec) in CODECS {
            let key = format!("{}-{name}", pattern.name());
            let start = attached(&team, &key, args.batch, codec)?;
            let pages: Vec<usize> = (0..args.batch).map(|page| start + page * PAGE_BYTES).collect();
            measure(&mut team, key, &pages, (pattern, rounds, &mut seed))?;
            team.runtime.segment_detach(start)?;
        }
    }
    team.finish()
}

fn attached(team: &Team, name: &str, pages: usize, codec: Compression) -> Result<usize> {
    if team.me == LIBRARY {
        let policy = Policy::new().consistency(Consistency::Sequential);
        let options = SegmentOptions::new().policy(policy).compression(codec);
        team.runtime.segment_create(name.as_bytes(), pages * PAGE_BYTES, 0o600, options)?;
    }
    Ok(team.runtime.segment_attach(name.as_bytes(), true, true)?)
}

/// The first round, in which pages come here for the first time, is not counted.
fn measure(
    team: &mut Team,
    key: String,
    pages: &[usize],
    (pattern, rounds, seed): (Pattern, usize, &mut u64),
) -> Result<()> {
    let (mut ours, mut sums) = (Samples::new(), Sums::default());
    for round in 0..=rounds {
        if team.me == LIBRARY {
            pages.iter().for_each(|&page| write(page, &pattern.page(seed)));
        }
        let measures = team.measures();
        let (times, counted) = team.phase(|| {
            let fetched = pages.iter().filter(|_| measures).map(|&page| fetched(page));
            Ok(fetched.collect())
        })?;
        if round > 0 {
            ours.append(times);
            sums += counted;
        }
    }
    let counts = sums.per(rounds * pages.len());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes of a page at most"
    )]
    let reply = counts.page_bytes.ceil() as usize;
    let raw: Samples = if team.measures() {
        team.raw.ask(LIBRARY, pages.len(), reply)?
    } else {
        team.raw.serve(pages.len(), reply).map(|()| Samples::new())?
    };
    let floor = format!("{REQUEST_BYTES} B -> {}", size_name(reply));
    let mut row = Row::new(&key, &key, ours.summary()).over(floor, raw.summary());
    row.counts = Some(counts);
    team.report(row);
    Ok(())
}

fn fetched(page: usize) -> f64 {
    timed(|| {
        load(page);
    })
}

fn write(page: usize, contents: &[u8]) {
    for (index, word) in contents.chunks_exact(WORD).enumerate() {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        store(page + index * WORD, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_writes_its_places_and_leaves_the_others_zero() {
        let written = |pattern: Pattern| {
            let page = pattern.page(&mut 7);
            (0..PAGE_BYTES).filter(|&place| page[place] != 0).collect::<Vec<_>>()
        };
        assert_eq!(written(Pattern::EachN(1024)), [0, 1024, 2048, 3072]);
        assert_eq!(written(Pattern::UptoN(3)), [0, 1, 2]);
        let random = written(Pattern::RandN(50)).len();
        assert!((40..=50).contains(&random), "{random}");
    }
}
