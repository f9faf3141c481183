use super::*;
use multigrain_types::AreaId;

/// So many at once.
fn most(count: u32) -> RunBounds {
    RunBounds { together: 0..u32::MAX, most: count }
}

fn run_of(ahead: Prediction) -> Run {
    let Prediction::Run(run) = ahead else { panic!("{ahead:?}") };
    run
}

fn need(streams: &mut Streams, area: u32, index: u32, kind: Kind) -> u32 {
    run_of(streams.need(MinipageId::new(AreaId(area), index), kind, most(64), true).0).count()
}

/// Needs whatever it has not got from `first` on: how many it got each time.
fn scan(streams: &mut Streams, first: u32, times: usize) -> Vec<u32> {
    let mut next = first;
    let mut counts = Vec::new();
    for _ in 0..times {
        let count = need(streams, 1, next, Kind::Read);
        counts.push(count);
        next += count;
    }
    counts
}

#[test]
fn a_scan_gets_twice_as_many_each_time_from_its_third_on() {
    let mut streams = Streams::default();
    assert_eq!(scan(&mut streams, 10, 8), [1, 1, 3, 5, 9, 17, 33, 64]);
}

#[test]
fn a_thread_that_needs_minipages_here_and_there_gets_no_more() {
    let mut streams = Streams::default();
    for index in [5, 9, 6, 2, 13, 40, 41, 77] {
        assert_eq!(need(&mut streams, 1, index, Kind::Read), 1, "{index}");
    }
}

#[test]
fn scans_of_several_arrays_to_read_and_to_write_are_told_apart() {
    let mut streams = Streams::default();
    let mut next = [0; 3];
    for expected in [1, 1, 3, 5, 9] {
        for (place, kind) in [Kind::Read, Kind::Write, Kind::Read].into_iter().enumerate() {
            let area = u32::try_from(place).unwrap();
            let count = need(&mut streams, area, next[place], kind);
            assert_eq!(count, expected);
            next[place] += count;
        }
    }
}

#[test]
fn the_scan_that_was_not_used_longest_is_given_up() {
    let mut streams = Streams::default();
    scan(&mut streams, 0, 3);
    for area in 2..=5 {
        need(&mut streams, area, 0, Kind::Read);
    }
    assert_eq!(need(&mut streams, 1, 5, Kind::Read), 1, "begins again");
}

#[test]
fn a_scan_ends_where_no_more_may_be_had() {
    let mut streams = Streams::default();
    scan(&mut streams, 0, 3);
    let last = MinipageId::new(AreaId(1), 5);
    let (ahead, _) = streams.need(last, Kind::Read, most(2), true);
    assert_eq!(run_of(ahead), Run::new(last, 2).unwrap());
    let next = MinipageId::new(AreaId(1), 7);
    assert_eq!(run_of(streams.need(next, Kind::Read, most(1), true).0), Run::one(next));
}

#[test]
fn a_scan_may_go_down_from_the_last_minipage_of_an_area_to_its_first() {
    let minipage = |index| MinipageId::new(AreaId(1), index);
    let mut streams = Streams::default();
    // The C library looks at the other end first.
    need(&mut streams, 1, 0, Kind::Read);
    let (mut next, mut runs) = (99, Vec::new());
    loop {
        let bounds = RunBounds { together: 0..100, most: 32 };
        let run = run_of(streams.need(minipage(next), Kind::Read, bounds, true).0);
        assert_eq!(run.end(), next + 1);
        runs.push(run.count());
        match run.first().index().checked_sub(1) {
            Some(index) => next = index,
            None => break,
        }
    }
    assert_eq!(runs, [1, 1, 3, 5, 9, 17, 32, 32]);
}

#[test]
fn what_is_read_and_then_written_is_asked_for_to_write_but_for_one_time_in_nine() {
    let mut streams = Streams::default();
    let mut next = 0;
    let mut asked = Vec::new();
    for _ in 0..24 {
        let minipage = MinipageId::new(AreaId(1), next);
        let (ahead, kind) = streams.need(minipage, Kind::Read, most(4), true);
        if kind == Kind::Read {
            // The thread writes what it has read.
            let (writable, _) = streams.need(minipage, Kind::Write, most(4), true);
            assert_eq!(writable, ahead);
        }
        asked.push(kind);
        next += run_of(ahead).count();
    }
    let reads: Vec<_> = (0..24).filter(|&time| asked[time] == Kind::Read).collect();
    assert_eq!(reads, [0, 1, 10, 19]);
}

/// Needs whatever it has not got in steps from `first` on: how many it got each time.
fn stride(streams: &mut Streams, first: u32, step: i32, times: usize) -> Vec<u32> {
    let mut next = MinipageId::new(AreaId(1), first);
    let mut counts = Vec::new();
    for _ in 0..times {
        let ahead = streams.need(next, Kind::Read, most(1024), true).0;
        let count = match ahead {
            Prediction::Run(run) => run.count(),
            Prediction::Strided { step: learnt, count } => {
                assert_eq!(learnt, step);
                count + 1
            }
        };
        counts.push(count);
        next = beyond(next, step, count);
    }
    counts
}

