//! Programs that use System V shared memory, semaphores and message queues, or POSIX shared memory and named semaphores, and
//! know nothing of this library, over several machines (MIRAGE+; ADR 55).
//!
//! Role: [`site`] is the process of a node that runs such a program: it is a node of the job, and processes attach to its
//! segments. [`ipc`] is what the calls mean, as a state machine that site 0 has.

pub mod ipc;
pub mod site;
