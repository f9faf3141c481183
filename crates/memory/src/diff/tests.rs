//! Tests of diffs: the format byte for byte, every kernel against the reference, hostile input.

mod properties;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::*;

/// How the bytes around a page must look after anything.
const SENTINEL: u8 = 0xa5;

fn encoded(kernel: Kernel, twin: &[u8], page: &[u8]) -> (usize, Vec<u8>) {
    assert_eq!(twin.len(), page.len());
    let mut out = Vec::new();
    // SAFETY: the page is a slice of that length.
    let changed = unsafe { kernel.encode(twin, page.as_ptr(), &mut out) };
    (changed, out)
}

fn diff(twin: &[u8], page: &[u8]) -> Vec<u8> {
    encoded(Kernel::best(), twin, page).1
}

/// Applies at `shift` bytes after an address that is a multiple of 8, between sentinels: with others
/// that write, and with others that read, which does the same.
fn applied(
    kernel: Kernel,
    diff: &[u8],
    page: &[u8],
    shift: usize,
) -> Result<(usize, Vec<u8>), DiffError> {
    let [one, other] = [Others::Write, Others::Read]
        .map(|others| applied_beside(others, kernel, diff, page, shift));
    assert_eq!(one, other);
    one
}

fn applied_beside(
    others: Others,
    kernel: Kernel,
    diff: &[u8],
    page: &[u8],
    shift: usize,
) -> Result<(usize, Vec<u8>), DiffError> {
    let mut words = vec![u64::from_ne_bytes([SENTINEL; 8]); page.len() / 8 + 32];
    let start = words.as_mut_ptr().cast::<u8>();
    let bytes = words.len() * 8;
    // SAFETY: the bytes of the words; nothing else refers to them below.
    let memory = unsafe { core::slice::from_raw_parts_mut(start, bytes) };
    let first = 64 + shift;
    memory[first..first + page.len()].copy_from_slice(page);
    let diff = Diff::check(diff, page.len())?;
    // SAFETY: the page lies in the memory.
    unsafe { kernel.apply(&diff, memory[first..].as_mut_ptr(), others) };
    let after = memory[first..first + page.len()].to_vec();
    memory[first..first + page.len()].fill(SENTINEL);
    assert!(memory.iter().all(|byte| *byte == SENTINEL), "bytes outside of the page were written");
    Ok((diff.changed(), after))
}

#[test]
fn a_diff_is_these_bytes() {
    let twin = [0; 64 * 6 + 11];
    let mut page = twin;
    page[8] = 0x11; // line 0: bytes 0 and 3 of word 1, byte 7 of word 7
    page[11] = 0x22;
    page[63] = 0x33;
    page[128..256].fill(0x44); // lines 2 and 3 wholly
    page[64 * 6 + 10] = 0x55; // the last byte, in a word of 3 bytes
    let golden: Vec<u8> = [
        &[0, 0, 0, 0, /* mask */ 0, 0b1001, 0, 0, 0, 0, 0, 0x80][..],
        &[0x11, 0, 0, 0x22, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0x33],
        &[
            2, 0, 0, 0, /* mask */ 255, 255, 255, 255, 255, 255, 255, 255, /* count */ 2,
            0, 0, 0,
        ],
        &[0x44; 128],
        &[6, 0, 0, 0, /* mask */ 0, 0b100, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0x55, 0, 0, 0, 0, 0],
    ]
    .concat();
    for kernel in Kernel::all() {
        assert_eq!(encoded(kernel, &twin, &page), (3 + 128 + 1, golden.clone()), "{kernel}");
        assert_eq!(applied(kernel, &golden, &twin, 0), Ok((132, page.to_vec())), "{kernel}");
    }
    let runs: Vec<_> = Diff::check(&golden, page.len()).unwrap().runs().collect();
    let expected: [(usize, &[u8]); 5] =
        [(8, &[0x11]), (11, &[0x22]), (63, &[0x33]), (128, &[0x44; 128]), (394, &[0x55])];
    assert_eq!(runs, expected);
}

#[test]
fn nothing_is_appended_where_nothing_changed() {
    for bytes in [0, 1, 7, 8, 63, 64, 65, 4096] {
        let page = vec![3; bytes];
        for kernel in Kernel::all() {
            assert_eq!(encoded(kernel, &page, &page), (0, Vec::new()));
            assert!(!differs(kernel, &page, &page), "{kernel}");
        }
    }
    assert_eq!(apply_to(&[], &mut [1, 2]), Ok(0));
}

fn differs(kernel: Kernel, twin: &[u8], page: &[u8]) -> bool {
    assert_eq!(twin.len(), page.len());
    // SAFETY: the page is a slice of that length.
    unsafe { kernel.differs(twin, page.as_ptr()) }
}

#[test]
fn a_page_differs_from_its_twin_in_whichever_byte() {
    for bytes in [1, 7, 8, 63, 64, 65, 672] {
        let twin = vec![3; bytes];
        for byte in 0..bytes {
            let mut page = twin.clone();
            page[byte] = 4;
            for kernel in Kernel::all() {
                assert!(differs(kernel, &twin, &page), "{kernel}, byte {byte} of {bytes}");
            }
        }
    }
}

