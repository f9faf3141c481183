//! Heartbeats of an agent while it does what may take long and answers nothing: it reads files that may be far away, or all of
//! /proc, or starts nodes one after the other. Its silence would be that of a link that is cut.

use super::super::channel::AgentChannel;
use super::super::failure_detector::PERIOD;
use super::super::messages::AgentEvent;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Builder, scope};

/// Does this; a thread says meanwhile that the agent is there. Without one (a limit of threads) it says nothing.
pub(super) fn beside_heartbeats<T>(channel: &mut AgentChannel, act: impl FnOnce() -> T) -> T {
    scope(|scope| {
        let (acts, is_done) = mpsc::channel::<()>();
        let beat = move || {
            while is_done.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                channel.say(&AgentEvent::Busy);
            }
        };
        let _ = Builder::new().name("heartbeats".to_owned()).spawn_scoped(scope, beat);
        let done = act();
        drop(acts);
        done
    })
}
