//! Routes the events of a minipage to its engines, and applies what they want done.

use multigrain_types::{Consistency, MinipageId, NodeId};
use smallvec::SmallVec;

use super::{Cell, Violation};
use crate::coherence::{HolderEvent, Illegal, ManagerEvent, Site};
use crate::effect::{Effect, Effects, World};
use crate::hlrc::CopyEvent;
use crate::message::{HlrcMessage, Message, MgsMessage, PageMessage};
use crate::mgs::{ClientEvent, ServerEvent};
#[cfg(feature = "mutants")]
use crate::mutants;
use crate::release::Early;
use crate::sync::SyncError;

/// A node's place in its job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) me: NodeId,
    pub(super) nodes: u16,
}

/// What happens to a minipage on this node.
pub(super) enum Local {
    /// The same under every consistency.
    Any { sequential: HolderEvent, eager: ClientEvent, lazy: CopyEvent },
    /// Only the sequential engines need it.
    Sequential(HolderEvent),
    /// Only the engines of release consistency need it.
    Release { eager: ClientEvent, lazy: CopyEvent },
    /// Only the lazy engine needs it.
    Lazy(CopyEvent),
    /// A message.
    Message(NodeId, Message),
}

/// Messages of the node to itself, in the order sent; a fetch from here has one.
type Own = SmallVec<[Message; 2]>;

/// Runs an event, and the messages of the node to itself that it leads to; true if something this
/// node waited for was acknowledged.
pub(super) fn run(
    place: Place,
    minipage: MinipageId,
    cell: &mut impl Cell,
    first: Local,
    world: &mut impl World,
) -> Result<bool, Violation> {
    let site = Site {
        me: place.me,
        nodes: place.nodes,
        minipage,
        manager: cell.manager(),
        dynamic_after: cell.dynamic_after(),
        tracked: cell.tracked(),
    };
    let mut effects = Effects::new();
    let mut own = Own::new();
    let mut acked = false;
    let mut next = Some(first);
    for done in 0.. {
        let Some(local) = next else { break };
        let from = if let Local::Message(from, _) = &local { *from } else { place.me };
        dispatch(&site, cell, local, &mut effects, world)?;
        acked |= apply(&site, cell, from, &mut effects, &mut own, world)?;
        next = own.get(done).map(|message| Local::Message(place.me, *message));
    }
    Ok(acked)
}

fn dispatch(
    site: &Site,
    cell: &mut impl Cell,
    local: Local,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    let me = site.me;
    match (local, cell.consistency()) {
        (
            Local::Any { sequential, .. } | Local::Sequential(sequential),
            Consistency::Sequential,
        ) => hold(site, cell, me, sequential, out),
        (Local::Any { eager, .. } | Local::Release { eager, .. }, Consistency::EagerRelease) => {
            client(site, cell, me, &eager, out)
        }
        (
            Local::Any { lazy, .. } | Local::Release { lazy, .. } | Local::Lazy(lazy),
            Consistency::LazyRelease | Consistency::Auto,
        ) => copy(site, cell, me, &lazy, out),
        // Who frees such memory has released before; the next who writes it has acquired.
        (
            Local::Sequential(HolderEvent::Reclaim),
            Consistency::EagerRelease | Consistency::LazyRelease | Consistency::Auto,
        ) => {
            out.push(Effect::Reclaimed { minipage: site.minipage });
            Ok(())
        }
        // No ack closes a transaction there, and copies come to who asks.
        (
            Local::Sequential(_),
            Consistency::EagerRelease | Consistency::LazyRelease | Consistency::Auto,
        ) => Ok(()),
        (Local::Message(from, Message::Page { body, .. }), Consistency::Sequential) => {
            page(site, cell, from, body, out)
        }
        (Local::Message(from, Message::Mgs { body, .. }), Consistency::EagerRelease) => {
            eager(site, cell, from, body, out)
        }
        (
            Local::Message(from, Message::Hlrc { body, .. }),
            Consistency::LazyRelease | Consistency::Auto,
        ) => lazy(site, cell, from, body, out, world),
        (Local::Release { .. } | Local::Lazy(_), consistency) => {
            let illegal = Illegal { role: "tracker", state: consistency.to_string() };
            Err(refused(me, &"a release", illegal))
        }
        (Local::Message(from, message), consistency) => {
            let state = format!("under {consistency} consistency");
            Err(refused(from, &message, Illegal { role: "minipage", state }))
        }
    }
}

