//! Deferred and batched frames: their order, their messages, and the answers that wait for what follows.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::{Header, Mesh, Timeout};
use multigrain_types::NodeId;
use support::{Family, Log, conformance, header, job, send_memory};

conformance! {
    deferred_frames_keep_their_order
    a_batch_is_one_message
    a_long_payload_follows_the_batch
    answers_wait_until_nothing_follows
    a_frame_alone_in_a_batch_goes_as_it_is
}

/// Frame `number`, in one of the ways that there are to send one; its payload's length.
fn send_somehow(mesh: &Mesh, number: usize) -> usize {
    let header = header(1, number as u64);
    let bytes = vec![number as u8; [20, 5000, 300, 90_000][number / 7 % 4]];
    match number % 7 {
        0 | 2 | 6 => {
            let deferred = mesh.defer_with(NodeId(0), header, |out| out.extend(&bytes));
            assert_eq!(deferred, Ok(bytes.len() as u64));
            bytes.len()
        }
        3..=5 => {
            mesh.defer(NodeId(0), header).unwrap();
            0
        }
        _ => {
            mesh.send_bytes(NodeId(0), header, &bytes).unwrap();
            bytes.len()
        }
    }
}

fn deferred_frames_keep_their_order(family: Family) {
    let (meshes, _) = job(family, 2);
    let count = 2000;
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let lengths: Vec<usize> =
                (0..count).map(|number| send_somehow(&meshes[1], number)).collect();
            meshes[1].flush_deferred();
            Log::default().until(&meshes[1], |log| !log.frames.is_empty());
            lengths
        });
        // Before and after the socket is full: what is deferred then has a queue to go behind.
        while meshes[1].counters().frames_queued == 0 {
            std::thread::yield_now();
        }
        let mut log = Log::default();
        log.until(&meshes[0], |log| log.frames.len() == count);
        meshes[0].send_bytes(NodeId(1), header(2, 0), b"").unwrap();
        let lengths = sender.join().unwrap();
        for (number, (_, header, body)) in log.frames.iter().enumerate() {
            assert_eq!((header.subject, body.len()), (number as u64, lengths[number]));
            assert!(body.iter().all(|byte| *byte == number as u8), "frame {number}");
        }
        let sent = meshes[1].counters();
        let payload: usize = lengths.iter().sum();
        // A batch is one message, with a header of its own.
        assert!(sent.frames_batched > 0);
        let batches = sent.frames_sent + sent.frames_batched - count as u64;
        assert_eq!(
            sent.bytes_sent,
            (payload + Header::BYTES * count) as u64 + Header::BYTES as u64 * batches
        );
        let got = meshes[0].counters();
        assert_eq!((got.frames_received, got.bytes_received), (sent.frames_sent, sent.bytes_sent));
    });
}

/// Node 1 defers and sends; what node 0 gets of it. Messages, frames in batches, and bytes.
fn counted(family: Family, frames: usize, talk: impl FnOnce(&Mesh)) -> (Log, (u64, u64, u64)) {
    let (meshes, _) = job(family, 2);
    talk(&meshes[1]);
    let mut log = Log::with_memory(8192);
    log.until(&meshes[0], |log| log.frames.len() == frames);
    let (sent, got) = (meshes[1].counters(), meshes[0].counters());
    assert_eq!((got.frames_received, got.bytes_received), (sent.frames_sent, sent.bytes_sent));
    let subjects: Vec<u64> = log.frames.iter().map(|(_, header, _)| header.subject).collect();
    assert_eq!(subjects, (0..frames as u64).collect::<Vec<_>>());
    (log, (sent.frames_sent, sent.frames_batched, sent.bytes_sent))
}

fn defer_body(mesh: &Mesh, subject: u64) {
    let deferred = mesh.defer_with(NodeId(0), header(1, subject), |out| out.extend(b"body"));
    assert_eq!(deferred, Ok(4));
}

fn a_batch_is_one_message(family: Family) {
    let page = [6; 4096];
    let (log, counts) = counted(family, 6, |mesh| {
        // Deferred while there is no batch: it stays a frame for itself.
        mesh.defer(NodeId(0), header(1, 0)).unwrap();
        defer_body(mesh, 1);
        defer_body(mesh, 2);
        mesh.defer(NodeId(0), header(1, 3)).unwrap();
        send_memory(mesh, 0, Header { flags: 1, ..header(1, 4) }, &page);
        mesh.send_bytes(NodeId(0), header(1, 5), b"").unwrap();
    });
    assert_eq!(counts, (3, 4, 7 * 40 + 2 * 4 + 4096));
    assert!(log.frames[1].2 == b"body" && log.placed[..4096] == page);
}

fn a_long_payload_follows_the_batch(family: Family) {
    let long = vec![6; 4097];
    let (log, counts) = counted(family, 5, |mesh| {
        defer_body(mesh, 0);
        defer_body(mesh, 1);
        send_memory(mesh, 0, Header { flags: 1, ..header(1, 2) }, &long);
        // A batch is full with the first frame that makes it 64 KiB; what comes then begins anew.
        let fill = |out: &mut Vec<u8>| out.extend([7; 65_536]);
        mesh.defer_with(NodeId(0), header(1, 3), fill).unwrap();
        defer_body(mesh, 4);
        mesh.flush_deferred();
    });
    assert_eq!(counts, (4, 2, 6 * 40 + 3 * 4 + 4097 + 65_536));
    assert!(log.placed[..4097] == long);
}

/// What a node has to say waits until that has come which its peer has promised.
fn answers_wait_until_nothing_follows(family: Family) {
    let (meshes, _) = job(family, 2);
    let (mut log, mut answers) = (Log::default(), Log::default());
    let long = |subject| {
        let fill = |out: &mut Vec<u8>| out.extend([7; 40_000]);
        meshes[1].defer_with(NodeId(0), header(1, subject), fill).unwrap();
    };
    meshes[0].defer_with(NodeId(1), header(1, 0), |_| {}).unwrap();
    long(0);
    long(1);
    assert_eq!(meshes[0].receive(&mut log, Timeout::Now), 0, "full, but nobody has more to say");
    long(2);
    log.polls_until(&meshes[0], |log| log.frames.len() == 2);
    assert_eq!(meshes[0].receive(&mut log, Timeout::Millis(1)), 0, "asleep");
    assert_eq!(meshes[1].receive(&mut answers, Timeout::Now), 0, "one more is on its way");
    meshes[1].flush_deferred();
    log.polls_until(&meshes[0], |log| log.frames.len() == 3);
    answers.until(&meshes[1], |log| log.frames.len() == 1);
}

fn a_frame_alone_in_a_batch_goes_as_it_is(family: Family) {
    let (_, counts) = counted(family, 3, |mesh| {
        mesh.defer(NodeId(0), header(1, 0)).unwrap();
        mesh.defer(NodeId(0), header(1, 1)).unwrap();
        defer_body(mesh, 2);
        mesh.flush_deferred();
    });
    assert_eq!(counts, (3, 0, 3 * 40 + 4));
}
