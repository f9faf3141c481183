//! The table of mutants, from its parts.

mod queues;
mod release;
mod runtime;
mod sequential;

use self::queues::QUEUES;
use self::release::RELEASE;
use self::runtime::RUNTIME;
use self::sequential::SEQUENTIAL;
use super::list::{Mutant, Row};

const fn row(mutant: Mutant, name: &'static str, breaks: &'static str) -> Row {
    Row { mutant, name, breaks }
}

const COUNT: usize = SEQUENTIAL.len() + RELEASE.len() + RUNTIME.len() + QUEUES.len();

/// Every mutant.
pub const MUTANTS: [Row; COUNT] = {
    let parts: [&[Row]; 4] = [&SEQUENTIAL, &RELEASE, &RUNTIME, &QUEUES];
    let mut all = [SEQUENTIAL[0]; COUNT];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[filled] = parts[part][index];
            filled += 1;
            index += 1;
        }
        part += 1;
    }
    all
};
