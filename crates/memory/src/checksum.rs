//! A checksum of contents, to see whether they have changed without keeping a copy.

#![expect(unsafe_code, reason = "reads bytes that threads may write meanwhile")]

/// Odd, and without a pattern.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Words that are taken in at once, so that no multiplication waits for the one before.
const LANES: usize = 4;

/// A number that is another one, but for one chance in 2^64, when the bytes of a privileged view are. Threads may
/// write them meanwhile.
pub(crate) fn checksum(bytes: *const u8, len: usize) -> u64 {
    let mut lanes = [FACTOR; LANES];
    let mut lane = 0;
    let mut take = |word: u64| {
        lanes[lane] = (lanes[lane] ^ word).wrapping_mul(FACTOR).rotate_left(29);
        lane = (lane + 1) % LANES;
    };
    // Up to a multiple of 8, so that the words behind are aligned.
    let first = len.min(bytes.align_offset(8));
    let words = (len - first) / 8;
    let one = |at: usize| {
        // SAFETY: a privileged view is readable, and `at` is below `len`.
        u64::from(unsafe { bytes.wrapping_add(at).read_volatile() })
    };
    (0..first).map(one).for_each(&mut take);
    for word in 0..words {
        let place = bytes.wrapping_add(first).cast::<u64>().wrapping_add(word);
        // SAFETY: as above; aligned.
        take(unsafe { place.read_volatile() });
    }
    (first + words * 8..len).map(one).for_each(&mut take);
    lanes.into_iter().fold(0, |sum: u64, lane| sum.rotate_left(17) ^ lane)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[repr(align(8))]
    struct Bytes([u8; 44]);

    fn of(bytes: &Bytes, first: usize, len: usize) -> u64 {
        checksum(bytes.0[first..first + len].as_ptr(), len)
    }

    #[test]
    fn every_bit_counts_wherever_the_bytes_begin_and_end() {
        for (first, len) in [(0, 44), (4, 40), (4, 37), (0, 3), (0, 8), (4, 4)] {
            let mut bytes = Bytes(core::array::from_fn(|at| u8::try_from(at).unwrap()));
            let before = of(&bytes, first, len);
            assert_eq!(before, of(&bytes, first, len));
            for bit in first * 8..(first + len) * 8 {
                bytes.0[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(before, of(&bytes, first, len), "bit {bit} of {len} bytes from {first}");
                bytes.0[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn words_that_change_places_count() {
        let mut bytes = Bytes([0; 44]);
        bytes.0[0] = 1;
        let before = of(&bytes, 0, 40);
        for other in (8..40).step_by(8) {
            let mut bytes = Bytes([0; 44]);
            bytes.0[other] = 1;
            assert_ne!(before, of(&bytes, 0, 40), "{other}");
        }
    }
}
