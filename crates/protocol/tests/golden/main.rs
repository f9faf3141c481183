//! Golden message traces: what a small cluster says and does, line by line, in each situation of
//! Millipage section 3.3 and Figure 3 and of the synchronization calls.

mod cluster;
mod coherence;
mod extensions;
mod refusals;
mod sync;
