//! One queue of messages, and who waits to send or to receive.
//!
//! A message goes to a receiver who waits for it without coming into the queue. Senders who wait for room are tried
//! again whenever a message leaves: those it is enough for in the order of the queue; the others go to its end.

use std::collections::VecDeque;

use super::call::{CallId, Caller, Event, Reply};
use super::errno::Errno;
use super::permission::{Permission, READ, WRITE};

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) kind: i64,
    pub(super) bytes: Vec<u8>,
}

/// Which message a receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// The first.
    Any,
    /// The first of this type.
    Only(i64),
    /// The first that is not of this type.
    Except(i64),
    /// The first of the lowest type, which is at most this.
    UpTo(i64),
}

/// What a `msgrcv` asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    selection: Selection,
    most: u64,
    /// `MSG_NOERROR`: a longer message is cut off.
    cut: bool,
}

/// A `msgsnd` that waits for room.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) call: CallId,
    pub(super) caller: Caller,
    pub(super) message: Message,
}

/// A `msgrcv` that waits for a message.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) call: CallId,
    pub(super) caller: Caller,
    pub(super) wish: Wish,
}

/// One queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    messages: VecDeque<Message>,
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
    senders: VecDeque<Sender>,
    receivers: VecDeque<Receiver>,
    pub(super) send_time: i64,
    pub(super) receive_time: i64,
    pub(super) change_time: i64,
    pub(super) send_pid: i32,
    pub(super) receive_pid: i32,
}

impl Queue {
    pub(super) fn new(most_bytes: u64, now: i64) -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            most_bytes,
            senders: VecDeque::new(),
            receivers: VecDeque::new(),
            send_time: 0,
            receive_time: 0,
            change_time: now,
            send_pid: 0,
            receive_pid: 0,
        }
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Sends the message if there is room; else hands it back.
    pub(super) fn send(
        &mut self,
        sender: Sender,
        now: i64,
        out: &mut Vec<Event>,
    ) -> Result<(), Sender> {
        if !self.has_room(&sender.message) {
            return Err(sender);
        }
        self.send_pid = sender.caller.process.pid;
        self.send_time = now;
        if let Some(message) = self.hand_over(sender.message, now, out) {
            self.bytes += message.len();
            self.messages.push_back(message);
        }
        Ok(())
    }

    /// Gives the message to the first who waits for it; who asked for fewer bytes has waited in vain.
    fn hand_over(&mut self, message: Message, now: i64, out: &mut Vec<Event>) -> Option<Message> {
        let wants = |receiver: &Receiver| receiver.wish.selection.takes(message.kind);
        while let Some(index) = self.receivers.iter().position(wants) {
            let receiver = self.receivers.remove(index)?;
            if receiver.wish.fits(&message) {
                self.receive_pid = receiver.caller.process.pid;
                self.receive_time = now;
                out.push(Event::Reply(receiver.call, receiver.wish.reply(message)));
                return None;
            }
            out.push(failed(receiver.call, Errno::TOO_BIG));
        }
        Some(message)
    }

    pub(super) fn wait_to_send(&mut self, sender: Sender) {
        self.senders.push_back(sender);
    }

    pub(super) fn wait_to_receive(&mut self, receiver: Receiver) {
        self.receivers.push_back(receiver);
    }

    /// Takes the message that is wished for; none if there is none.
    pub(super) fn receive(
        &mut self,
        permission: &Permission,
        wish: Wish,
        pid: i32,
        now: i64,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        let Some(index) = wish.selection.find(&self.messages) else {
            return Ok(None);
        };
        if !wish.fits(&self.messages[index]) {
            return Err(Errno::TOO_BIG);
        }
        let Some(message) = self.messages.remove(index) else {
            return Ok(None);
        };
        self.bytes -= message.len();
        self.receive_pid = pid;
        self.receive_time = now;
        self.wake_senders(permission, now, out);
        Ok(Some(wish.reply(message)))
    }

    /// `MSG_COPY`: the message at an index, which stays. The kernel copies whole messages only.
    pub(super) fn copy(&self, index: i64, most: u64, flags: i32) -> Result<Reply, Errno> {
        let index = usize::try_from(index).map_err(|_| Errno::NOMSG)?;
        let message = self.messages.get(index).ok_or(Errno::NOMSG)?;
        if message.len() > most {
            let cut = flags & libc::MSG_NOERROR != 0;
            return Err(if cut { Errno::INVAL } else { Errno::TOO_BIG });
        }
        Ok(Reply::Message { kind: message.kind, bytes: message.bytes.clone() })
    }

    /// After `IPC_SET`: all who wait ask anew, as rights and room may have changed.
    pub(super) fn ask_again(&mut self, permission: &Permission, now: i64, out: &mut Vec<Event>) {
        self.receivers.retain(|receiver| {
            let allowed = permission.allow(&receiver.caller, READ);
            if let Err(errno) = allowed {
                out.push(failed(receiver.call, errno));
            }
            allowed.is_ok()
        });
        self.wake_senders(permission, now, out);
    }

    fn wake_senders(&mut self, permission: &Permission, now: i64, out: &mut Vec<Event>) {
        let senders = core::mem::take(&mut self.senders);
        let (woken, others): (Vec<Sender>, Vec<Sender>) =
            senders.into_iter().partition(|sender| self.has_room(&sender.message));
        self.senders = others.into();
        for sender in woken {
            let call = sender.call;
            if let Err(errno) = permission.allow(&sender.caller, WRITE) {
                out.push(failed(call, errno));
                continue;
            }
            match self.send(sender, now, out) {
                Ok(()) => out.push(Event::Reply(call, Reply::Done(0))),
                Err(sender) => self.senders.push_back(sender),
            }
        }
    }

    /// The type that a msgrcv has asked for which waits; none of a call that waits for room.
    pub(super) fn wanted_kind(&self, call: CallId) -> Option<i64> {
        let receiver = self.receivers.iter().find(|receiver| receiver.call == call)?;
        Some(match receiver.wish.selection {
            Selection::Any => 0,
            Selection::Only(kind) | Selection::Except(kind) => kind,
            Selection::UpTo(highest) => highest.saturating_neg(),
        })
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, call: CallId) {
        self.senders.retain(|sender| sender.call != call);
        self.receivers.retain(|receiver| receiver.call != call);
    }

    /// Fails all who wait, of a queue that is removed.
    pub(super) fn expel(&mut self, out: &mut Vec<Event>) {
        for receiver in self.receivers.drain(..) {
            out.push(failed(receiver.call, Errno::IDRM));
        }
        for sender in self.senders.drain(..) {
            out.push(failed(sender.call, Errno::IDRM));
        }
    }

    /// Room is for bytes and, as messages may have none, for as many messages.
    fn has_room(&self, message: &Message) -> bool {
        self.bytes + message.len() <= self.most_bytes && self.messages() < self.most_bytes
    }
}

