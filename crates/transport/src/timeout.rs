//! How long a sleep lasts.

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all.
    Now,
    /// So many microseconds at most, and what the kernel adds to a sleep.
    Micros(u32),
    /// So many milliseconds at most.
    Millis(u32),
    /// Without limit.
    Forever,
}
