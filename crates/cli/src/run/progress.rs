//! The progress line: elapsed time, nodes that are ready, and the application's own count.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use multigrain_types::control::Count;

/// The line on the terminal; used by the writer alone. Cleared when dropped.
pub(super) struct Line {
    bar: ProgressBar,
    shown: bool,
}

impl Line {
    /// Shows nothing before the first [`Self::show`].
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{elapsed_precise}  {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, shown: false }
    }

    /// Draws the line with this text.
    pub(super) fn show(&mut self, text: String) {
        self.bar.set_message(text);
        self.bar.tick();
        self.shown = true;
    }

    /// Does something with the line out of the way.
    pub(super) fn aside<R>(&self, action: impl FnOnce() -> R) -> R {
        if self.shown { self.bar.suspend(action) } else { action() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// `4/4 nodes ready  120/1000 (12 %)`; a program without mg_init never gets ready, nor has to.
pub(super) fn text(ready: usize, nodes: usize, count: Option<Count>) -> String {
    let mut text = match ready {
        0 => format!("{nodes} nodes"),
        _ => format!("{ready}/{nodes} nodes ready"),
    };
    if let Some(Count { done, total }) = count {
        text += &format!("  {done}/{total}");
        if let Some(percent) = (u128::from(done) * 100).checked_div(u128::from(total)) {
            text += &format!(" ({percent} %)");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_the_count_only_where_there_is_one() {
        assert_eq!(text(0, 4, None), "4 nodes");
        assert_eq!(text(3, 4, None), "3/4 nodes ready");
        let count = |done, total| Some(Count { done, total });
        assert_eq!(text(4, 4, count(120, 1000)), "4/4 nodes ready  120/1000 (12 %)");
        assert_eq!(text(4, 4, count(5, 0)), "4/4 nodes ready  5/0");
    }
}