/// A scan of 0..1000, down if `step` is -1, until it is read ahead: what it needs next, what it got last, and what was
/// asked for behind it each time.
fn long_scan(streams: &mut Streams, step: i32) -> (u32, Run, Vec<Option<Run>>) {
    let bounds = RunBounds { together: 0..1000, most: 64 };
    let mut next = MinipageId::new(AreaId(1), if step < 0 { 999 } else { 0 });
    let mut ahead = Vec::new();
    loop {
        let got = run_of(streams.need(next, Kind::Read, bounds.clone(), true).0);
        ahead.push(streams.read_ahead(next, &bounds));
        next = beyond(next, step, got.count());
        if ahead.last() != Some(&None) {
            return (next.index(), got, ahead);
        }
    }
}

#[test]
fn a_long_scan_is_read_ahead_and_waits_for_what_is_on_its_way() {
    let minipage = |index| MinipageId::new(AreaId(1), index);
    let run = |first, count| Run::new(minipage(first), count);
    let bounds = RunBounds { together: 0..1000, most: 64 };
    let mut streams = Streams::default();
    let (next, got, ahead) = long_scan(&mut streams, 1);
    assert_eq!((next, Some(got)), (261, run(197, 64)));
    assert_eq!(ahead, [vec![None; 9], vec![run(261, 64)]].concat());
    // That the second of them has not come either is no step.
    assert_eq!(streams.follow(minipage(262), Kind::Read, &bounds), None);
    assert_eq!(streams.follow(minipage(261), Kind::Write, &bounds), None);
    assert_eq!(streams.follow(minipage(261), Kind::Read, &bounds), run(325, 64));
    // All came before they were needed.
    let (got, _) = streams.need(minipage(389), Kind::Read, bounds.clone(), true);
    assert_eq!(
        (Some(run_of(got)), streams.read_ahead(minipage(389), &bounds)),
        (run(389, 64), run(453, 64))
    );
    // Up to the end.
    let end = RunBounds { together: 0..530, most: 64 };
    assert_eq!(streams.follow(minipage(453), Kind::Read, &end), run(517, 13));
    assert_eq!(streams.follow(minipage(517), Kind::Read, &end), None);
    let mut down = Streams::default();
    let (next, got, ahead) = long_scan(&mut down, -1);
    assert_eq!((next, Some(got), ahead[9]), (738, run(739, 64), run(675, 64)));
    assert_eq!(down.follow(minipage(738), Kind::Read, &bounds), run(611, 64));
}

#[test]
fn what_is_read_and_then_written_is_not_read_ahead() {
    let bounds = RunBounds { together: 0..10_000, most: 64 };
    let mut streams = Streams::default();
    let mut next = MinipageId::new(AreaId(1), 0);
    let mut reads = Vec::new();
    for time in 0..100 {
        let (got, kind) = streams.need(next, Kind::Read, bounds.clone(), true);
        assert_eq!(streams.read_ahead(next, &bounds), None);
        if kind == Kind::Read {
            reads.push(time);
            let (again, _) = streams.need(next, Kind::Write, bounds.clone(), true);
            assert_eq!((again, streams.read_ahead(next, &bounds)), (got, None));
        }
        next = beyond(next, 1, run_of(got).count());
    }
    assert_eq!(reads[..5], [0, 1, 10, 19, 28]);
}

#[test]
fn a_long_scan_whose_read_ahead_was_taken_away_is_given_up() {
    let mut streams = Streams::default();
    let (next, ..) = long_scan(&mut streams, 1);
    assert_eq!(need(&mut streams, 1, next + 3, Kind::Read), 1);
    assert_eq!(need(&mut streams, 1, next + 64, Kind::Read), 1);
}

#[test]
fn a_long_scan_whose_read_ahead_an_acquire_took_goes_on() {
    let bounds = RunBounds { together: 0..1000, most: 64 };
    let mut streams = Streams::default();
    let (next, ..) = long_scan(&mut streams, 1);
    let next = MinipageId::new(AreaId(1), next);
    let (got, _) = streams.need(next, Kind::Read, bounds.clone(), false);
    assert_eq!(run_of(got), Run::new(next, 64).unwrap());
    assert_eq!(streams.read_ahead(next, &bounds), Run::new(beyond(next, 1, 64), 64));
}

#[test]
fn a_long_scan_that_begins_to_write_is_read_ahead_no_more() {
    let bounds = RunBounds { together: 0..1000, most: 64 };
    let mut streams = Streams::default();
    let (next, got, _) = long_scan(&mut streams, 1);
    let next = MinipageId::new(AreaId(1), next);
    let mut at = got.first();
    while at.index() < next.index() {
        // Not beyond what was read.
        let left = RunBounds { together: 0..next.index(), most: 64 };
        let (got, _) = streams.need(at, Kind::Write, left, true);
        at = beyond(at, 1, run_of(got).count());
    }
    assert!(streams.scans.iter().flatten().any(|scan| scan.ahead > 0), "it is followed");
    assert_eq!(streams.follow(next, Kind::Read, &bounds), None);
}

