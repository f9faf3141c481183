//! Every codec: what is encoded is decoded, and is never longer than it may be; what is no code is refused.

use proptest::prelude::*;

use super::coder::{Coder, LONGEST, limit};
use multigrain_types::Compression;

const CODECS: [Compression; 3] = [Compression::RunLength, Compression::Lz4, Compression::Zstd];

fn coder() -> Coder {
    let mut coder = Coder::new();
    assert!(coder.prepare(Compression::Zstd));
    coder
}

fn encode(coder: &mut Coder, codec: Compression, contents: &[u8]) -> Option<Vec<u8>> {
    coder.contents()[..contents.len()].copy_from_slice(contents);
    coder.encode(codec, contents.len()).map(<[u8]>::to_vec)
}

/// Bytes as in pages: pieces of noise, of a repeated word, and of what was there before.
fn pages() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        (any::<u32>(), 0..300_usize).prop_map(|(word, count)| word.to_le_bytes().repeat(count)),
        (any::<[u8; 8]>(), 0..300_usize).prop_map(|(word, count)| word.repeat(count)),
        (b'a'..b'f', 0..100_usize).prop_map(|(byte, count)| vec![byte; count]),
    ];
    proptest::collection::vec((piece, any::<bool>()), 0..12).prop_map(|pieces| {
        let mut page = Vec::new();
        for (piece, again) in pieces {
            page.extend_from_slice(&piece);
            if again {
                let half = page[page.len() / 2..].to_vec();
                page.extend(half);
            }
        }
        page.truncate(LONGEST);
        page
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_a_quarter_shorter_and_is_decoded(page in pages()) {
        let mut coder = coder();
        for codec in CODECS {
            let Some(packed) = encode(&mut coder, codec, &page) else { continue };
            prop_assert!(packed.len() <= page.len() * 3 / 4, "{codec:?}: {}", packed.len());
            prop_assert_eq!(coder.decode(codec, &packed, page.len()), Some(&page[..]));
            // As contents of another length they are refused.
            for wrong in [page.len() - 1, page.len() + 1] {
                prop_assert_eq!(coder.decode(codec, &packed, wrong), None, "{:?}", codec);
            }
            let cut = &packed[..packed.len() - 1];
            prop_assert_eq!(coder.decode(codec, cut, page.len()), None, "{:?}", codec);
        }
    }

    #[test]
    fn what_is_no_code_is_refused_or_has_as_many_bytes(
        packed in proptest::collection::vec(any::<u8>(), 0..400), bytes in 0..5000_usize,
    ) {
        let mut coder = coder();
        for codec in CODECS {
            let decoded = coder.decode(codec, &packed, bytes);
            prop_assert!(decoded.is_none_or(|contents| contents.len() == bytes));
        }
    }

    #[test]
    fn a_code_with_a_wrong_byte_is_refused_or_has_as_many_bytes(
        page in pages(), at: proptest::sample::Index, byte: u8,
    ) {
        let mut coder = coder();
        for codec in CODECS {
            let Some(mut packed) = encode(&mut coder, codec, &page) else { continue };
            let at = at.index(packed.len());
            packed[at] = byte;
            let decoded = coder.decode(codec, &packed, page.len());
            prop_assert!(decoded.is_none_or(|contents| contents.len() == page.len()));
        }
    }
}

/// A stream of numbers that no codec finds anything in.
pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    core::iter::repeat_with(next).flatten().take(bytes).collect()
}

#[test]
fn a_page_of_one_word_takes_a_few_bytes() {
    let mut coder = coder();
    let page = 0x1234_5678_u32.to_le_bytes().repeat(1024);
    let packed = |(codec, most)| {
        let packed = encode(&mut coder, codec, &page).unwrap();
        assert!(packed.len() <= most, "{codec:?}: {} bytes", packed.len());
    };
    CODECS.into_iter().zip([10, 32, 32]).for_each(packed);
}

#[test]
fn noise_is_not_encoded_whatever_its_length() {
    let mut coder = coder();
    for bytes in [0, 1, 3, 4, 12, 13, 100, 4096, 4099, LONGEST] {
        let page = noise(bytes);
        for codec in CODECS {
            assert_eq!(encode(&mut coder, codec, &page), None, "{codec:?}: {bytes} bytes");
        }
    }
}

#[test]
fn an_encoder_gives_up_where_it_has_no_room_left() {
    let mut coder = coder();
    // A repeated word behind what alone is longer than the whole may be.
    let mut page = noise(limit(4096) - 1);
    page.resize(4096, 7);
    for codec in CODECS {
        assert_eq!(encode(&mut coder, codec, &page), None, "{codec:?}");
    }
    // With less in front of it there is room.
    page[1024..].fill(7);
    for codec in CODECS {
        assert!(encode(&mut coder, codec, &page).is_some(), "{codec:?}");
    }
}

#[test]
fn nothing_is_longer_than_the_longest() {
    let mut coder = coder();
    coder.contents().fill(7);
    for codec in CODECS {
        let packed = coder.encode(codec, LONGEST).unwrap().to_vec();
        assert!(coder.encode(codec, LONGEST + 1).is_none());
        assert!(coder.decode(codec, &packed, LONGEST).is_some());
        assert!(coder.decode(codec, &packed, LONGEST + 1).is_none());
    }
    assert!(coder.encode(Compression::None, 4096).is_none());
    assert!(coder.decode(Compression::None, &[], 0).is_none());
}

#[test]
fn bombs_and_records_of_nothing_are_refused() {
    let mut coder = coder();
    let mut refused = |codec, packed: &[u8]| {
        assert_eq!(coder.decode(codec, packed, 4096), None, "{codec:?}: {packed:x?}");
    };
    // 32,767 words where 512 are wanted, no words, words that are not there, and words behind the last.
    refused(Compression::RunLength, &[0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8]);
    refused(Compression::RunLength, &[0, 0].repeat(100));
    refused(Compression::RunLength, &[0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8]);
    refused(Compression::RunLength, &[0, 2, 1, 2, 3]);
    refused(Compression::RunLength, &[0, 0x82, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    // A match without end, and one before the beginning.
    refused(Compression::Lz4, &[&[0x1f, 7, 1, 0][..], &[255; 2000]].concat());
    refused(Compression::Lz4, &[0x10, 7, 9, 0, 0]);
    // A frame of the library that holds 1 MiB of zeros.
    let mut bomb = [0; 3000];
    let bytes = zstd_safe::compress(&mut bomb[..], &vec![0; 1 << 20], 1).unwrap();
    refused(Compression::Zstd, &bomb[..bytes]);
    refused(Compression::Zstd, &[]);
}
