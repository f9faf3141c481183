//! Two meshes under schedules of shuttle: threads that send to each other through full sockets.
//!
//! What is asked of every schedule: every frame arrives once, whole, in its sender's order, and no
//! receiver sleeps while there is something to receive or to flush (that ends as a deadlock).
//! `MULTIGRAIN_SCHEDULES` sets the number of schedules of each test.
#![expect(unsafe_code, reason = "sends raw memory, as the runtime does")]

use crate::frame_header::Header;
use crate::mesh::Mesh;
use crate::outbox::Payload;
use crate::pair::pair;
use crate::sink::{Destination, LostReason, Sink};
use crate::timeout::Timeout;
use multigrain_types::NodeId;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Runner, thread};
use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Schedules of a test, of each scheduler, when nothing else is said.
const SCHEDULES: usize = 100;
const PCT_DEPTH: usize = 3;
/// Bytes of a sending buffer, about: a few frames.
const ROOM: usize = 4096;
const SENDERS: u32 = 2;
const FRAMES: u64 = 6;
/// Frames that the receiving thread itself defers once it has all of the senders.
const DEFERRED: u64 = 2;
/// Frames to each node, from the senders and in all.
const SENT: usize = 12;
const ALL: usize = 14;

/// More than a sending buffer: it goes in pieces.
static PAGE: [u8; 9000] = [7; 9000];

fn explore(wake_when_taken: bool) {
    let schedules = env::var("MULTIGRAIN_SCHEDULES").map_or(SCHEDULES, |text| {
        text.parse().expect("MULTIGRAIN_SCHEDULES is a number of schedules")
    });
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    let queued = Arc::new(AtomicU64::new(0));
    let play = || {
        let queued = Arc::clone(&queued);
        move || _ = queued.fetch_add(crossfire(wake_when_taken), Ordering::Relaxed)
    };
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(play());
    Runner::new(PctScheduler::new(PCT_DEPTH, schedules), config).run(play());
    let queued = queued.load(Ordering::Relaxed);
    assert!(queued > 0, "the sockets took everything: no queue was tested");
}

/// Both nodes of a job, and how many frames each has received.
struct Job {
    meshes: [Mesh; 2],
    received: [AtomicUsize; 2],
}

impl Job {
    fn is_done(&self) -> bool {
        self.received.iter().all(|received| received.load(Ordering::Relaxed) == ALL)
    }

    /// A thread of node `me`: frames of every size, some of which are deferred.
    fn send(&self, me: usize, thread: u32) {
        let (mesh, to) = (&self.meshes[me], other(me));
        for subject in 0..FRAMES {
            let header = Header { kind: 7, thread, subject, ..Header::default() };
            let sent = match (u64::from(thread) + subject) % 5 {
                0 => mesh.defer(to, header),
                1 => mesh.send_bytes(to, header, &[1; 40]),
                2 => mesh.send_bytes(to, header, &[]),
                4 => mesh.defer_with(to, header, |out| out.extend([2; 50])).map(|_| ()),
                _ => {
                    let page = Payload::Memory { ptr: PAGE.as_ptr(), len: PAGE.len() };
                    // SAFETY: a constant of the program stays as it is.
                    unsafe { mesh.send(to, header, page) }
                }
            };
            sent.unwrap();
        }
        mesh.flush_deferred();
    }

    /// The receiving thread of node `me`.
    fn receive(&self, me: usize) {
        let mut log = Log { next: BTreeMap::new(), received: &self.received[me] };
        let mut deferred = 0;
        while !self.is_done() {
            while deferred < DEFERRED && self.received[me].load(Ordering::Relaxed) >= SENT {
                let header =
                    Header { kind: 7, thread: SENDERS, subject: deferred, ..Header::default() };
                self.meshes[me].defer(other(me), header).unwrap();
                deferred += 1;
            }
            self.meshes[me].receive(&mut log, Timeout::Forever);
        }
        self.meshes[other(me).index()].wake();
    }
}

fn other(me: usize) -> NodeId {
    NodeId(if me == 0 { 1 } else { 0 })
}

struct Log<'a> {
    /// The next frame of each sender.
    next: BTreeMap<u32, u64>,
    received: &'a AtomicUsize,
}

// SAFETY: it names no place.
unsafe impl Sink for Log<'_> {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        let next = self.next.entry(header.thread).or_default();
        assert_eq!(header.subject, *next, "frames of sender {}", header.thread);
        *next += 1;
        let expected = match (u64::from(header.thread) + header.subject) % 5 {
            _ if header.thread == SENDERS => Vec::new(),
            0 | 2 => Vec::new(),
            1 => vec![1; 40],
            4 => vec![2; 50],
            _ => PAGE.to_vec(),
        };
        assert_eq!(body.unwrap_or_default(), expected);
        self.received.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        panic!("{reason}");
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

/// One schedule; the number of frames that had to wait for a socket.
fn crossfire(wake_when_taken: bool) -> u64 {
    let job = Arc::new(Job { meshes: pair(Some(ROOM)), received: Default::default() });
    let mut threads = Vec::new();
    for me in 0..2 {
        if wake_when_taken {
            job.meshes[me].wake_when_taken().unwrap();
        }
        let ours = Arc::clone(&job);
        threads.push(thread::spawn(move || ours.receive(me)));
        for sender in 0..SENDERS {
            let ours = Arc::clone(&job);
            threads.push(thread::spawn(move || ours.send(me, sender)));
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    job.meshes.iter().map(|mesh| mesh.counters().frames_queued).sum()
}

#[test]
fn nodes_that_fill_each_others_sockets_receive_every_frame_in_order() {
    explore(false);
}

#[test]
fn so_do_nodes_that_wake_when_it_is_taken() {
    explore(true);
}
