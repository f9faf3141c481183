//! What arrives: the mesh asks here where a payload goes, and hands over each frame.

#![expect(unsafe_code, reason = "the sink vouches for the places it names")]

use multigrain_memory::diff;
use multigrain_protocol::{
    Attach, Cell, EngineKind, HlrcMessage, Message, MgsMessage, PageMessage,
};
use multigrain_transport::{Destination, Header, LostReason, Sink};
use multigrain_types::{Access, Compression, MinipageId, NodeId};

use super::Driver;
use crate::compression::{LONGEST, SegmentContents, limit};
use crate::frames::{COMPRESSED, FIRST_OWN, message_of};
use crate::minipage_run::Run;
use crate::platform::Contents;

/// A message, and the minipages it is about if it is about any.
type Received = (Message, Option<Run>);

/// The receiving side of a node.
pub(crate) struct NodeSink<'a> {
    driver: &'a Driver,
    /// What a payload was placed for last: it need not be decoded twice.
    placed: Option<(Header, Received)>,
}

impl<'a> NodeSink<'a> {
    pub(crate) fn new(driver: &'a Driver) -> Self {
        Self { driver, placed: None }
    }

    /// The protocol message of a frame, its minipages checked; `None` for the runtime's own frames.
    fn message(&mut self, from: NodeId, header: &Header) -> Result<Option<Received>, String> {
        if let Some((_, message)) = self.placed.take_if(|(of, _)| of == header) {
            return Ok(Some(message));
        }
        if header.kind >= FIRST_OWN {
            return Ok(None);
        }
        let (message, run) = message_of(header)?;
        if let Some(run) = run
            && !self.driver.tables().knows_run(run)
        {
            let (first, count) = (run.first(), run.count());
            return Err(match count {
                1 => format!("{first} does not exist"),
                _ => format!("{count} minipages from {first} on do not exist"),
            });
        }
        if let Message::Page { minipage, body: PageMessage::ReclaimRequest } = message
            && let area = self.driver.tables().area(minipage.area())
            && area.is_none_or(|area| area.record.owner != from)
        {
            return Err(format!("{minipage} is not its own, to take back"));
        }
        Ok(Some((message, run)))
    }

    fn place_contents(
        &self,
        from: NodeId,
        message: Message,
        run: Run,
        header: &Header,
    ) -> Result<Destination, String> {
        self.driver.retiring.arrives(from, run.first().area());
        let contents = self.driver.platform().contents(run);
        let (first, bytes, payload) = (run.first(), contents.bytes(), header.payload);
        let is_compressed = header.flags & COMPRESSED != 0;
        if is_compressed && (bytes > LONGEST || payload > limit(bytes) as u64) {
            return Err(format!("{payload} bytes of compressed contents for {first} of {bytes}"));
        }
        if is_compressed && self.codec(run) == Compression::None {
            return Err(format!("compressed contents of {first}, whose memory has no compression"));
        }
        if !is_compressed && payload != bytes as u64 {
            return Err(format!("{payload} bytes for {first} of {bytes}"));
        }
        self.check_awaited(from, message, run)?;
        if is_compressed {
            return Ok(Destination::Buffer);
        }
        Ok(match contents {
            Contents::Together(place, _) => Destination::At(place),
            Contents::Apart(_) => Destination::Buffer,
        })
    }

    /// The contents of these minipages may come in with this message.
    fn check_awaited(&self, from: NodeId, message: Message, run: Run) -> Result<(), String> {
        for minipage in run.minipages() {
            if !self.may_receive(from, message, minipage) {
                return Err(format!("contents of {minipage}, which is in use here"));
            }
        }
        Ok(())
    }

    /// What comes with a message is here, in its place or in `body`.
    fn receive_contents(
        &self,
        from: NodeId,
        message: Message,
        run: Run,
        header: &Header,
        body: Option<&[u8]>,
    ) -> Result<(), String> {
        let sequential = matches!(message, Message::Page { .. });
        let compressed = header.flags & COMPRESSED != 0;
        let scattered = header.payload == 0 || (body.is_some() && run.count() > 1);
        if header.payload == 0 && !sequential && !compressed {
            return Err(format!("{message:?} without its page"));
        }
        if compressed || scattered {
            // Other nodes may have supplied it since the header came.
            self.check_awaited(from, message, run)?;
        }
        if compressed {
            return self.unpack(run, body.unwrap_or_default());
        }
        if scattered {
            // Zeros are not sent.
            self.scatter(run, body);
        }
        Ok(())
    }

    /// How contents of these minipages may be compressed.
    fn codec(&self, run: Run) -> Compression {
        let segment = self.driver.tables().contents(run.first().area());
        segment.map(SegmentContents::codec).unwrap_or_default()
    }

    /// Puts compressed contents where they belong.
    fn unpack(&self, run: Run, body: &[u8]) -> Result<(), String> {
        let platform = self.driver.platform();
        let (first, bytes) = (run.first(), platform.contents(run).bytes());
        let codec = self.codec(run);
        let mut coder = platform.coders().lend();
        let contents = coder.decode(codec, body, bytes).ok_or_else(|| {
            let packed = body.len();
            format!("{packed} bytes that are not the {bytes} of {first} by {codec:?}")
        })?;
        self.scatter(run, Some(contents));
        Ok(())
    }

