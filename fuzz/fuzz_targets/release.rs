//! What release consistency reads from peers: write notices, and diffs of a page.
//!
//! Input: nodes of the job, length of the page in steps of 8 bytes, then the bytes, read as write notices and
//! as a diff.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_memory::diff::{Diff, apply_to};
use multigrain_protocol::release::WriteNotices;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (nodes, steps) = (u16::from(input.byte()), usize::from(input.byte()));
    let bytes = input.0;
    if let Ok(notices) = WriteNotices::from_bytes(bytes, nodes) {
        assert_eq!(notices.to_bytes(), bytes, "write notices have one spelling");
        let parts = notices.clone().into_parts(3);
        assert_eq!(
            parts.iter().map(|part| part.notices.len()).sum::<usize>(),
            notices.notices.len()
        );
    }
    let before = vec![0xa5; 8 * steps + 3];
    let mut page = before.clone();
    match (Diff::check(bytes, page.len()), apply_to(bytes, &mut page)) {
        (Ok(diff), Ok(changed)) => {
            assert_eq!(
                (diff.changed(), diff.runs().map(|(_, run)| run.len()).sum()),
                (changed, changed)
            );
            let mut expected = before;
            for (offset, run) in diff.runs() {
                expected[offset..offset + run.len()].copy_from_slice(run);
            }
            assert_eq!(page, expected, "nothing but what the diff names is written");
        }
        (Err(_), Err(_)) => assert_eq!(page, before, "a refused diff writes nothing"),
        (checked, applied) => panic!("{checked:?} and {applied:?} disagree"),
    }
});
