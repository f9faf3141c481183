//! A node's copy of a minipage, or its home: routes an event to the concern that knows its rows.

mod access;
mod diffs;
mod dynamic_home;
mod fetch;
mod migrate;
mod notice;

use super::event::CopyEvent;
#[cfg(feature = "mutants")]
use super::event::FlushEvent;
use super::state::Copy;
use crate::context::{EngineContext, Illegal};
use crate::effect::Effects;
use crate::mutant_macro::mutant;

impl Copy {
    /// One step at a node that knows of `epoch` migrations; effects are appended to `out`.
    ///
    /// # Errors
    /// [`Illegal`] when no correct peer can have sent this event in this state.
    pub fn handle(
        &mut self,
        context: &EngineContext,
        epoch: u64,
        event: &CopyEvent,
        out: &mut Effects,
    ) -> Result<(), Illegal> {
        use CopyEvent as E;
        mutant!("fetch-overtakes-diff" => {
            if let Self::Away(away) = &mut *self {
                away.unacked = u32::from(matches!(event, E::Flush(FlushEvent::DiffAck { .. })));
            }
        });
        let next = match (event, &mut *self) {
            (E::Access(event), Self::Home { home, .. }) => {
                access::at_home(home, context, event, out);
                None
            }
            (E::Access(event), Self::Away(away)) => {
                access::away(away, context, epoch, event, out);
                None
            }
            (E::Fetch(event), Self::Home { home, moves }) => {
                fetch::at_home(home, *moves, context, epoch, event, out)?
            }
            (E::Fetch(event), Self::Away(away)) => fetch::away(away, context, epoch, event, out)?,
            (E::Flush(event), Self::Home { home, moves }) => {
                diffs::at_home(home, *moves, context, event, out)?;
                None
            }
            (E::Flush(event), Self::Away(away)) => {
                diffs::away(away, context, epoch, event, out)?;
                None
            }
            // What others wrote is here.
            (E::Notice { .. }, Self::Home { .. }) => None,
            (E::Notice { flush }, Self::Away(away)) => {
                notice::away(away, context, epoch, *flush, out)?;
                None
            }
            (E::Migrate { home: to }, Self::Home { home, moves }) => {
                migrate::at_home(*home, moves, context, *to, out)?
            }
            (E::Migrate { home: to }, Self::Away(away)) => migrate::away(away, context, *to, out)?,
        };
        if let Some(next) = next {
            *self = next;
        }
        Ok(())
    }
}
