//! What both sides have alike.

use multigrain_sysv::ipc::{Info, Limits, Reply, ShmStat};

/// The reply with no more of times than whether they are set, and without what the kernel does not answer.
pub(crate) fn normalized(reply: &Reply) -> Reply {
    let set = |time: i64| i64::from(time != 0);
    match reply.clone() {
        Reply::Shm(stat) => Reply::Shm(ShmStat {
            attach_time: set(stat.attach_time),
            detach_time: set(stat.detach_time),
            change_time: set(stat.change_time),
            ..stat
        }),
        Reply::Sem(mut stat) => {
            stat.operation_time = set(stat.operation_time);
            stat.change_time = set(stat.change_time);
            Reply::Sem(stat)
        }
        Reply::Msg(mut stat) => {
            stat.send_time = set(stat.send_time);
            stat.receive_time = set(stat.receive_time);
            stat.change_time = set(stat.change_time);
            Reply::Msg(stat)
        }
        Reply::Attached { .. } => Reply::Done(0),
        Reply::Created(id) => Reply::Done(id),
        Reply::Info(info) => Reply::Info(Info { limits: Limits::default(), ..info }),
        other @ (Reply::Done(_)
        | Reply::Failed(_)
        | Reply::Values(_)
        | Reply::Message { .. }
        | Reply::Object { .. }) => other,
    }
}