/// Routes a message about a sequentially consistent minipage to the role it is meant for.
fn page(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    message: PageMessage,
    out: &mut Effects,
) -> Result<(), Violation> {
    check_director(site, from, message)?;
    let event = match message {
        PageMessage::Request { kind } => {
            return manage(site, cell, from, ManagerEvent::Fetch(kind), out);
        }
        PageMessage::ReclaimRequest => return manage(site, cell, from, ManagerEvent::Reclaim, out),
        PageMessage::PushRequest => return manage(site, cell, from, ManagerEvent::Push, out),
        PageMessage::InvalidateReply => {
            return manage(site, cell, from, ManagerEvent::InvalidateReply, out);
        }
        PageMessage::Ack => return manage(site, cell, from, ManagerEvent::Ack, out),
        PageMessage::Forward { kind, requester, ack_now, turns } => {
            HolderEvent::Forward { kind, requester, ack_now, turns }
        }
        PageMessage::PushForward { target } => HolderEvent::PushForward { target },
        PageMessage::Reply { kind, attach, ack_now, turns } => {
            HolderEvent::Reply { kind, attach, ack_now, turns }
        }
        PageMessage::PushReply => HolderEvent::PushReply,
        PageMessage::InvalidateRequest => HolderEvent::Invalidate,
        PageMessage::AckNow => HolderEvent::AckNow,
    };
    hold(site, cell, from, event, out)
}

