//! `multigrain bounds`: who fills a queue that nobody empties waits, and a job has so many names.

mod support;

use support::{multigrain, run};

#[test]
fn what_a_program_can_fill_has_an_end() {
    let ended = run(multigrain().arg("bounds"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for scene in ["posts", "pushes", "held"] {
        for transport in ["unix", "tcp"] {
            let told = format!("{scene} over {transport}: node 1 waited after ");
            assert!(ended.out.contains(&told), "{told}: {ended:?}");
        }
    }
    assert!(ended.out.contains(" names, and no more"), "{ended:?}");
}
