//! What a page costs to compress and to decompress, with each codec: the numbers of ADR 52.
//!
//!     cargo bench -p multigrain-runtime --features fuzzing --bench codecs

use std::hint::black_box;
use std::time::Instant;

use multigrain_runtime::fuzzing::Codecs;
use multigrain_types::Compression;

const PAGE: usize = 4096;
/// Pages of each sort, so that no branch is learnt by heart.
const PAGES: usize = 64;
/// Times that all of them are taken; the quickest counts.
const TIMES: usize = 60;

fn noise(place: usize) -> u64 {
    let mut word = (place as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn of_words(word: impl Fn(usize) -> u64) -> Vec<u8> {
    (0..PAGES * PAGE / 8).flat_map(|place| word(place).to_le_bytes()).collect()
}

/// Zeros, and a small number in one of 32 words.
fn sparse() -> Vec<u8> {
    of_words(|place| if noise(place).is_multiple_of(32) { noise(place) >> 48 } else { 0 })
}

/// Words of a small vocabulary, with numbers between them.
fn text() -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "the", "page", "of", "a", "segment", "is", "sent", "to", "node", "and", "written", "there",
        "in", "memory", "that", "waits",
    ];
    let mut all = String::new();
    for place in 0.. {
        let word = noise(place);
        all += WORDS[(word % 16) as usize];
        if word.is_multiple_of(11) {
            all += &format!(" {}", word >> 50);
        }
        all += if word.is_multiple_of(13) { ".\n" } else { " " };
        if all.len() >= PAGES * PAGE {
            break;
        }
    }
    all.truncate(PAGES * PAGE);
    all.into_bytes()
}

/// A grid of temperatures, smooth, as double precision numbers.
fn grid() -> Vec<u8> {
    let at = |place: usize| (place as f64 / 700.0).sin().mul_add(40.0, 300.0);
    of_words(|place| at(place).to_bits())
}

/// The same, of which most is not reached yet.
fn front() -> Vec<u8> {
    let at = |place: usize| (place as f64 / 700.0).sin().mul_add(40.0, 300.0);
    of_words(|place| if place % 512 < 200 { at(place) } else { 300.0 }.to_bits())
}

/// The quickest of several times, nanoseconds a page.
fn measure(mut pass: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_nanos() as f64 / PAGES as f64
    };
    (0..TIMES).map(time).fold(f64::MAX, f64::min)
}

fn main() {
    let mut codecs = Codecs::new();
    let sorts = [
        ("sparse", sparse()),
        ("text", text()),
        ("front", front()),
        ("grid", grid()),
        ("random", of_words(noise)),
    ];
    println!("| contents | codec | bytes | of 64 pages | encode ns | decode ns |");
    println!("|---|---|---|---|---|---|");
    for (name, all) in &sorts {
        let pages: Vec<&[u8]> = all.chunks(PAGE).collect();
        for codec in [Compression::RunLength, Compression::Lz4, Compression::Zstd] {
            let packed: Vec<Option<Vec<u8>>> =
                pages.iter().map(|page| codecs.encode(codec, page).map(<[u8]>::to_vec)).collect();
            let encode = measure(|| {
                pages.iter().for_each(|page| {
                    black_box(codecs.encode(codec, page));
                });
            });
            let shorter = packed.iter().flatten().count();
            let bytes: usize = packed.iter().flatten().map(Vec::len).sum();
            let decode = measure(|| {
                packed.iter().flatten().for_each(|packed| {
                    black_box(codecs.decode(codec, packed, PAGE));
                });
            });
            let decode = if shorter == PAGES { format!("{decode:.0}") } else { "-".into() };
            let bytes = bytes.checked_div(shorter).map_or("-".into(), |bytes| bytes.to_string());
            println!("| {name} | {codec:?} | {bytes} | {shorter} | {encode:.0} | {decode} |");
        }
    }
}
