//! What is asked on this side alone.

use multigrain_sysv::ipc::{CallId, Caller, Event, Ipc, Process, Reply, Request};

const NO_CALL: CallId = CallId { site: 9, number: 0 };

/// What root is answered here.
pub(crate) fn query(ipc: &mut Ipc, request: Request) -> Reply {
    let process = Process { site: NO_CALL.site, pid: 1 };
    let caller = Caller { process, uid: 0, gid: 0, groups: Vec::new(), privileged: true, now: 1 };
    let mut events = Vec::new();
    ipc.call(NO_CALL, &caller, request, &mut events);
    let Some(Event::Reply(_, reply)) = events.pop() else { panic!("a query is answered") };
    reply
}

/// Senders who are woken together race in the kernel, and so do all who ask again after `IPC_SET`: a receiver may
/// get a message before it learns that its right to read is gone.
pub(crate) fn is_race<'a>(
    ipc: &Ipc,
    waits: impl Iterator<Item = &'a (CallId, Request)>,
    caller: &Caller,
    request: &Request,
) -> bool {
    let (queue, sets) = if let Request::MsgReceive { id, .. } = request {
        (*id, false)
    } else if let Request::MsgSet { id, .. } = request {
        (*id, true)
    } else {
        return false;
    };
    let mut senders = Vec::new();
    let mut receivers = 0;
    for waits in waits {
        match waits {
            (call, Request::MsgSend { id, bytes, .. }) if *id == queue => {
                senders.push((*call, bytes.len() as u64));
            }
            (_, Request::MsgReceive { id, .. }) if *id == queue => receivers += 1,
            (..) => {}
        }
    }
    // The queue as the senders find it.
    let mut ipc = ipc.clone();
    let mut events = Vec::new();
    for (call, _) in &senders {
        ipc.cancel(*call, libc::EINTR, &mut events);
    }
    ipc.call(NO_CALL, caller, request.clone(), &mut events);
    let Reply::Msg(stat) = query(&mut ipc, Request::MsgStat { id: queue }) else {
        return false;
    };
    let room = stat.most_bytes.saturating_sub(stat.bytes);
    let woken = senders.iter().filter(|(_, bytes)| *bytes <= room);
    let receivers = if sets { receivers } else { 0 };
    woken.count() + receivers > 1
}
