//! Targets without libFuzzer: each input of a corpus, and inputs near those.
//!
//! `TARGET SECONDS FILE|DIRECTORY ...` takes every file once and then, for so long, files with some of their bytes
//! changed, cut off, repeated or taken from another one. What a target panics about comes with the number of the
//! input; the numbers begin anew in each run and mean the same inputs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process};

/// A target takes bytes.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        fn main() {
            $crate::replay::main(|$data: &[u8]| $body);
        }
    };
}

/// Inputs are not longer.
const LONGEST: usize = 4096;

/// Pseudo-random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 32).unwrap_or(0).checked_rem(end).unwrap_or(0)
    }
}

fn fail(line: &str) -> ! {
    eprintln!("multigrain: {line}");
    process::exit(2);
}

/// All files, in the order of their names.
fn files(path: &Path) -> Vec<PathBuf> {
    let read = || fs::read_dir(path).map(|all| all.flatten().map(|entry| entry.path()).collect());
    let mut files: Vec<PathBuf> = if path.is_dir() {
        read().unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())))
    } else {
        vec![path.to_path_buf()]
    };
    files.sort_unstable();
    files
}

/// One to four changes.
fn near(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len());
        match random.below(6) {
            0 => input.truncate(at),
            1 => input.insert(at, random.next().to_le_bytes()[0]),
            2 => {
                let other = &corpus[random.below(corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[random.below(other.len())..]);
            }
            3 => input.extend_from_within(at..),
            // What is at a limit breaks more than what is anywhere.
            4 => {
                let limit = [0, 1, 0x7f, 0x80, 0xfe, 0xff][random.below(6)];
                input.iter_mut().skip(at).take(1 << random.below(4)).for_each(|byte| *byte = limit);
            }
            _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
    input.truncate(LONGEST);
    input
}

/// The command of a target.
pub fn main(target: impl Fn(&[u8])) {
    let mut arguments = env::args_os().skip(1);
    let seconds = arguments.next().and_then(|word| word.to_str()?.parse().ok());
    let Some(seconds) = seconds else { fail("usage: TARGET SECONDS FILE|DIRECTORY ...") };
    let files: Vec<PathBuf> = arguments.flat_map(|path| files(Path::new(&path))).collect();
    let read = |path: &PathBuf| {
        fs::read(path).unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())))
    };
    let corpus: Vec<Vec<u8>> = files.iter().map(read).collect();
    if corpus.is_empty() {
        fail("no input");
    }
    for (path, input) in files.iter().zip(&corpus) {
        let _shown = Shown(|| eprintln!("this was {}", path.display()));
        target(input);
    }
    let (mut random, start, mut count) = (Random(0x9e37_79b9_7f4a_7c15), Instant::now(), 0_u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let input = near(&mut random, &corpus);
        count += 1;
        let _shown = Shown(|| eprintln!("this was input {count}: {input:02x?}"));
        target(&input);
    }
    println!("{} inputs of the corpus, {count} near them", corpus.len());
}

/// Says which input it was if the target panics.
struct Shown<F: Fn()>(F);

impl<F: Fn()> Drop for Shown<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}
