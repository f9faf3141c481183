//! The outbox of a peer: what waits to be sent to it, and the rules by which it waits ([`send_rules`]).

mod batch;
mod deferred;

mod payload;
mod queue;
mod send_rules;
mod stop_and_wait;

pub(crate) use batch::{MAX_BATCH, MORE_FOLLOWS, Member, first_member};
pub use deferred::MAX_DEFERRED;
pub use payload::Payload;
pub(crate) use send_rules::{Outbox, Port};

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
