//! Seeded faults of the client: see [`crate::mutants`].

use super::{Client, ClientEvent, Page};
use crate::coherence::Site;
use crate::effect::{Effect, Effects};
use crate::message::{Message, MgsMessage};
use crate::mutants::{Mutant, chosen, on};

impl Client {
    /// Whether an event is not noticed at all.
    pub(crate) fn overlooks(&self, event: &ClientEvent) -> bool {
        on(Mutant::ReleaseSkipsPage)
            && matches!((event, &self.page), (ClientEvent::Release { .. }, Page::Dirty))
    }

    /// After the honest step.
    pub(crate) fn bend_after(&mut self, site: &Site, event: &ClientEvent, out: &mut Effects) {
        use ClientEvent as E;
        let away = site.me != site.manager;
        match (chosen(), event) {
            (Some(Mutant::DiffForgotten), E::Invalidate { .. }) => {
                for effect in out.iter_mut() {
                    if let Some(body) = sent(effect)
                        && *body == MgsMessage::Diff
                    {
                        *body = MgsMessage::Ack;
                    }
                }
            }
            (Some(Mutant::UnreleasedWithoutRelease), E::Invalidate { .. }) => {
                let count = out.len();
                out.retain(|effect| {
                    let release = matches!(sent(effect), Some(MgsMessage::Release));
                    !release && !matches!(effect, Effect::Flushed { .. })
                });
                if out.len() < count {
                    self.releasing.pop();
                }
            }
            (Some(Mutant::SingleWriterWithoutTwin), E::SingleWriterGrant) if away => {
                out.push(Effect::DropTwin { minipage: site.minipage });
            }
            (Some(Mutant::KeeperWritesOn), E::SingleWriterInvalidate) => {
                out.retain(|effect| !matches!(effect, Effect::Protect { .. }));
            }
            _ => {}
        }
    }
}

fn sent(effect: &mut Effect) -> Option<&mut MgsMessage> {
    let Effect::Send { message: Message::Mgs { body, .. }, .. } = effect else { return None };
    Some(body)
}