#[test]
fn equal_steps_are_a_scan_from_the_fourth_on() {
    for step in [2, -2, 5, 100, -63] {
        let mut streams = Streams::default();
        let counts = stride(&mut streams, 100_000, step, 9);
        assert_eq!(counts, [1, 1, 1, 3, 5, 9, 17, 33, 65], "{step}");
    }
    // Beside another one, and what is needed here and there.
    let mut streams = Streams::default();
    for index in 0..4 {
        let strided = |first: u32, step: u32, kind| {
            let minipage = MinipageId::new(AreaId(1), first + step * index);
            (minipage, kind, Prediction::Strided { step: step.cast_signed(), count: 2 })
        };
        for (minipage, kind, ahead) in [strided(5000, 7, Kind::Read), strided(80, 3, Kind::Write)] {
            let (got, _) = streams.need(minipage, kind, most(1024), true);
            assert_eq!(got == ahead, index == 3, "{minipage:?}");
        }
        need(&mut streams, 2, 99 * index * index, Kind::Read);
    }
}

#[test]
fn a_strided_scan_asks_for_nothing_beyond_what_is_in_use_together() {
    let mut streams = Streams::default();
    for index in [10, 20, 30] {
        need(&mut streams, 1, index, Kind::Read);
    }
    let bounds = |end| RunBounds { together: 5..end, most: 64 };
    let minipage = |index| MinipageId::new(AreaId(1), index);
    let (ahead, _) = streams.need(minipage(40), Kind::Read, bounds(51), true);
    assert_eq!(ahead, Prediction::Strided { step: 10, count: 1 });
    let (ahead, _) = streams.need(minipage(60), Kind::Read, bounds(65), true);
    assert_eq!(ahead, Prediction::Run(Run::one(minipage(60))));
    assert_eq!(bounds(65).steps(60, -10), 6);
    assert_eq!(bounds(65).steps(60, i32::MIN), 1);
}

#[test]
fn what_came_ahead_lies_between_what_is_written_and_the_next_that_is_needed() {
    let minipage = |index| MinipageId::new(AreaId(1), index);
    let mut streams = Streams::default();
    for index in [10, 11, 12] {
        need(&mut streams, 1, index, Kind::Write);
    }
    // 13 and 14 came with 12.
    assert_eq!(streams.got_ahead(minipage(13)), Some(Run::new(minipage(14), 1)));
    assert_eq!(
        streams.got_ahead(minipage(14)),
        Some(None),
        "nothing behind, and no scan of its own"
    );
    for index in [15, 12, 11] {
        assert_eq!(streams.got_ahead(minipage(index)), None, "{index}");
    }
    let mut down = Streams::default();
    for index in [90, 89, 88] {
        down.need(minipage(index), Kind::Write, most(64), false);
    }
    assert_eq!(down.got_ahead(minipage(87)), Some(Run::new(minipage(86), 1)));
    assert_eq!(down.got_ahead(minipage(86)), Some(None));
}

#[test]
fn what_is_written_no_more_is_asked_for_to_read_again() {
    let mut streams = Streams::default();
    let mut next = 0;
    let mut need = |streams: &mut Streams, writes: bool| {
        let minipage = MinipageId::new(AreaId(1), next);
        let (ahead, kind) = streams.need(minipage, Kind::Read, most(4), true);
        if writes && kind == Kind::Read {
            streams.need(minipage, Kind::Write, most(4), true);
        }
        next += run_of(ahead).count();
        kind
    };
    (0..4).for_each(|_| {
        need(&mut streams, true);
    });
    let asked: Vec<_> = (0..30).map(|_| need(&mut streams, false)).collect();
    let writes = asked.iter().filter(|&&kind| kind == Kind::Write).count();
    assert!(writes <= usize::from(RELEARN), "{asked:?}");
    assert_eq!(asked[29], Kind::Read);
}

#[test]
fn a_thread_whose_guesses_are_taken_away_guesses_less_often() {
    let mut streams = Streams::default();
    let mut ahead = Vec::new();
    for round in 0..6 {
        // Twenty in a row, whatever came with others: somebody has taken it.
        let first = round * 100;
        let counts = (0..20).map(|index| need(&mut streams, 1, first + index, Kind::Write));
        ahead.push(counts.map(|count| count - 1).sum::<u32>());
    }
    assert!(ahead[0] > 4, "{ahead:?}");
    assert!(ahead[5] <= 2, "{ahead:?}");
    // A long scan shows that guesses are right again.
    let mut next = 10_000;
    let mut counts = Vec::new();
    for _ in 0..100 {
        let count = need(&mut streams, 1, next, Kind::Write);
        counts.push(count);
        next += count;
    }
    assert_eq!(counts.last(), Some(&64), "{counts:?}");
}
