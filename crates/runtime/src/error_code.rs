//! The codes of `enum mg_error` in `multigrain.h`, fixed for ever; which error has which: `Error::code`.

/// `MG_EINVAL`.
pub const INVALID: i32 = -1;
/// `MG_ENOMEM`.
pub const NO_MEMORY: i32 = -2;
/// `MG_ENOTINIT`.
pub const NOT_INITIALIZED: i32 = -3;
/// `MG_EAGAIN`.
pub const ALREADY_INITIALIZED: i32 = -4;
/// `MG_ENODE`.
pub const NO_NODE: i32 = -5;
/// `MG_ENOTSHARED`.
pub const NOT_SHARED: i32 = -6;
/// `MG_ELIMIT`.
pub const LIMIT: i32 = -7;
/// `MG_EPEER`.
pub const PEER: i32 = -8;
/// `MG_ESYS`.
pub const SYSTEM: i32 = -9;
/// `MG_EPERM`.
pub const NOT_PERMITTED: i32 = -10;
/// `MG_EBUSY`.
pub const BUSY: i32 = -11;
/// `MG_ETIMEDOUT`.
pub const TIMED_OUT: i32 = -12;
/// `MG_EEXIST`.
pub const EXISTS: i32 = -13;
/// `MG_ENOENT`.
pub const NOT_FOUND: i32 = -14;
/// `MG_EACCES`.
pub const DENIED: i32 = -15;
