//! Golden message traces: what a small cluster says and does, line by line, in each situation of
//! Millipage section 3.3 and Figure 3, of MGS Figure 22, of home-based lazy release consistency and
//! of the synchronization calls.

mod cluster;
mod coherence;
mod extensions;
mod grants;
mod hlrc;
mod ids;
mod mgs;
mod refusals;
mod release;
mod sync;
mod tries;
mod wire_numbers;
