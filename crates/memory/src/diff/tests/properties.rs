//! Properties of diffs over arbitrary pages, and over hostile bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What differs in a line: often nothing, often everything.
fn masks() -> impl Strategy<Value = u64> {
    let words = any::<u8>().prop_map(|words| {
        let bytes = core::array::from_fn(|word| if words & (1 << word) == 0 { 0 } else { 0xff });
        u64::from_le_bytes(bytes)
    });
    prop_oneof![Just(0), Just(WHOLE), any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit), words]
}

/// Lines of the longest page.
const LINES: usize = if cfg!(miri) { 4 } else { 20 };

/// Bytes without pattern, none of which is 0. Cheaper than as many choices of proptest's.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32).to_le_bytes()[0].max(1)
    };
    (0..bytes).map(|_| next()).collect()
}

/// Whether a mask of lines names a byte.
fn named(masks: &[u64], index: usize) -> bool {
    masks[index / 64] & (1 << (index % 64)) != 0
}

/// A twin, and for each byte what its change is: 0 for none.
fn changes() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    (vec(masks(), 0..LINES), 0..64_usize, any::<u64>()).prop_map(|(masks, cut, seed)| {
        let bytes = (masks.len() * 64).saturating_sub(cut);
        let mut change = noise(!seed, bytes);
        for (index, change) in change.iter_mut().enumerate() {
            *change *= u8::from(named(&masks, index));
        }
        (noise(seed, bytes), change)
    })
}

/// Records that a peer may have made up: most of them nearly right.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![8 => 0..6_u32, 1 => any::<u32>()];
    let count = prop_oneof![8 => 0..3_u32, 1 => any::<u32>()];
    let records = (line, masks(), count, any::<u64>()).prop_map(|(line, mask, count, seed)| {
        if mask == WHOLE { run(line, count, count.min(3) as usize) } else { record(line, mask) }
            .into_iter()
            .chain(noise(seed, if seed % 16 == 0 { 3 } else { 0 }))
            .collect()
    });
    let made_up = vec(records, 0..5).prop_map(|records: Vec<Vec<u8>>| records.concat());
    prop_oneof![9 => made_up, 1 => vec(any::<u8>(), 0..40)]
}

fn xor(page: &[u8], change: &[u8]) -> Vec<u8> {
    page.iter().zip(change).map(|(byte, change)| byte ^ change).collect()
}

/// Each byte of `page` that changed, over what `base` has.
fn over(base: &[u8], page: &[u8], change: &[u8]) -> Vec<u8> {
    let pick = |((base, page), change): ((&u8, &u8), &u8)| if *change == 0 { *base } else { *page };
    base.iter().zip(page).zip(change).map(pick).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kernels_make_the_same_diff_and_name_the_changed_bytes((twin, change) in changes()) {
        let page = xor(&twin, &change);
        let (changed, reference) = encoded(Kernel::SCALAR, &twin, &page);
        for kernel in Kernel::all() {
            prop_assert_eq!(&encoded(kernel, &twin, &page), &(changed, reference.clone()));
        }
        // Wherever the page lies.
        for shift in 1..8 {
            let moved = [vec![0; shift], page.clone()].concat();
            prop_assert_eq!(&encoded(Kernel::SCALAR, &twin, &moved[shift..]).1, &reference);
        }
        let named = Diff::check(&reference, page.len()).unwrap();
        let mut runs = vec![0; page.len()];
        for (offset, bytes) in named.runs() {
            prop_assert_eq!(bytes, &page[offset..offset + bytes.len()]);
            runs[offset..offset + bytes.len()].fill(1);
        }
        prop_assert_eq!(runs.iter().sum::<usize>(), changed);
        prop_assert!(runs.iter().zip(&change).all(|(run, change)| (*run == 1) == (*change != 0)));
        prop_assert_eq!(named.changed(), changed);
        let lines = page.len().div_ceil(64);
        prop_assert!(reference.len() <= 78 * lines + 2);
    }

    #[test]
    fn applying_writes_the_changed_bytes_and_no_others(
        (twin, change) in changes(),
        fill in any::<u8>(),
        shift in 0_usize..8,
    ) {
        let page = xor(&twin, &change);
        let diff = diff(&twin, &page);
        let changed = change.iter().filter(|change| **change != 0).count();
        // A page with other values wherever nothing changed keeps them.
        let other: Vec<u8> = twin.iter().map(|byte| byte ^ fill).collect();
        for kernel in Kernel::all() {
            let restored = applied(kernel, &diff, &twin, shift);
            prop_assert_eq!(restored, Ok((changed, page.clone())));
            let kept = applied(kernel, &diff, &other, shift);
            prop_assert_eq!(kept, Ok((changed, over(&other, &page, &change))));
        }
    }

    #[test]
    fn diffs_of_writers_of_different_bytes_commute(
        (twin, change) in changes(),
        side in vec(any::<u64>(), LINES),
    ) {
        let part = |which| -> Vec<u8> {
            let keep = |(index, change)| change * u8::from(named(&side, index) == which);
            change.iter().enumerate().map(keep).collect()
        };
        let [one, other] = [true, false].map(|which| diff(&twin, &xor(&twin, &part(which))));
        for order in [[&one, &other], [&other, &one]] {
            let mut page = twin.clone();
            for diff in order {
                apply_to(diff, &mut page).unwrap();
            }
            prop_assert_eq!(page, xor(&twin, &change));
        }
    }

    #[test]
    fn hostile_bytes_never_write_outside_or_by_halves(
        bytes in hostile(),
        len in 0..400_usize,
        shift in 0_usize..8,
    ) {
        let page = noise(1, len);
        for kernel in Kernel::all() {
            let _ = applied(kernel, &bytes, &page, shift);
        }
        let mut after = page.clone();
        if apply_to(&bytes, &mut after).is_err() {
            prop_assert_eq!(after, page);
        }
    }

    #[test]
    fn a_damaged_diff_never_writes_outside_or_by_halves(
        (twin, change) in changes(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in 0_usize..20,
        shorter in 0_usize..80,
    ) {
        let mut diff = diff(&twin, &xor(&twin, &change));
        for (place, flip) in flips {
            if !diff.is_empty() {
                let place = place.index(diff.len());
                diff[place] ^= flip;
            }
        }
        diff.truncate(diff.len().saturating_sub(cut));
        let page = &twin[..twin.len().saturating_sub(shorter)];
        let results: Vec<_> = Kernel::all().map(|kernel| applied(kernel, &diff, page, 0)).collect();
        prop_assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        let mut after = page.to_vec();
        if apply_to(&diff, &mut after).is_err() {
            prop_assert_eq!(after, page);
        }
        if let Ok(diff) = Diff::check(&diff, page.len()) {
            prop_assert_eq!(diff.runs().map(|(_, bytes)| bytes.len()).sum::<usize>(), diff.changed());
        }
    }
}
