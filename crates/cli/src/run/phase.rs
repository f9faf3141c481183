//! The phases of a job: what ends each of them, what the launcher does then, and until when it waits.
//!
//! Role: the table alone, [`next`], a pure function of where the job is and of what the launcher sees
//! ([`Situation`]). [`super::job`] looks, and carries out. Every wait ends at a time: no phase depends on a
//! node's cooperation, and only a job that ended well by itself waits for who reads its output, for there may
//! be a pager. All times are since the job's start.

use std::time::Duration;

/// How long pipes may stay open in silence after everybody who wrote to them was killed.
const SILENCE_WAIT: Duration = Duration::from_millis(500);
/// How long hosts may take to say that nothing is left there.
const SWEEP_WAIT: Duration = Duration::from_secs(3);
/// How long a blocked stdout is waited for, if the job was ended from outside.
const DRAIN_WAIT: Duration = Duration::from_secs(1);
/// The same if the user wants out at once: the writer has its turn.
const AT_ONCE_WAIT: Duration = Duration::from_millis(100);
/// How long a reader may take nothing of the output of a job that failed or that a signal has ended.
const UNREAD_WAIT: Duration = Duration::from_secs(2);

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has gone wrong.
    Running,
    /// The nodes were asked to end (SIGTERM).
    Ending { kill_at: Duration },
    /// The nodes were killed.
    Killed { until: Duration },
    /// All nodes ended well; processes they left behind may still write.
    Lingering { until: Duration },
    /// Everybody else was killed; what they wrote is being read.
    Swept { since: Duration },
    /// All is said; the writer writes the rest.
    Draining { since: Duration },
    /// The launcher may exit.
    Done,
}

/// What the launcher sees at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Situation {
    pub(super) now: Duration,
    /// While the job runs, when the next verdict is due.
    pub(super) judge_at: Option<Duration>,
    /// All nodes have ended.
    pub(super) all_ended: bool,
    pub(super) output: Output,
    /// On other hosts nothing of the job is left.
    pub(super) hosts_swept: bool,
    /// The job was ended from outside: by a signal or a limit of time.
    pub(super) ended: bool,
    /// It failed, or a signal that was handed on has ended it.
    pub(super) failed: bool,
    /// The user wants out at once.
    pub(super) ends_at_once: bool,
}

/// What the nodes write, and who reads it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Output {
    /// Nobody can write to a pipe of the job any more.
    pub(super) silent: bool,
    /// It waits at its source because the writer is behind.
    pub(super) held_back: bool,
    /// When a node wrote last.
    pub(super) node_wrote_at: Duration,
    /// When a reader took something last.
    pub(super) read_at: Duration,
    /// The writer has written all.
    pub(super) written: bool,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The nodes are killed.
    Kill,
    /// Nobody of the job stays; `alive`: some node does not die.
    Sweep { alive: bool },
    /// All output was read: the last words.
    Close,
    /// The launcher exits; `unwritten`: the last words are not written; `unread`: for nobody reads them.
    Exit { unwritten: bool, unread: bool },
}

/// What [`next`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// This is due, and the next phase follows from it.
    Do(Action),
    /// Nothing is, until an event comes or this moment.
    Wait(Option<Duration>),
}

/// The table. [`Phase::Running`] ends by a verdict, which is looked for before.
pub(super) fn next(phase: Phase, seen: &Situation) -> Next {
    let &Situation { now, all_ended, output, ends_at_once, .. } = seen;
    let give_up_at = give_up_at(phase, seen);
    let unread = give_up_at.is_some_and(|at| now >= at);
    let patient = !seen.ended && !ends_at_once && !unread;
    // What a slow reader holds back is waited for by who is patient.
    let held_back = |patient| output.held_back && patient;
    let wait = |until: Option<Duration>| {
        Next::Wait(until.into_iter().chain(give_up_at.filter(|_| patient)).min())
    };
    let do_if = |due: bool, action, until| if due { Next::Do(action) } else { wait(until) };
    match phase {
        Phase::Running => wait(seen.judge_at),
        Phase::Ending { .. } | Phase::Killed { .. } if all_ended => {
            Next::Do(Action::Sweep { alive: false })
        }
        Phase::Ending { kill_at } => {
            do_if(now >= kill_at || ends_at_once, Action::Kill, Some(kill_at))
        }
        Phase::Killed { until } => do_if(now >= until, Action::Sweep { alive: true }, Some(until)),
        Phase::Lingering { until } => {
            let until = (!held_back(true)).then_some(until);
            let over = until.is_some_and(|until| now >= until);
            do_if(output.silent || over || !patient, Action::Sweep { alive: false }, until)
        }
        Phase::Swept { since } => {
            let quiet_at =
                (!held_back(patient)).then_some(since.max(output.node_wrote_at) + SILENCE_WAIT);
            let over = quiet_at.is_some_and(|at| now >= at);
            let swept_at = since + SWEEP_WAIT;
            let swept = seen.hosts_swept || (over && now >= swept_at);
            let due = (swept && (output.silent || over)) || ends_at_once;
            // Without its hosts' word it waits for both times, and as soon as that comes for the first.
            let until = if over { Some(swept_at) } else { quiet_at };
            do_if(due, Action::Close, until)
        }
        Phase::Draining { since } => {
            let until = since + if ends_at_once { AT_ONCE_WAIT } else { DRAIN_WAIT };
            let over = !patient && now >= until;
            let unwritten = !output.written;
            let action = Action::Exit { unwritten, unread: unwritten && unread };
            do_if(over || output.written, action, (!patient).then_some(until))
        }
        Phase::Done => wait(None),
    }
}

