//! How often pages of segments are taken away where the user asks for a time window (`--segment-window`). A program of tests
//! apart: how often that is without a window is a matter of processors, which others would want.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod support;

use support::TestDir;
use support::sites::{may, moved, plain};

#[test]
fn a_page_that_both_sites_write_is_taken_less_often_with_a_window() {
    if !may() {
        return;
    }
    let dir = TestDir::new();
    // What is taken away in 0.4 s: where each has it for 20 ms, some 20 times.
    let windows = plain(&dir, "sysv_windows");
    let taken = |options| moved(&windows, options).1;
    let (often, seldom) = (taken(&[]), taken(&["--segment-window", "20ms"]));
    assert!(
        seldom < 60.0 && often > 3.0 * seldom,
        "taken {seldom} times, without a window {often}"
    );
}