#[test]
fn a_diff_is_appended_to_what_is_there() {
    const BYTES: usize = if cfg!(miri) { 256 } else { 4096 };
    let mut out = vec![9; 3];
    // SAFETY: the page is an array of the twin's length.
    assert_eq!(unsafe { encode(&[0; BYTES], [1; BYTES].as_ptr(), &mut out) }, BYTES);
    assert_eq!((out.len(), &out[..3]), (3 + 16 + BYTES, &[9; 3][..]));
    let mut page = [0; BYTES];
    assert_eq!(apply_to(&out[3..], &mut page), Ok(BYTES));
    assert_eq!(page, [1; BYTES]);
}

#[test]
fn a_whole_line_between_others_is_a_run_of_one() {
    let twin = [0; 192];
    let mut page = [1; 192];
    page[0] = 0;
    page[191] = 0;
    assert_eq!(diff(&twin, &page).len(), 12 + 64 + 16 + 64 + 12 + 64);
    assert_eq!(apply_to(&diff(&twin, &page), &mut twin.clone()), Ok(190));
}

/// A record with as many words as its mask wants.
#[test]
fn the_longest_diffs_keep_within_their_bound() {
    for lines in 1..8usize {
        // Every second line changed wholly, the others but for one byte.
        let page: Vec<u8> =
            (0..lines * LINE_BYTES).map(|at| u8::from(at % (2 * LINE_BYTES) != 70)).collect();
        let bytes = diff(&vec![0; page.len()], &page).len();
        assert!(bytes <= most_bytes(page.len()), "{bytes} bytes for {lines} lines");
        assert!(lines > 1 || bytes == most_bytes(page.len()), "a shorter bound would do");
    }
}

fn record(line: u32, mask: u64) -> Vec<u8> {
    let words = mask.to_le_bytes().into_iter().filter(|byte| *byte != 0).count();
    [&line.to_le_bytes()[..], &mask.to_le_bytes(), &vec![7; 8 * words]].concat()
}

fn run(line: u32, count: u32, lines: usize) -> Vec<u8> {
    let header = [&line.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &count.to_le_bytes()].concat();
    [header, vec![7; 64 * lines]].concat()
}

#[test]
fn a_broken_diff_is_refused_before_anything_is_written() {
    let sound = record(0, 0xff);
    let after = |more: Vec<u8>| [sound.clone(), more].concat();
    let at = sound.len();
    let cases = [
        (after(vec![1; 11]), DiffError::Cut { at, needs: 12, has: 11 }),
        (after(record(1, 0x101)[..27].to_vec()), DiffError::Cut { at, needs: 28, has: 27 }),
        (after(run(1, 1, 0)[..15].to_vec()), DiffError::Cut { at, needs: 16, has: 15 }),
        (after(run(1, 2, 1)), DiffError::Cut { at, needs: 144, has: 80 }),
        (after(record(1, 0)), DiffError::Empty { at }),
        (after(run(1, 0, 0)), DiffError::Empty { at }),
        (after(record(0, 0xff00)), DiffError::Order { at, line: 0, after: 0 }),
        ([run(0, 3, 3), run(2, 1, 1)].concat(), DiffError::Order { at: 208, line: 2, after: 2 }),
        (after(record(3, 1 << 8)), DiffError::Outside { at, byte: 200, len: 200 }),
        (after(run(2, 2, 2)), DiffError::Outside { at, byte: 255, len: 200 }),
        (after(run(3, 1, 1)), DiffError::Outside { at, byte: 255, len: 200 }),
        (
            after(run(u32::MAX, u32::MAX, 1)),
            DiffError::Outside { at, byte: (u64::from(u32::MAX) << 7) - 1, len: 200 },
        ),
    ];
    for (diff, error) in cases {
        let mut page = [0; 200];
        assert_eq!(apply_to(&diff, &mut page), Err(error));
        assert_eq!(page, [0; 200], "{error}");
    }
    // The last byte there is may be named.
    assert_eq!(apply_to(&record(3, 1 << 7), &mut [0; 200]), Ok(1));
}

#[repr(align(64))]
struct Aligned<T>(T);

/// Another thread writes one byte of every word while the other seven are applied.
#[test]
fn bytes_that_others_write_meanwhile_are_theirs() {
    let twin = [0; 512];
    let page: [u8; 512] = core::array::from_fn(|index| u8::from(index % 8 != 3));
    let diff = diff(&twin, &page);
    let Aligned(memory) = &Aligned([const { AtomicU8::new(0) }; 512]);
    let stop = AtomicBool::new(false);
    let rounds = if cfg!(miri) { 2 } else { 5_000 };
    for kernel in Kernel::all() {
        let diff = Diff::check(&diff, memory.len()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut written = 0;
                while !stop.load(Ordering::Relaxed) {
                    for byte in memory.iter().skip(3).step_by(8) {
                        // What was written the round before has left the processor's buffers.
                        assert_eq!(byte.load(Ordering::Relaxed), written, "{kernel}");
                        byte.store(written.wrapping_add(1), Ordering::Relaxed);
                    }
                    written = written.wrapping_add(1);
                }
                memory.iter().skip(3).step_by(8).for_each(|byte| byte.store(0, Ordering::Relaxed));
            });
            for _ in 0..rounds {
                // SAFETY: the memory is that long, and atomic, so it may be written.
                unsafe { kernel.apply(&diff, memory.as_ptr().cast_mut().cast(), Others::Write) };
            }
            stop.store(true, Ordering::Relaxed);
        });
        stop.store(false, Ordering::Relaxed);
        for (index, byte) in memory.iter().enumerate().filter(|(index, _)| index % 8 != 3) {
            assert_eq!(byte.load(Ordering::Relaxed), 1, "{kernel}, byte {index}");
        }
    }
}
