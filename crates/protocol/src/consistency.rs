//! The list of engines: which one keeps a minipage of which consistency. To add a consistency or an engine, begin
//! here and with its name in `multigrain_types`; the compiler finds the rest, but for the number of the C interface.

use multigrain_types::Consistency;

/// The engines of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// [`crate::coherence`]: single writer / multiple readers.
    Sequential,
    /// [`crate::mgs`]: eager release consistency.
    Eager,
    /// [`crate::hlrc`]: home-based lazy release consistency.
    Lazy,
}

/// What may happen to the home of a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Homes {
    /// It stays.
    Fixed,
    /// It migrates at barriers (ParADE's migratory home).
    Migratory,
    /// It migrates at barriers, and is dynamic where its writers change.
    Dynamic,
}

const fn row(consistency: Consistency) -> (EngineKind, Homes) {
    match consistency {
        Consistency::Sequential => (EngineKind::Sequential, Homes::Fixed),
        Consistency::EagerRelease => (EngineKind::Eager, Homes::Fixed),
        Consistency::LazyRelease => (EngineKind::Lazy, Homes::Migratory),
        Consistency::Auto => (EngineKind::Lazy, Homes::Dynamic),
    }
}

impl EngineKind {
    /// The engine of a consistency.
    #[must_use]
    pub const fn of(consistency: Consistency) -> Self {
        row(consistency).0
    }
}

impl Homes {
    /// The homes of a consistency.
    #[must_use]
    pub const fn of(consistency: Consistency) -> Self {
        row(consistency).1
    }
}
