//! Run-length code (MIRAGE+ 4.8): runs of one repeated word of 8 bytes, and words as they are.
//!
//! A record is two bytes, little endian: whether it is a run, and how many words it stands for, at least one; then the
//! word of the run once, or all the words. Bytes behind the last whole word follow as they are.

use super::output::Output;

/// Bytes of a word: a repeated pair of 4 bytes is one as well.
const WORD: usize = 8;
/// Set in a record that is a run.
const RUN: u16 = 1 << 15;
/// Words that a record stands for at most.
const MOST: usize = RUN as usize - 1;

/// Encodes `contents` into `room`: how many bytes; None, as soon as that is clear, if they do not fit.
pub(super) fn encode(contents: &[u8], room: &mut [u8]) -> Option<usize> {
    let (words, rest) = contents.as_chunks::<WORD>();
    let mut out = Output::new(room);
    let (mut at, mut first_plain) = (0, 0);
    while let Some(word) = words.get(at) {
        let run = words[at..].iter().take(MOST).take_while(|next| *next == word).count();
        if run > 1 {
            put_plain(&mut out, &words[first_plain..at])?;
            put_record(&mut out, RUN, run)?;
            out.extend(word)?;
            at += run;
            first_plain = at;
        } else {
            at += 1;
            let plain = at - first_plain;
            if out.left() < size_of::<u16>() + plain * WORD {
                return None;
            }
            if plain == MOST {
                put_plain(&mut out, &words[first_plain..at])?;
                first_plain = at;
            }
        }
    }
    put_plain(&mut out, &words[first_plain..])?;
    out.extend(rest)?;
    Some(out.len())
}

fn put_plain(out: &mut Output<'_>, words: &[[u8; WORD]]) -> Option<()> {
    if words.is_empty() {
        return Some(());
    }
    put_record(out, 0, words.len())?;
    out.extend(words.as_flattened())
}

fn put_record(out: &mut Output<'_>, sort: u16, words: usize) -> Option<()> {
    let words = u16::try_from(words).ok()?;
    out.extend(&(sort | words).to_le_bytes())
}

/// Decodes all of `packed` to exactly `contents`; None if it is not the code of so many bytes.
pub(super) fn decode(packed: &[u8], contents: &mut [u8]) -> Option<()> {
    let mut packed = packed;
    let (mut words, rest) = contents.as_chunks_mut::<WORD>();
    while !words.is_empty() {
        let record = u16::from_le_bytes(*packed.split_off(..2)?.as_array()?);
        let count = usize::from(record & !RUN);
        if count == 0 {
            return None;
        }
        let own = words.split_off_mut(..count)?;
        if record & RUN == 0 {
            own.as_flattened_mut().copy_from_slice(packed.split_off(..count * WORD)?);
        } else {
            own.fill(*packed.split_off(..WORD)?.as_array()?);
        }
    }
    (packed.len() == rest.len()).then(|| rest.copy_from_slice(packed))
}