    /// Puts what has no place together where it belongs: the contents of all minipages, or zeros.
    fn scatter(&self, run: Run, body: Option<&[u8]>) {
        let mut rest = body.unwrap_or_default();
        for minipage in run.minipages() {
            let (place, len) = self.driver.memory().privileged(minipage);
            let (own, behind) = rest.split_at(len.min(rest.len()));
            // SAFETY: the privileged view is writable for the length of the minipage; `own` is not longer.
            unsafe { core::ptr::copy_nonoverlapping(own.as_ptr(), place, own.len()) };
            // SAFETY: as above; these are the bytes behind them.
            unsafe { core::ptr::write_bytes(place.wrapping_add(own.len()), 0, len - own.len()) };
            rest = behind;
        }
    }

    /// Whether the minipage's bytes may come in with this message: no thread of this node has
    /// access, and they are awaited.
    fn may_receive(&self, from: NodeId, message: Message, minipage: MinipageId) -> bool {
        let mut cell = self.driver.tables().lock(minipage);
        match (message, EngineKind::of(cell.consistency())) {
            (Message::Page { .. }, EngineKind::Sequential) => cell.holder().may_receive(),
            (Message::Mgs { body: MgsMessage::SingleWriterData, .. }, EngineKind::Eager) => {
                let home = cell.manager() == self.driver.me();
                home && cell.client().access() == Access::NoAccess
                    && cell.server().may_receive(from)
            }
            (Message::Mgs { .. }, EngineKind::Eager) => cell.client().may_receive(),
            (
                Message::Hlrc { body: HlrcMessage::Data | HlrcMessage::HomeTransfer, .. },
                EngineKind::Lazy,
            ) => cell.copy().may_receive(),
            (
                Message::Page { .. } | Message::Mgs { .. } | Message::Hlrc { .. },
                EngineKind::Sequential | EngineKind::Eager | EngineKind::Lazy,
            )
            | (Message::Sync { .. }, _) => false,
        }
    }
}

// SAFETY: pages are placed in the privileged view, which stays mapped for the life of the process
// and is only ever reached by pointer; `place_contents` has checked the length, and that each minipage
// is awaited, `goes_on` that it still is.
unsafe impl Sink for NodeSink<'_> {
    fn place(&mut self, from: NodeId, header: &Header) -> Result<Destination, String> {
        let Some((message, run)) = self.message(from, header)? else {
            return Ok(Destination::Buffer);
        };
        match (message.attach(), run) {
            (Attach::Page, Some(run)) => {
                let place = self.place_contents(from, message, run, header);
                self.placed = Some((*header, (message, Some(run))));
                #[cfg(feature = "mutants")]
                let place = place.map(crate::engine::mutants::detour);
                place
            }
            (Attach::Diff, Some(run)) => {
                let minipage = run.first();
                let (_, len) = self.driver.memory().privileged(minipage);
                if header.payload > diff::most_bytes(len) as u64 {
                    let bytes = header.payload;
                    return Err(format!("a diff of {bytes} bytes for {minipage} of {len}"));
                }
                self.placed = Some((*header, (message, Some(run))));
                Ok(Destination::Buffer)
            }
            // Write notices come with it.
            (Attach::Nothing, None) => Ok(Destination::Buffer),
            (Attach::Nothing, Some(_)) | (Attach::Page | Attach::Diff, None) => {
                Err(format!("{message:?} carries {} bytes", header.payload))
            }
        }
    }

    fn goes_on(&mut self, from: NodeId, header: &Header) -> Result<(), String> {
        let Some((message, run)) = self.message(from, header)? else { return Ok(()) };
        self.placed = Some((*header, (message, run)));
        #[cfg(feature = "mutants")]
        if multigrain_protocol::mutants::on(
            const { multigrain_protocol::mutants::Mutant::named("payload-kept-open") },
        ) {
            return Ok(());
        }
        run.map_or(Ok(()), |run| self.check_awaited(from, message, run))
    }

    fn frame(&mut self, from: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        let message = self.message(from, header)?;
        if let Some((message, Some(run))) = message
            && message.attach() == Attach::Page
        {
            // Zeros have not been announced: they need no place.
            self.driver.retiring.arrives(from, run.first().area());
            self.receive_contents(from, message, run, header, body)?;
        }
        self.driver.retiring.arrived(from);
        self.driver.finish_retiring();
        match message {
            Some((message, run)) => {
                if let Some(run) = run.filter(|run| run.count() > 1) {
                    self.driver.engine.step_received_run(from, message, run);
                    self.driver.finish_atomics();
                    return Ok(());
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
                        if header.flags & COMPRESSED == 0 {
                            crate::engine::mutants::arrive(self.driver.platform(), message, body);
                        }
                        None
                    }
                };
                self.driver.engine.step_received(from, message, diff);
                self.driver.finish_atomics();
                Ok(())
            }
            None => self.driver.serve_request(from, header, body.unwrap_or_default()),
        }
    }

    fn lost(&mut self, from: NodeId, reason: LostReason) {
        self.driver.retiring.arrived(from);
        self.driver.platform().peer_lost(from, &reason);
    }

    fn refused(&mut self, line: String) {
        self.driver.platform().launcher().refused(&line);
    }
}
