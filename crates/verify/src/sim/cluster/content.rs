//! The contents of a minipage in a simulated memory.

/// What a minipage holds: one number stands for its bytes.
pub type Content = u64;
/// Mark: the minipage was freed and not written since.
pub const FREED: Content = Content::MAX;
