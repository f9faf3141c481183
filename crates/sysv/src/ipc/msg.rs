//! Queues of messages: names, rights and limits.

use super::call::{CallId, Caller, Event, Info, MsgStat, Reply};
use super::described::Described;
use super::errno::Errno;
use super::limits::Limits;
use super::msg_queue::{Message, Queue, Receiver, Sender, Wish};
use super::permission::{Permission, READ, WRITE};
use super::registry::{Entry, Registry};
use super::waits::WaitedFor;

/// All queues.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    registry: Registry<Queue>,
}

impl Queues {
    pub(super) fn new() -> Self {
        Self { registry: Registry::new() }
    }

    pub(super) fn get_or_create(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        key: i32,
        flags: i32,
    ) -> Result<Reply, Errno> {
        let id = match self.registry.find(key, flags, caller, |_| true)? {
            Some(id) => id,
            None => {
                let permission = Permission::new(key, flags, caller);
                let queue = Queue::new(limits.queue_bytes, caller.now);
                self.registry.insert(permission, queue, limits.queues)?
            }
        };
        Ok(Reply::Done(id.into()))
    }

    /// `msgsnd`; without an answer, the call waits.
    #[expect(clippy::too_many_arguments, reason = "those of msgsnd, and who calls")]
    pub(super) fn send(
        &mut self,
        limits: &Limits,
        call: CallId,
        caller: &Caller,
        id: i32,
        message: Message,
        flags: i32,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        if message.len() > limits.message_bytes || message.kind < 1 {
            return Err(Errno::INVAL);
        }
        let entry = self.registry.get_mut(id)?;
        entry.permission.allow(caller, WRITE)?;
        let sender = Sender { call, caller: caller.clone(), message };
        let Err(sender) = entry.object.send(sender, caller.now, out) else {
            return Ok(Some(Reply::Done(0)));
        };
        if flags & libc::IPC_NOWAIT != 0 {
            return Err(Errno::AGAIN);
        }
        entry.object.wait_to_send(sender);
        Ok(None)
    }

    /// `msgrcv`; without an answer, the call waits.
    #[expect(clippy::too_many_arguments, reason = "those of msgrcv, and who calls")]
    pub(super) fn receive(
        &mut self,
        limits: &Limits,
        call: CallId,
        caller: &Caller,
        id: i32,
        kind: i64,
        most: u64,
        flags: i32,
        out: &mut Vec<Event>,
    ) -> Result<Option<Reply>, Errno> {
        if i64::try_from(most).is_err() {
            return Err(Errno::INVAL);
        }
        let wait = flags & libc::IPC_NOWAIT == 0;
        let copy = flags & libc::MSG_COPY != 0;
        if copy && (wait || flags & libc::MSG_EXCEPT != 0) {
            return Err(Errno::INVAL);
        }
        let entry = self.registry.get_mut(id)?;
        entry.permission.allow(caller, READ)?;
        let queue = &mut entry.object;
        if copy {
            return queue.copy(kind, most.min(limits.message_bytes), flags).map(Some);
        }
        let wish = Wish::new(kind, most, flags);
        let pid = caller.process.pid;
        let reply = queue.receive(&entry.permission, wish, pid, caller.now, out)?;
        if reply.is_none() {
            if !wait {
                return Err(Errno::NOMSG);
            }
            queue.wait_to_receive(Receiver { call, caller: caller.clone(), wish });
        }
        Ok(reply)
    }

    /// What a call waits for.
    pub(super) fn waited_for(&self, id: i32, call: CallId) -> Option<WaitedFor> {
        let entry = self.registry.get(id).ok()?;
        Some(match entry.object.wanted_kind(call) {
            Some(kind) => WaitedFor::Message { queue: entry.named(), kind },
            None => WaitedFor::Room(entry.named()),
        })
    }

    /// Forgets a call that waits.
    pub(super) fn cancel(&mut self, id: i32, call: CallId) {
        if let Ok(entry) = self.registry.get_mut(id) {
            entry.object.cancel(call);
        }
    }

    pub(super) fn described(&self, id: i32) -> Option<Described> {
        let entry = self.registry.get(id).ok()?;
        Some(Described { key: entry.permission.key, ..Described::default() })
    }

    pub(super) fn stat(&self, caller: &Caller, id: i32) -> Result<Reply, Errno> {
        Ok(Reply::Msg(stat_of(self.registry.readable(id, caller)?)))
    }

    pub(super) fn stat_index(
        &self,
        caller: &Caller,
        index: i32,
        any: bool,
    ) -> Result<Reply, Errno> {
        Ok(Reply::Msg(stat_of(self.registry.readable_at(index, caller, any)?)))
    }

    /// `IPC_SET`, of which `uid`, `gid` and `mode` are one argument.
    pub(super) fn set(
        &mut self,
        limits: &Limits,
        caller: &Caller,
        id: i32,
        (uid, gid, mode): (u32, u32, u32),
        most_bytes: u64,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        let entry = self.registry.control(id, caller)?;
        if most_bytes > limits.queue_bytes && !caller.privileged {
            return Err(Errno::PERM);
        }
        entry.permission.set(uid, gid, mode)?;
        let queue = &mut entry.object;
        queue.most_bytes = most_bytes;
        queue.change_time = caller.now;
        queue.ask_again(&entry.permission, caller.now, out);
        Ok(Reply::Done(0))
    }

    pub(super) fn remove(
        &mut self,
        caller: &Caller,
        id: i32,
        out: &mut Vec<Event>,
    ) -> Result<Reply, Errno> {
        self.registry.control(id, caller)?.object.expel(out);
        self.registry.remove(id);
        Ok(Reply::Done(0))
    }

    pub(super) fn info(&self, limits: &Limits) -> Info {
        Info {
            highest_index: self.registry.highest_index(),
            objects: self.registry.len(),
            contents: self.registry.iter().map(|entry| entry.object.messages()).sum(),
            bytes: self.registry.iter().map(|entry| entry.object.bytes).sum(),
            limits: *limits,
        }
    }
}

fn stat_of(entry: &Entry<Queue>) -> MsgStat {
    let queue = &entry.object;
    MsgStat {
        id: entry.id,
        permission: entry.permission.stat(),
        send_time: queue.send_time,
        receive_time: queue.receive_time,
        change_time: queue.change_time,
        bytes: queue.bytes,
        messages: queue.messages(),
        most_bytes: queue.most_bytes,
        send_pid: queue.send_pid,
        receive_pid: queue.receive_pid,
    }
}
