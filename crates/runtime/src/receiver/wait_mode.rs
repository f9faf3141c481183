//! The ways to wait, and which is the default.

/// How a thread waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitMode {
    /// Poll without a pause; needs a core per thread.
    Spin,
    /// Poll and yield the core between polls.
    Yield,
    /// Sleep until something arrives.
    Block,
    /// Poll and yield for a short while, then sleep.
    #[default]
    Adaptive,
}
