//! How long a sleep lasts.

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Now,
    /// So many milliseconds at most.
    Millis(u32),
    /// Without limit.
    Forever,
}
