//! `multigrain bounds`: a node that fills a queue which nobody empties waits; the names of a job are bounded.

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
