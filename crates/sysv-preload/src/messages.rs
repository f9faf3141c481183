//! Message queues: msgget, msgsnd, msgrcv, msgctl.

use core::ffi::{c_int, c_long, c_void};
use core::mem::size_of;

use multigrain_types::sysv::{Ask, MOST_BEHIND};

use crate::cancellation;
use crate::datagrams::Bytes;
use crate::site_connection::{ask, exchange, exchange_at_point};
use crate::waits::Wait;
use crate::{failed, returned};

/// msgget(2).
#[unsafe(no_mangle)]
pub extern "C" fn msgget(key: libc::key_t, flags: c_int) -> c_int {
    returned(ask(Ask::MsgGet, [key.into(), flags.into(), 0, 0], Bytes::NONE))
}

/// msgsnd(2).
///
/// # Safety
/// As the system call: a long and `bytes` behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msgsnd(
    id: c_int,
    message: *const c_void,
    bytes: usize,
    flags: c_int,
) -> c_int {
    if bytes > MOST_BEHIND || id < 0 {
        return failed(libc::EINVAL);
    }
    let both = (Bytes(message.cast_mut(), size_of::<c_long>() + bytes), Bytes::NONE);
    let arguments = [id.into(), flags.into(), 0, 0];
    loop {
        cancellation::point();
        match exchange_at_point(Ask::MsgSend, arguments, both, Wait::Event(None)) {
            Err(cancellation::ENDED) => {}
            answered => return returned(answered.map(|it| it.result)),
        }
    }
}

/// msgrcv(2).
///
/// # Safety
/// As the system call: room for a long and `bytes` behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msgrcv(
    id: c_int,
    message: *mut c_void,
    bytes: usize,
    kind: c_long,
    flags: c_int,
) -> isize {
    let Ok(most) = i64::try_from(bytes) else {
        return failed(libc::EINVAL) as isize;
    };
    let both = (Bytes::NONE, Bytes(message, size_of::<c_long>() + bytes.min(MOST_BEHIND)));
    let arguments = [id.into(), most, kind, flags.into()];
    loop {
        cancellation::point();
        match exchange_at_point(Ask::MsgReceive, arguments, both, Wait::Event(None)) {
            Ok(answered) => return isize::try_from(answered.result).unwrap_or(0),
            Err(cancellation::ENDED) => {}
            Err(errno) => return failed(errno) as isize,
        }
    }
}

/// msgctl(2).
///
/// # Safety
/// As the system call: `about` is what the command wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msgctl(id: c_int, command: c_int, about: *mut libc::msqid_ds) -> c_int {
    let about = Bytes::of(about);
    let both = match command {
        libc::IPC_SET => (about, Bytes::NONE),
        libc::IPC_STAT | MSG_STAT | MSG_STAT_ANY | IPC_INFO | MSG_INFO => (Bytes::NONE, about),
        _ => (Bytes::NONE, Bytes::NONE),
    };
    let arguments = [id.into(), command.into(), 0, 0];
    returned(exchange(Ask::MsgControl, arguments, both, -1, Wait::Answer).map(|it| it.result))
}

const IPC_INFO: c_int = 3;
const MSG_STAT: c_int = 11;
const MSG_INFO: c_int = 12;
const MSG_STAT_ANY: c_int = 13;