impl Message {
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Wish {
    pub(super) fn new(kind: i64, most: u64, flags: i32) -> Self {
        let selection = match kind {
            0 => Selection::Any,
            ..0 => Selection::UpTo(kind.checked_neg().unwrap_or(i64::MAX)),
            1.. if flags & libc::MSG_EXCEPT != 0 => Selection::Except(kind),
            1.. => Selection::Only(kind),
        };
        Self { selection, most, cut: flags & libc::MSG_NOERROR != 0 }
    }

    fn fits(&self, message: &Message) -> bool {
        self.cut || message.len() <= self.most
    }

    fn reply(&self, message: Message) -> Reply {
        let Message { kind, mut bytes } = message;
        bytes.truncate(usize::try_from(self.most).unwrap_or(usize::MAX));
        Reply::Message { kind, bytes }
    }
}

impl Selection {
    fn takes(self, kind: i64) -> bool {
        match self {
            Self::Any => true,
            Self::Only(wanted) => kind == wanted,
            Self::Except(unwanted) => kind != unwanted,
            Self::UpTo(highest) => kind <= highest,
        }
    }

    fn find(self, messages: &VecDeque<Message>) -> Option<usize> {
        let mut fit = messages.iter().enumerate().filter(|(_, message)| self.takes(message.kind));
        let found = match self {
            // Of equal types the first: min_by_key has it so.
            Self::UpTo(_) => fit.min_by_key(|(_, message)| message.kind),
            Self::Any | Self::Only(_) | Self::Except(_) => fit.next(),
        };
        found.map(|(index, _)| index)
    }
}

fn failed(call: CallId, Errno(errno): Errno) -> Event {
    Event::Reply(call, Reply::Failed(errno))
}