fn hold(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: HolderEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    #[cfg(feature = "mutants")]
    let Some(event) = mutants::told(cell.holder(), event) else { return Ok(()) };
    let result = cell.holder().handle(site, &event, out);
    #[cfg(feature = "mutants")]
    mutants::held(&event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}

/// A holder is directed by its manager alone, and only towards nodes of the job.
fn check_director(site: &Site, from: NodeId, message: PageMessage) -> Result<(), Violation> {
    let towards = match message {
        PageMessage::Forward { requester, .. } => requester,
        PageMessage::PushForward { target } => target,
        PageMessage::InvalidateRequest | PageMessage::AckNow => site.me,
        PageMessage::Request { .. }
        | PageMessage::ReclaimRequest
        | PageMessage::PushRequest
        | PageMessage::Reply { .. }
        | PageMessage::PushReply
        | PageMessage::InvalidateReply
        | PageMessage::Ack => return Ok(()),
    };
    if from == site.manager && towards.0 < site.nodes {
        return Ok(());
    }
    let state = format!("managed by {}, in a job of {} nodes", site.manager, site.nodes);
    Err(refused(from, &message, Illegal { role: "holder", state }))
}

fn manage(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: ManagerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if site.me != site.manager {
        return Err(refused(from, &event, elsewhere("manager", site)));
    }
    #[cfg(feature = "mutants")]
    cell.entry().bend(from, event);
    let result = cell.entry().handle(site, from, event, out);
    #[cfg(feature = "mutants")]
    cell.entry().bend_after(site, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}

/// Routes a message of MGS's Table 5.
#[inline(never)]
fn eager(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    message: MgsMessage,
    out: &mut Effects,
) -> Result<(), Violation> {
    use {ClientEvent as C, MgsMessage as M, ServerEvent as S};
    match message {
        M::ReadRequest => serve(site, cell, from, S::ReadRequest, out),
        M::WriteRequest => serve(site, cell, from, S::WriteRequest, out),
        M::Release => serve(site, cell, from, S::Release, out),
        M::WriteNotify => serve(site, cell, from, S::WriteNotify, out),
        M::Ack => serve(site, cell, from, S::Ack, out),
        M::Diff => serve(site, cell, from, S::Diff, out),
        M::SingleWriterData => serve(site, cell, from, S::SingleWriterData, out),
        M::SingleWriterAck => serve(site, cell, from, S::SingleWriterAck, out),
        M::ReadData => client(site, cell, from, &C::ReadData, out),
        M::WriteData => client(site, cell, from, &C::WriteData, out),
        M::ReleaseAck => client(site, cell, from, &C::ReleaseAck, out),
        M::Invalidate => {
            let flush = cell.tracker().next_flush();
            client(site, cell, from, &C::Invalidate { flush }, out)
        }
        M::SingleWriterInvalidate => client(site, cell, from, &C::SingleWriterInvalidate, out),
        M::SingleWriterGrant => client(site, cell, from, &C::SingleWriterGrant, out),
    }
}

#[inline(never)]
fn client(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: &ClientEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    // A client is directed by the home alone; what its own threads and tracker ask comes from here.
    if from != site.me && from != site.manager {
        return Err(refused(from, event, elsewhere("client", site)));
    }
    #[cfg(feature = "mutants")]
    if cell.client().overlooks(event) {
        return Ok(());
    }
    let result = cell.client().handle(site, event, out);
    #[cfg(feature = "mutants")]
    cell.client().bend_after(site, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}

#[inline(never)]
fn serve(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: ServerEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    if site.me != site.manager {
        return Err(refused(from, &event, elsewhere("server", site)));
    }
    #[cfg(feature = "mutants")]
    let event = cell.server().bend(site, from, event, out);
    let result = cell.server().handle(site, from, event, out);
    #[cfg(feature = "mutants")]
    cell.server().bend_after(site, from, event, out);
    result.map_err(|illegal| refused(from, &event, illegal))
}

/// Routes a message of home-based lazy release consistency.
#[inline(never)]
fn lazy(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    message: HlrcMessage,
    out: &mut Effects,
    world: &mut impl World,
) -> Result<(), Violation> {
    let event = match message {
        HlrcMessage::Fetch { requester, epoch, waits } => {
            if requester.0 >= site.nodes {
                return Err(refused(from, &message, elsewhere("home", site)));
            }
            #[cfg(feature = "mutants")]
            let (epoch, waits) = (mutants::known(epoch), mutants::waited(waits));
            let mut tracker = cell.tracker();
            // It has heard of moves that this node will hear of soon, and may be the home by then.
            if epoch > tracker.log_mut().epoch() {
                let room = tracker.defer(site.minipage, Early::Fetch { requester, waits });
                return if room { Ok(()) } else { Err(refused(from, &message, crowded())) };
            }
            drop(tracker);
            let zero = cell.copy().is_fresh() && world.close_if_zero(site.minipage);
            CopyEvent::Fetch { requester, zero, waits }
        }
        HlrcMessage::Data => CopyEvent::Data { from },
        HlrcMessage::FirstTouch => CopyEvent::FirstTouch,
        HlrcMessage::HomeTransfer => CopyEvent::HomeTransfer,
        HlrcMessage::Diff { writer, flush, epoch } => {
            if writer.0 >= site.nodes {
                return Err(refused(from, &message, elsewhere("home", site)));
            }
            world.buffer_diff(site.minipage);
            let away = cell.copy().home().is_some();
            let mut tracker = cell.tracker();
            // As above: this node will be the home, or will know who is.
            if away && epoch > tracker.log_mut().epoch() {
                #[cfg(feature = "mutants")]
                if mutants::acknowledges_early() {
                    let message = HlrcMessage::DiffAck { flush, count: 1 }.about(site.minipage);
                    out.push(Effect::SendDeferred { to: writer, message });
                    return Ok(());
                }
                let room = tracker.defer(site.minipage, Early::Diff { writer, flush });
                return if room { Ok(()) } else { Err(refused(from, &message, crowded())) };
            }
            CopyEvent::Diff { writer, flush }
        }
        HlrcMessage::DiffAck { flush, count } => CopyEvent::DiffAck { flush, count },
    };
    copy(site, cell, from, &event, out)
}

#[inline(never)]
fn copy(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    event: &CopyEvent,
    out: &mut Effects,
) -> Result<(), Violation> {
    let epoch = cell.tracker().log_mut().epoch();
    #[cfg(feature = "mutants")]
    let before = cell.copy().bend(event);
    let result = cell.copy().handle(site, epoch, event, out);
    #[cfg(feature = "mutants")]
    cell.copy().bend_after(site, before, event, out);
    result.map_err(|illegal| refused(from, event, illegal))
}

/// More came too early than a correct node has to ask for.
fn crowded() -> Illegal {
    Illegal { role: "home", state: "with too much that waits for the next turn".to_owned() }
}

fn elsewhere(role: &'static str, site: &Site) -> Illegal {
    Illegal { role, state: format!("managed by {}, of {} nodes", site.manager, site.nodes) }
}

#[cold]
#[inline(never)]
pub(super) fn refused(from: NodeId, event: &impl core::fmt::Debug, illegal: Illegal) -> Violation {
    Violation::Peer { from, role: illegal.role, state: illegal.state, event: format!("{event:?}") }
}

/// Why a synchronization input was refused.
pub(super) fn refuse(from: NodeId, event: &impl core::fmt::Debug, error: SyncError) -> Violation {
    match error {
        SyncError::Misuse(text) => Violation::Misuse(text),
        SyncError::Limit(text) => Violation::Limit { from, text },
        SyncError::Illegal(state) => {
            refused(from, event, Illegal { role: "synchronization", state })
        }
    }
}

/// Applies the effects of what came from `from` in order; messages to the node itself go to `own`.
/// True if a flush of this node was acknowledged.
fn apply(
    site: &Site,
    cell: &mut impl Cell,
    from: NodeId,
    effects: &mut Effects,
    own: &mut Own,
    world: &mut impl World,
) -> Result<bool, Violation> {
    let mut acked = false;
    for effect in &*effects {
        match *effect {
            Effect::Send { to, message } | Effect::SendDeferred { to, message }
                if to == site.me =>
            {
                own.push(message);
            }
            Effect::Send { to, message } => world.send(to, message),
            Effect::SendDeferred { to, message } => world.send_deferred(to, message),
            Effect::Install { minipage, access } => world.install(minipage, access),
            Effect::InstallZero { minipage, access } => world.install_zero(minipage, access),
            Effect::Protect { minipage, from, to } => world.protect(minipage, from, to),
            Effect::Track { minipage, from } => world.track(minipage, from),
            Effect::Reprotect { minipage, access } => world.reprotect(minipage, access),
            Effect::Wake { thread } => world.wake(thread),
            Effect::Hold { thread, minipage, turns, urgent } => {
                world.hold(thread, minipage, turns, urgent);
            }
            Effect::Reclaimed { minipage } => world.reclaimed(minipage),
            Effect::MakeTwin { minipage } => world.make_twin(minipage),
            Effect::DropTwin { minipage } => world.drop_twin(minipage),
            Effect::Store { minipage } => world.store(minipage),
            Effect::BufferDiff { minipage } => world.buffer_diff(minipage),
            Effect::MergeDiffs { minipage, open } => world.merge_diffs(minipage, open),
            Effect::ForwardDiff { to, message } => world.forward_diff(to, message),
            Effect::Dirty { minipage } => cell.tracker().dirty(minipage),
            Effect::Clean { minipage } => cell.tracker().clean(minipage),
            Effect::Flushed { minipage, flush, awaited, notice } => {
                cell.tracker().flushed(minipage, flush, awaited, notice);
            }
            Effect::Acked { flush, count } => {
                if !cell.tracker().acked(flush, count) {
                    let state = format!("flush {flush} of {}", site.minipage);
                    let illegal = Illegal { role: "tracker", state };
                    return Err(refused(from, &"an acknowledgement", illegal));
                }
                acked = true;
            }
            Effect::Competing { minipage } => world.competing(minipage),
        }
    }
    effects.clear();
    Ok(acked)
}
