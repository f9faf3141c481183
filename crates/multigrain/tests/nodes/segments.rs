//! Named segments.

use std::time::Duration;

use multigrain::{
    Access, Compression, Consistency, Error, Job, Placement, Policy, Region, Result, SegmentOptions,
};

use super::Scenario;

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("segments", segments),
    ("segments of every consistency", of_every_consistency),
    ("locked pages", locked_pages),
    ("compressed pages", compressed_pages),
];

fn segments(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    if me == 0 {
        job.create_segment("board", 3 * 4096, 0o600, SegmentOptions::new())?;
        let again = job.create_segment("board", 1, 0o600, SegmentOptions::new());
        assert!(matches!(again, Err(Error::Exists(_))), "{again:?}");
    }
    let board = job.wait_for_segment("board")?;
    let words = board.slice::<u64>();
    assert_eq!(words.len(), 3 * 512);
    words.set(me * 512 % words.len() + me, 7 + me as u64);
    job.barrier(0)?;
    for node in 0..nodes {
        assert_eq!(words.get(node * 512 % words.len() + node), 7 + node as u64);
    }
    let stat = board.stat()?;
    assert_eq!((stat.uses.attached, usize::from(stat.uses.nodes)), (nodes as u64, nodes));
    assert_eq!(
        (stat.library.index(), stat.bytes, stat.uses.access),
        (0, 3 * 4096, Access::ReadWrite)
    );
    job.barrier(0)?;
    {
        let other = job.attach_segment_to_read("board")?;
        assert_eq!(other.slice::<u64>().as_ptr(), words.as_ptr());
    }
    job.barrier(0)?;
    assert_eq!(job.segment_stat("board")?.uses.attached, nodes as u64, "dropped, so detached");
    job.barrier(0)?;
    if me == nodes - 1 {
        job.remove_segment("board")?;
    }
    job.barrier(0)?;
    assert!(matches!(job.attach_segment("board"), Err(Error::NotFound(_))));
    assert!(board.stat()?.uses.removed);
    job.barrier(0)?;
    board.detach()?;
    Ok(())
}

/// Additions that are no atomics, in pages that nobody else gets meanwhile.
fn locked_pages(job: &Job) -> Result<()> {
    if job.node() == 0 {
        let options = SegmentOptions::new().window(Duration::from_micros(300));
        job.create_segment("tally", 2 * 4096, 0o600, options)?;
    }
    let tally = job.wait_for_segment("tally")?;
    assert_eq!(tally.stat()?.sharing.window, Duration::from_micros(300));
    let words = tally.slice::<u64>();
    for _ in 0..50 {
        let locked = words.lock_pages()?;
        for place in [3, 600] {
            words.set(place, words.get(place) + 1);
        }
        drop(locked);
    }
    job.barrier(0)?;
    let all = 50 * job.nodes() as u64;
    assert_eq!((words.get(3), words.get(600)), (all, all));
    job.barrier(0)?;
    if job.node() == 0 {
        tally.set_window(Duration::ZERO)?;
        tally.set_window_of(4096..8192, Duration::from_millis(1))?;
    }
    job.barrier(0)?;
    assert_eq!(tally.stat()?.sharing.window, Duration::ZERO);
    Ok(())
}

/// All nodes write their part of each page, and read all of it.
fn compressed_pages(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    for compression in Compression::ALL {
        let options = SegmentOptions::new().compression(compression);
        if me == 0 {
            job.create_segment("rows", 16 * 4096, 0o600, options)?;
        }
        let rows = job.wait_for_segment("rows")?;
        let words = rows.slice::<u64>();
        for round in 1..4 {
            for index in (0..words.len()).filter(|index| index / 64 % nodes == me) {
                words.set(index, round);
            }
            job.barrier(0)?;
            assert!(words.values().all(|word| word == round));
            job.barrier(0)?;
        }
        let stat = rows.stat()?;
        assert_eq!(stat.sharing.compression, compression);
        let sent = stat.compressed;
        let is_on = compression != Compression::None && sent.raw_bytes > 0;
        assert_eq!((sent.tried > 0, sent.pages > 0), (is_on, is_on), "{sent:?}");
        assert_eq!(sent.sent_bytes < sent.raw_bytes, is_on, "{sent:?}");
        rows.detach()?;
        job.barrier(0)?;
        if me == 0 {
            job.remove_segment("rows")?;
        }
        job.barrier(0)?;
    }
    Ok(())
}

fn of_every_consistency(job: &Job) -> Result<()> {
    let (me, nodes) = (job.node(), job.nodes());
    for consistency in Consistency::ALL {
        let policy = Policy::new().consistency(consistency).grain(8192);
        let options = SegmentOptions::new().policy(policy).placement(Placement::Spread);
        if me == nodes - 1 {
            job.create_segment("sums", 4 * 8192, 0o600, options)?;
        }
        let sums = job.wait_for_segment("sums")?;
        let stat = sums.stat()?;
        assert_eq!((stat.sharing.consistency, stat.sharing.grain), (consistency, 8192));
        assert_eq!((stat.sharing.placement, stat.library.index()), (Placement::Spread, nodes - 1));
        let words = sums.slice::<u64>();
        for index in (me..words.len()).step_by(nodes) {
            words.set(index, index as u64);
        }
        job.barrier(0)?;
        assert!(words.values().eq(0..words.len() as u64));
        job.barrier(0)?;
        sums.detach()?;
        job.barrier(0)?;
        if me == 0 {
            job.remove_segment("sums")?;
        }
        job.barrier(0)?;
    }
    Ok(())
}