/// When output that nobody takes is given up, unless some is taken until then. Not that of a job which ended
/// well by itself.
fn give_up_at(phase: Phase, seen: &Situation) -> Option<Duration> {
    let (Phase::Lingering { until: since } | Phase::Swept { since } | Phase::Draining { since }) =
        phase
    else {
        return None;
    };
    seen.failed.then(|| since.max(seen.output.read_at) + UNREAD_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(now: u64) -> Situation {
        Situation { now: ms(now), hosts_swept: true, ..Situation::default() }
    }

    #[test]
    fn nodes_that_were_asked_to_end_are_killed_in_time_or_as_the_user_hurries() {
        let phase = Phase::Ending { kill_at: ms(500) };
        assert_eq!(next(phase, &at(499)), Next::Wait(Some(ms(500))));
        assert_eq!(next(phase, &at(500)), Next::Do(Action::Kill));
        let at_once = Situation { ends_at_once: true, ..at(1) };
        assert_eq!(next(phase, &at_once), Next::Do(Action::Kill));
        let gone = Situation { all_ended: true, ..at(1) };
        assert_eq!(next(phase, &gone), Next::Do(Action::Sweep { alive: false }));
    }

    #[test]
    fn killed_nodes_are_waited_for_also_by_who_hurries_and_then_left_behind() {
        let phase = Phase::Killed { until: ms(900) };
        let at_once = Situation { ends_at_once: true, ended: true, ..at(899) };
        assert_eq!(next(phase, &at_once), Next::Wait(Some(ms(900))));
        assert_eq!(next(phase, &at(900)), Next::Do(Action::Sweep { alive: true }));
    }

    #[test]
    fn a_reader_is_waited_for_by_a_job_that_ended_well_and_not_by_one_that_was_ended() {
        for phase in [Phase::Lingering { until: ms(0) }, Phase::Swept { since: ms(0) }] {
            let behind = Situation {
                output: Output { held_back: true, ..Output::default() },
                ..at(100_000)
            };
            assert_eq!(next(phase, &behind), Next::Wait(None), "{phase:?}");
            let ended = Situation { ended: true, ..behind };
            assert!(matches!(next(phase, &ended), Next::Do(_)), "{phase:?}");
            let failed = Situation {
                failed: true,
                output: Output { read_at: ms(99_000), ..behind.output },
                ..behind
            };
            assert_eq!(next(phase, &failed), Next::Wait(Some(ms(101_000))), "{phase:?}");
            let given_up = Situation { now: ms(101_000), ..failed };
            assert!(matches!(next(phase, &given_up), Next::Do(_)), "{phase:?}");
        }
    }

    #[test]
    fn what_nobody_takes_is_lost_in_a_second_where_the_job_was_ended_and_is_said() {
        let phase = Phase::Draining { since: ms(0) };
        assert_eq!(next(phase, &at(100_000)), Next::Wait(None));
        let ended = Situation { ended: true, ..at(999) };
        assert_eq!(next(phase, &ended), Next::Wait(Some(ms(1_000))));
        let exit = |unwritten, unread| Next::Do(Action::Exit { unwritten, unread });
        let written = Situation { output: Output { written: true, ..Output::default() }, ..at(1) };
        let later = Situation { now: ms(1_000), ..ended };
        assert_eq!(next(phase, &later), exit(true, false));
        assert_eq!(next(phase, &written), exit(false, false));
        let failed = Situation { failed: true, ..at(2_000) };
        assert_eq!(next(phase, &failed), exit(true, true));
    }

    /// A wait that is over but changes nothing would be repeated at once, for ever.
    #[test]
    fn every_wait_ends_in_the_future() {
        let times = [0, 1, 499, 500, 999, 1_000, 2_000, 2_999, 3_000, 5_000];
        let phases = |t| {
            [
                Phase::Ending { kill_at: t },
                Phase::Killed { until: t },
                Phase::Lingering { until: t },
                Phase::Swept { since: t },
                Phase::Draining { since: t },
                Phase::Done,
            ]
        };
        for (now, since) in times.iter().flat_map(|now| times.map(|since| (*now, ms(since)))) {
            for bits in 0..1_u32 << 8 {
                let bit = |n: u32| bits & (1 << n) != 0;
                let seen = Situation {
                    now: ms(now),
                    judge_at: None,
                    all_ended: bit(0),
                    output: Output {
                        silent: bit(1),
                        held_back: bit(2),
                        node_wrote_at: if bit(1) { Duration::ZERO } else { since },
                        read_at: Duration::ZERO,
                        written: bit(3),
                    },
                    hosts_swept: bit(4),
                    ended: bit(5),
                    failed: bit(6),
                    ends_at_once: bit(7),
                };
                for phase in phases(since) {
                    if let Next::Wait(Some(until)) = next(phase, &seen) {
                        assert!(until > seen.now, "{phase:?} {seen:?}: {until:?}");
                    }
                }
            }
        }
    }
}
