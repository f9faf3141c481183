//! Names for what the event loop waits for, in the form in which they pass through epoll.

use rustix::event::epoll::EventData;

/// Bits of an event that say what it is about; the others say of which node or host.
const KIND_BITS: u32 = 4;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    Writer,
    Typed,
    Relay,
    Exit(usize),
    Control(usize),
    Out(usize),
    Err(usize),
    /// What the agent of a host says.
    Agent(usize),
    /// What the command that leads to a host writes to stderr.
    AgentStderr(usize),
    /// There is room for what the agent of a host is to be told.
    AgentRoom(usize),
}

impl Source {
    /// As epoll carries it.
    pub(super) fn data(self) -> EventData {
        let (kind, rank) = match self {
            Self::Signals => (0, 0),
            Self::Writer => (1, 0),
            Self::Typed => (2, 0),
            Self::Relay => (3, 0),
            Self::Exit(rank) => (4, rank),
            Self::Control(rank) => (5, rank),
            Self::Out(rank) => (6, rank),
            Self::Err(rank) => (7, rank),
            Self::Agent(host) => (8, host),
            Self::AgentStderr(host) => (9, host),
            Self::AgentRoom(host) => (10, host),
        };
        EventData::new_u64((rank as u64) << KIND_BITS | kind)
    }

    /// The source behind an event of epoll.
    pub(super) fn of(data: EventData) -> Option<Self> {
        let rank = usize::try_from(data.u64() >> KIND_BITS).ok()?;
        [
            Self::Signals,
            Self::Writer,
            Self::Typed,
            Self::Relay,
            Self::Exit(rank),
            Self::Control(rank),
            Self::Out(rank),
            Self::Err(rank),
            Self::Agent(rank),
            Self::AgentStderr(rank),
            Self::AgentRoom(rank),
        ]
        .get(usize::try_from(data.u64() & ((1 << KIND_BITS) - 1)).ok()?)
        .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_survives_the_kernel() {
        for source in [
            Source::Signals,
            Source::Relay,
            Source::Exit(0),
            Source::Err(1023),
            Source::AgentRoom(7),
        ] {
            assert_eq!(Source::of(source.data()), Some(source));
        }
    }
}
