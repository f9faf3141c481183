//! What arrives: the mesh asks here where a payload goes and hands over each frame.

#![expect(unsafe_code, reason = "the sink vouches for the places it names")]

use multigrain_memory::diff;
use multigrain_protocol::{Attach, Cell, Engine, HlrcMessage, Message, MgsMessage, PageMessage};
use multigrain_transport::{Header, LostReason, Place, Sink};
use multigrain_types::{Access, MinipageId, NodeId};

use super::Driver;
use crate::frames::words_of;

/// The receiving side of a node.
pub(crate) struct NodeSink<'a> {
    driver: &'a Driver,
    /// What a payload was placed for last: it need not be read twice.
    placed: Option<(Header, Message)>,
}

impl<'a> NodeSink<'a> {
    pub(crate) fn new(driver: &'a Driver) -> Self {
        Self { driver, placed: None }
    }

    /// The protocol message of a frame, its minipage checked; `None` for the runtime's own frames.
    fn message(&mut self, from: NodeId, header: &Header) -> Result<Option<Message>, String> {
        if let Some((_, message)) = self.placed.take_if(|(of, _)| of == header) {
            return Ok(Some(message));
        }
        if header.kind >= 64 {
            return Ok(None);
        }
        let message = Message::from_words(&words_of(header)).map_err(|error| error.to_string())?;
        if let Some(minipage) = message.minipage()
            && !self.driver.tables().knows(minipage)
        {
            return Err(format!("{minipage} does not exist"));
        }
        if let Message::Page { minipage, body: PageMessage::ReclaimRequest } = message
            && let area = self.driver.tables().area(minipage.area())
            && area.is_none_or(|area| area.record.owner != from)
        {
            return Err(format!("{minipage} is not its own, to take back"));
        }
        Ok(Some(message))
    }

    fn place_page(
        &self,
        from: NodeId,
        message: Message,
        minipage: MinipageId,
        payload: u64,
    ) -> Result<Place, String> {
        self.driver.retiring.arrives(from, minipage.area());
        let (place, bytes) = self.driver.memory().privileged(minipage);
        if payload != bytes as u64 {
            return Err(format!("{payload} bytes for {minipage} of {bytes}"));
        }
        if !self.may_receive(from, message, minipage) {
            return Err(format!("contents of {minipage}, which is in use here"));
        }
        Ok(Place::At(place))
    }

    /// Whether the minipage's bytes may come in with this message: no thread of this node has
    /// access, and they are awaited.
    fn may_receive(&self, from: NodeId, message: Message, minipage: MinipageId) -> bool {
        let mut cell = self.driver.tables().lock(minipage);
        match (message, Engine::of(cell.consistency())) {
            (Message::Page { .. }, Engine::Sequential) => cell.holder().may_receive(),
            (Message::Mgs { body: MgsMessage::SingleWriterData, .. }, Engine::Eager) => {
                let home = cell.manager() == self.driver.me();
                home && cell.client().access() == Access::NoAccess
                    && cell.server().may_receive(from)
            }
            (Message::Mgs { .. }, Engine::Eager) => cell.client().may_receive(),
            (
                Message::Hlrc { body: HlrcMessage::Data | HlrcMessage::HomeTransfer, .. },
                Engine::Lazy,
            ) => cell.copy().may_receive(),
            (
                Message::Page { .. } | Message::Mgs { .. } | Message::Hlrc { .. },
                Engine::Sequential | Engine::Eager | Engine::Lazy,
            )
            | (Message::Sync { .. }, _) => false,
        }
    }
}

// SAFETY: pages are placed in the privileged view, which stays mapped for the life of the process
// and is only ever reached by pointer; `place_page` has checked length and state.
unsafe impl Sink for NodeSink<'_> {
    fn place(&mut self, from: NodeId, header: &Header) -> Result<Place, String> {
        let Some(message) = self.message(from, header)? else { return Ok(Place::Buffer) };
        match (message.attach(), message.minipage()) {
            (Attach::Page, Some(minipage)) => {
                let place = self.place_page(from, message, minipage, header.payload);
                self.placed = Some((*header, message));
                #[cfg(feature = "mutants")]
                let place = place.map(crate::engine::mutants::detour);
                place
            }
            (Attach::Diff, Some(minipage)) => {
                let (_, len) = self.driver.memory().privileged(minipage);
                if header.payload > diff::most_bytes(len) as u64 {
                    let bytes = header.payload;
                    return Err(format!("a diff of {bytes} bytes for {minipage} of {len}"));
                }
                Ok(Place::Buffer)
            }
            // Write notices come with it.
            (Attach::Nothing, None) => Ok(Place::Buffer),
            (Attach::Nothing, Some(_)) | (Attach::Page | Attach::Diff, None) => {
                Err(format!("{message:?} carries {} bytes", header.payload))
            }
        }
    }

    fn frame(&mut self, from: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        self.driver.retiring.arrived(from);
        self.driver.finish_retiring();
        match self.message(from, header)? {
            Some(message) => {
                if message.attach() == Attach::Page && header.payload == 0 {
                    return Err(format!("{message:?} without its page"));
                }
                if let (Message::Sync { .. }, Some(notices)) = (message, body)
                    && !self.driver.receive_notices(from, notices)
                {
                    return Err(format!("{message:?} with write notices that make no sense"));
                }
                let diff = match message.attach() {
                    Attach::Diff => Some(body.unwrap_or_default()),
                    Attach::Nothing | Attach::Page => {
                        #[cfg(feature = "mutants")]
                        crate::engine::mutants::arrive(self.driver.platform(), message, body);
                        None
                    }
                };
                self.driver.engine.step_received(from, message, diff);
                Ok(())
            }
            None => self.driver.serve_request(from, header, body.unwrap_or_default()),
        }
    }

    fn lost(&mut self, from: NodeId, reason: LostReason) {
        self.driver.retiring.arrived(from);
        self.driver.lost(from, &reason);
    }

    fn refused(&mut self, line: String) {
        self.driver.platform().launcher().refused(&line);
    }
}
