//! The verdict over jobs that end in every way.

use super::super::facts::Init;
use super::*;

/// A job of `nodes` ready nodes with pids 100, 101, ...
fn job(nodes: i32) -> Facts {
    let node = |rank| NodeFacts {
        pid: 100 + rank,
        init: Init::Done { by: 100 + rank },
        ..NodeFacts::default()
    };
    Facts { nodes: (0..nodes).map(node).collect(), ..Facts::default() }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Facts {
    fn end(mut self, rank: usize, at: u64, status: Status) -> Self {
        let order = self.nodes.iter().filter(|node| node.end.is_some()).count();
        self.nodes[rank].end = Some(End { at: ms(at), order, status });
        self
    }

    fn exit(self, rank: usize, at: u64, code: i32) -> Self {
        self.end(rank, at, Status::Exited(code))
    }

    /// What was taken for its end was not.
    fn exit_again(mut self, rank: usize, at: u64, code: i32) -> Self {
        self.nodes[rank].end = None;
        self.exit(rank, at, code)
    }

    fn kill(self, rank: usize, at: u64, signal: i32) -> Self {
        self.end(rank, at, Status::Killed { signal, core: false })
    }

    fn leave(mut self, rank: usize, at: u64) -> Self {
        self.nodes[rank].left = true;
        self.exit(rank, at, 0)
    }

    fn lost(mut self, rank: usize, peer: usize) -> Self {
        let at = ms(self.nodes.iter().filter(|node| node.lost.is_some()).count() as u64);
        let text = "connection reset".to_owned();
        self.nodes[rank].lost = Some(Loss { at, rank: peer, text });
        self
    }
}

fn over(facts: &Facts, at: u64) -> (u8, String) {
    match judge(facts, ms(at)) {
        Decision::Over(Verdict { code, line }) => (code, line.unwrap_or_default()),
        decision @ (Decision::Running | Decision::Wait(_)) => panic!("not over: {decision:?}"),
    }
}

#[test]
fn a_job_runs_until_all_have_left() {
    let facts = job(2).leave(0, 5);
    assert_eq!(judge(&facts, ms(5000)), Decision::Running);
    assert_eq!(over(&facts.leave(1, 5001), 5001), (0, String::new()));
}

#[test]
fn a_node_that_is_another_program_by_now_has_left() {
    let mut facts = job(3).lost(0, 1).exit(0, 5, PEER_LOST.into());
    facts.nodes[1].closed = true;
    let late = u64::try_from(CAUSE_WAIT.as_millis()).unwrap() + 5;
    let (code, line) = over(&facts, late);
    assert_eq!(code, BROKEN_RULES);
    assert!(
        line.starts_with("node 1 (pid 101) left without mg_finalize: it has executed"),
        "{line}"
    );
    let (code, line) = over(&facts.exit(1, 6, 0), late);
    assert_eq!(
        (code, line.as_str()),
        (1, "node 1 (pid 101) left without mg_finalize; the job ends")
    );
}

/// Slurm sends a cancelled step's agents and nodes the same signal, and either is known first.
#[test]
fn a_node_that_a_sigterm_ended_on_another_host_waits_for_the_loss_of_its_host() {
    let far = |forwarded| {
        let mut facts = Facts { forwarded, ..job(2) };
        facts.nodes[0].host = Some("b".to_owned());
        facts.kill(0, 5, libc::SIGTERM)
    };
    let alone = far(None);
    assert_eq!(judge(&alone, ms(5)), Decision::Wait(ms(5) + CAUSE_WAIT));
    let (code, line) = over(&alone, 1005);
    assert!(
        code == 143 && line.contains("node 0 (pid 100 on b) was killed by signal 15"),
        "{line}"
    );
    assert_eq!(over(&far(Some(libc::SIGTERM)), 5).0, 143, "the launcher has sent it");
    assert_eq!(over(&job(2).kill(0, 5, libc::SIGTERM), 5).0, 143, "here there is no agent");
    let mut facts = far(None).end(0, 5, Status::Lost);
    facts.nodes[0].fatal = Some("cancelled".to_owned());
    let lost = "node 0 (pid 100 on b) was lost with its host: cancelled; the job ends";
    assert_eq!(over(&facts, 6), (75, lost.to_owned()));
}

/// What its host has to say of the node that was lost may be held up on its way.
#[test]
fn a_lost_node_s_host_is_heard_before_the_loss_is_the_cause() {
    let far = |heard: Option<u64>| {
        let mut facts = job(3).lost(0, 1).exit(0, 500, PEER_LOST.into());
        facts.nodes[1].host = Some("b".to_owned());
        facts.heard.extend(heard.map(|at| (1, ms(at))));
        facts
    };
    for (heard, wait) in
        [(None, LATE_CAUSE_WAIT), (Some(400), LATE_CAUSE_WAIT), (Some(600), CAUSE_WAIT)]
    {
        assert_eq!(judge(&far(heard), ms(600)), Decision::Wait(ms(500) + wait), "{heard:?}");
    }
    // So it is where another process than was started is that node.
    let mut daemon = far(None);
    daemon.nodes[1].init = Init::Done { by: 1101 };
    daemon.nodes[1].end = Some(End { at: ms(0), order: 0, status: Status::Exited(0) });
    assert_eq!(judge(&daemon, ms(600)), Decision::Wait(ms(500) + LATE_CAUSE_WAIT));
    assert_eq!(over(&far(Some(400)).kill(1, 2_900, libc::SIGSEGV), 2_900).0, 139);
    assert_eq!(over(&far(Some(1_600)), 1_600).0, 75);
}

#[test]
fn a_node_may_say_that_it_has_lost_one_that_the_job_does_not_have() {
    let facts = job(2).lost(0, 7).exit(0, 5, PEER_LOST.into());
    assert_eq!(judge(&facts, ms(6)), Decision::Wait(ms(5) + CAUSE_WAIT));
    let (code, line) = over(&facts, 1_005);
    assert_eq!((code, line.is_empty()), (75, false), "{line}");
}

#[test]
fn a_job_that_ends_well_but_for_races_gives_what_thread_sanitizer_gives() {
    let raced = |races| Facts { races, ..job(2) }.leave(0, 5).leave(1, 6);
    assert_eq!(over(&raced(1), 6), (66, "a race was reported; exit code 66".to_owned()));
    assert_eq!(over(&raced(3), 6), (66, "3 races were reported; exit code 66".to_owned()));
    assert_eq!(over(&raced(3).exit(1, 7, 4), 7).0, 4, "a failing node's code comes first");
    assert!(raced(1).ended_well() && !raced(1).exit(1, 7, 4).ended_well());
}

#[test]
fn programs_without_mg_init_end_well_one_by_one() {
    let mut facts = job(2);
    facts.nodes.iter_mut().for_each(|node| node.init = Init::NotBegun);
    let facts = facts.exit(1, 5, 0);
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running);
    assert_eq!(over(&facts.exit(0, 60_000, 0), 60_000).0, 0);
}

#[test]
fn a_crash_names_its_address_if_that_signal_ended_the_node() {
    let mut facts = job(2).kill(1, 5, libc::SIGSEGV);
    facts.nodes[1].crash = Some((libc::SIGSEGV, "at address 0x18".into()));
    let line = "node 1 (pid 101) was killed by signal 11 (SIGSEGV) at address 0x18; the job ends";
    assert_eq!(over(&facts, 6).1, line);
    facts.nodes[1].crash = Some((libc::SIGBUS, "at address 0x18".into()));
    assert!(!over(&facts, 6).1.contains("0x18"));
}

#[test]
fn a_crash_before_mg_init_says_so_and_what_it_may_be() {
    let mut facts = job(2).kill(1, 5, libc::SIGSEGV);
    facts.nodes[1].init = Init::NotBegun;
    let line = over(&facts, 6).1;
    assert!(
        line.contains(
            "(SIGSEGV) before mg_init had ended, or without mg_init: by the program itself (calls of the library give \
             errors and NULL until then), or "
        ),
        "{line}"
    );
    assert!(line.ends_with("(ulimit -s, ulimit -v); the job ends"), "{line}");
    let mut facts = job(2).kill(1, 5, libc::SIGABRT);
    assert!(over(&facts, 6).1.ends_with("(SIGABRT); the job ends"));
    facts.nodes[1].init = Init::NotBegun;
    assert!(over(&facts, 6).1.ends_with("refused memory (ulimit -v, ulimit -d); the job ends"));
}

#[test]
fn the_first_failure_is_named_at_once() {
    let facts = job(4).exit(2, 5, 3).kill(1, 6, 9);
    assert_eq!(over(&facts, 6), (3, "node 2 (pid 102) exited with code 3; the job ends".into()));
    let (code, line) = over(&job(4).kill(2, 5, 9), 5);
    assert_eq!(code, 137);
    assert_eq!(line, "node 2 (pid 102) was killed by signal 9 (SIGKILL); the job ends");
}

#[test]
fn a_core_file_is_mentioned() {
    let facts = job(1).end(0, 5, Status::Killed { signal: 11, core: true });
    let line = over(&facts, 5).1;
    assert!(line.contains("(SIGSEGV) and could not say where: its stack was full"), "{line}");
    assert!(line.ends_with(", core dumped; the job ends"), "{line}");
}

#[test]
fn a_consequence_waits_for_its_cause() {
    let facts = job(4).lost(0, 2).exit(0, 10, 75).exit(1, 11, 75);
    assert_eq!(judge(&facts, ms(12)), Decision::Wait(ms(1010)));
    let (code, line) = over(&facts.kill(2, 15, 9), 15);
    assert_eq!(code, 137);
    assert!(line.starts_with("node 2 (pid 102) was killed"), "{line}");
}

#[test]
fn a_lost_peer_that_lives_on_is_named_after_the_wait() {
    let facts = job(4).lost(0, 2).exit(0, 10, 75);
    let (code, line) = over(&facts, 1010);
    assert_eq!(code, 75);
    assert_eq!(line, "node 2 (pid 102) was lost by node 0: connection reset; the job ends");
}

#[test]
fn exit_code_75_of_a_program_without_us_is_its_own() {
    let mut facts = job(2);
    facts.nodes[1].init = Init::NotBegun;
    assert_eq!(over(&facts.exit(1, 5, 75), 5).0, 75);
    // In a ready node it is a consequence, and names itself if nothing else turns up.
    let (code, line) = over(&job(2).exit(1, 5, 75), 1005);
    assert_eq!((code, line.contains("node 1 (pid 101) exited with code 75")), (75, true));
}

#[test]
fn a_node_that_leaves_without_finalize_gets_a_second() {
    let facts = job(3).exit(1, 100, 0);
    assert_eq!(judge(&facts, ms(200)), Decision::Wait(ms(1100)));
    let (code, line) = over(&facts, 1100);
    assert_eq!(code, 1);
    assert_eq!(line, "node 1 (pid 101) left without mg_finalize; the job ends");
    assert_eq!(over(&facts.leave(0, 300).leave(2, 400), 400).0, 0);
}

/// A job of nodes of which the first processes have ended well without mg_init, and have left others with their channels.
fn daemons(nodes: i32, join_wait: u64) -> Facts {
    let mut facts = Facts { join_wait: ms(join_wait), ..job(nodes) };
    for rank in 0..facts.nodes.len() {
        facts.nodes[rank].init = Init::NotBegun;
        facts = facts.exit(rank, 100, 0);
    }
    facts
}

#[test]
fn what_a_node_has_left_may_be_the_node() {
    let mut facts = daemons(2, 5_000);
    assert_eq!(judge(&facts, ms(200)), Decision::Wait(ms(5_100)));
    assert_eq!(over(&facts, 5_100), (0, String::new()), "none calls mg_init");
    facts.nodes[1].init = Init::Begun { by: 7 };
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running, "that ends its wait itself");
    facts.nodes[0].init = Init::Done { by: 8 };
    facts.nodes[1].init = Init::Done { by: 7 };
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running);
    facts.nodes[0].left = true;
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running);
    facts.nodes[1].left = true;
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running, "they may work on");
    facts.nodes[0].closed = true;
    assert_eq!(judge(&facts, ms(60_000)), Decision::Running);
    facts.nodes[1].closed = true;
    assert_eq!(over(&facts, 60_000), (0, String::new()));
    assert!(facts.ended_well());
    facts.nodes[1].left = false;
    assert!(!facts.ended_well(), "that the first process ended well says nothing of the node");
}

#[test]
fn who_joined_and_ended_has_left_whoever_holds_its_channel() {
    let facts = job(2).exit(1, 100, 0);
    assert!(!facts.nodes[1].closed);
    assert!(over(&facts, 1_100).1.contains("node 1 (pid 101) left without mg_finalize"));
    let mut gone = daemons(2, 5_000);
    gone.nodes[0].init = Init::Begun { by: 7 };
    gone.nodes[1].closed = true;
    assert!(over(&gone, 1_100).1.contains("node 1 (pid 101) ended without mg_init"), "at once");
    gone.nodes[1].closed = false;
    let missed = gone.lost(0, 1).exit_again(0, 9_000, 75);
    assert!(over(&missed, 10_000).1.contains("node 1 (pid 101) ended without mg_init"));
}

#[test]
fn a_daemon_ends_with_its_channel_and_its_last_words_say_how() {
    let joined = || {
        let mut facts = daemons(2, 5_000);
        for node in &mut facts.nodes {
            node.init = Init::Done { by: node.pid + 900 };
        }
        facts
    };
    let mut facts = joined();
    facts.nodes[1].closed = true;
    assert_eq!(over(&facts, 1_100).1, "node 1 (pid 1001) left without mg_finalize; the job ends");
    facts.nodes[1].crash = Some((libc::SIGSEGV, "at address 0x8".into()));
    let (code, line) = over(&facts, 1_100);
    assert!(code == 139 && line.contains("node 1 (pid 1001) was killed by signal 11"), "{line}");
    // Node 0 has noticed, and its end was seen first.
    let mut facts = facts.lost(0, 1);
    facts.nodes[0].closed = true;
    assert_eq!(over(&facts, 1_100).0, 139);
    facts.nodes[1].crash = None;
    facts.nodes[1].fatal = Some("the guard failed".into());
    let line = "node 1 (pid 1001) failed: the guard failed; the job ends".to_owned();
    assert_eq!(over(&facts, 1_100), (70, line));
    let mut alone = joined().lost(0, 1);
    alone.nodes[0].closed = true;
    let line = "node 1 (pid 1001) was lost by node 0: connection reset; the job ends".to_owned();
    assert_eq!(over(&alone, 1_100), (75, line));
}

#[test]
fn the_only_node_has_to_call_mg_finalize_too() {
    let facts = job(1).exit(0, 100, 0);
    assert_eq!(judge(&facts, ms(100)), Decision::Wait(ms(1100)), "its word may be under way");
    let line = "node 0 (pid 100) left without mg_finalize; the job ends";
    assert_eq!(over(&facts, 1100), (1, line.to_owned()));
    assert_eq!(over(&job(2).exit(0, 100, 0).exit(1, 200, 0), 1100).0, 1);
    assert_eq!(over(&job(1).leave(0, 100), 100).0, 0);
}

#[test]
fn an_early_exit_is_blamed_for_its_consequences_but_not_for_a_crash() {
    let early = job(3).exit(1, 100, 0).lost(0, 1).exit(0, 110, 75);
    assert!(over(&early, 110).1.contains("node 1 (pid 101) left without mg_finalize"));
    assert!(over(&early.kill(2, 120, 11), 120).1.contains("node 2 (pid 102) was killed"));
}

#[test]
fn a_forwarded_signal_is_the_cause_of_deaths_by_it() {
    let mut facts = job(2);
    facts.forwarded = Some(2);
    assert_eq!(over(&facts.clone().kill(1, 5, 2), 5), (130, "the job was ended by SIGINT".into()));
    // A program that handles the signal may choose how to end.
    assert_eq!(over(&facts.clone().leave(0, 5).leave(1, 6), 6), (0, String::new()));
    assert_eq!(over(&facts.exit(0, 5, 4), 5).0, 4);
}

#[test]
fn orders_of_the_launcher_come_first() {
    let mut facts = job(2).kill(0, 5, 9);
    facts.ended_by = Some(EndedBy::Timeout(ms(1500)));
    assert_eq!(over(&facts, 5), (124, "time-out after 1.5 s; the job ends".into()));
    facts.waiting = Some("node 1 waits in barrier 1".into());
    let line = "time-out after 1.5 s (node 1 waits in barrier 1); the job ends";
    assert_eq!(over(&facts, 5), (124, line.into()));
    facts.races = 2;
    let line = "time-out after 1.5 s, and 2 races were reported; exit code 66";
    assert_eq!(over(&facts, 5), (66, line.into()));
    facts.ended_by = Some(EndedBy::Signal(2));
    assert_eq!(over(&facts, 5).0, 130);
    facts.ended_by = Some(EndedBy::Unread);
    assert_eq!(over(&facts, 5), (141, String::new()));
}

#[test]
fn of_a_chain_of_losses_the_first_is_named_whoever_ended_first() {
    // The connection of 2 and 0 was cut; 3 noticed the end of 2, and ended before it; then 0 noticed.
    let facts = job(4).lost(2, 0).lost(3, 2).lost(0, 3).exit(3, 5, 75).exit(2, 6, 75);
    let (code, line) = over(&facts, 1005);
    assert_eq!(code, 75);
    assert!(line.starts_with("node 0 (pid 100) was lost by node 2"), "{line}");
}

/// Node 1 is another program, which node 0 has noticed; by the clocks of the hosts, node 2 has noticed the end of node 0 before.
#[test]
fn of_a_chain_of_losses_over_hosts_the_one_that_lost_nobody_is_named() {
    let mut facts = job(3).lost(2, 0).lost(0, 1).exit(2, 5, 75).exit(0, 6, 75);
    assert!(over(&facts, 1005).1.starts_with("node 1 (pid 101) was lost by node 0"));
    facts.nodes[1].closed = true;
    let (code, line) = over(&facts, 1005);
    assert!(code == 1 && line.starts_with("node 1 (pid 101) left without mg_finalize"), "{line}");
}

#[test]
fn of_two_that_did_not_meet_the_one_that_tried_is_believed() {
    let mut facts = job(2).lost(0, 1).exit(0, 5, 75).lost(1, 0).exit(1, 900, 75);
    let mut says = |rank: usize, text: &str| {
        let loss = facts.nodes[rank].lost.as_mut().unwrap();
        (loss.at, loss.text) = (ms(rank as u64), text.to_owned());
    };
    says(0, "not all nodes came up in 30 s; still missing: 1");
    says(1, "cannot connect to node 0 at tcp:10.1.0.2:31000: Connection timed out");
    let (code, line) = over(&facts, 1005);
    assert_eq!(code, 75);
    assert!(line.starts_with("node 0 (pid 100) was lost by node 1: cannot connect"), "{line}");
}

#[test]
fn a_node_that_says_why_it_ends_is_quoted() {
    let mut facts = job(2).exit(1, 5, 70);
    facts.nodes[1].fatal = Some("the guard failed".to_owned());
    let line = "node 1 (pid 101) failed: the guard failed; the job ends";
    assert_eq!(over(&facts, 5), (70, line.to_owned()));
}

#[test]
fn the_last_words_of_who_did_not_fail_first_are_not_repeated() {
    let mut facts = job(2).kill(0, 5, 9).exit(1, 6, 70);
    facts.nodes[1].fatal = Some("the guard failed".to_owned());
    assert!(over(&facts, 6).1.starts_with("node 0 (pid 100) was killed"));
}

#[test]
fn a_peer_that_was_cut_off_is_blamed_with_the_reason_whatever_it_did_then() {
    let mut facts = job(3).lost(0, 2).exit(0, 5, 75);
    let text = "broke the protocol: nonsense".to_owned();
    facts.nodes[0].lost = Some(Loss { at: ms(1), rank: 2, text });
    let line = "node 2 (pid 102) was lost by node 0: broke the protocol: nonsense; the job ends";
    assert_eq!(over(&facts.clone().exit(2, 6, 1), 6), (1, line.to_owned()));
    assert_eq!(over(&facts.clone(), 1005), (75, line.to_owned()), "it lives on");
    assert!(over(&facts.kill(2, 6, 9), 6).1.contains("was killed by signal 9"));
}

#[test]
fn a_sigkill_while_the_system_was_short_of_memory_says_where_that_is_counted() {
    let mut facts = job(2);
    facts.nodes[1].memory_kills = Some("/cg/memory.events".to_owned());
    let line = "node 1 (pid 101) was killed by signal 9 (SIGKILL), perhaps by the system for want of memory: \
                /cg/memory.events counts more since the start (dmesg says which); the job ends";
    assert_eq!(over(&facts.kill(1, 6, 9), 6), (137, line.to_owned()));
}

#[test]
fn a_peer_whose_program_uses_too_much_is_named_with_the_limit_and_no_word_of_the_protocol() {
    let mut facts = job(2).lost(1, 0).lost(0, 1).exit(1, 5, 75).exit(0, 6, 75);
    if let Some(loss) = &mut facts.nodes[0].lost {
        loss.text = "went beyond a limit: it uses more than 7 ids".to_owned();
    }
    let line =
        "node 1 (pid 101) went beyond a limit at node 0: it uses more than 7 ids; the job ends";
    assert_eq!(over(&facts, 6), (75, line.to_owned()));
}

#[test]
fn a_node_that_never_joins_is_blamed_if_others_do() {
    let mut facts = job(3);
    for node in &mut facts.nodes {
        node.closed = node.pid == 102;
        node.init = if node.closed { Init::NotBegun } else { Init::Begun { by: node.pid } };
    }
    let facts = facts.exit(2, 100, 0);
    assert_eq!(judge(&facts, ms(200)), Decision::Wait(ms(1100)));
    let (code, line) = over(&facts, 1100);
    assert_eq!(code, 1);
    assert_eq!(line, "node 2 (pid 102) ended without mg_init, while others joined; the job ends");
    let lost = facts.lost(0, 2).exit(0, 110, 75);
    assert!(over(&lost, 110).1.contains("node 2 (pid 102) ended without mg_init"));
}

#[test]
fn who_was_cut_off_may_notice_it_before_the_other_has_said_why() {
    let mut facts = job(2).lost(1, 0).lost(0, 1).exit(1, 5, 75).exit(0, 6, 75);
    if let Some(loss) = &mut facts.nodes[0].lost {
        loss.text = "broke the protocol: nonsense".to_owned();
    }
    let line = "node 1 (pid 101) was lost by node 0: broke the protocol: nonsense; the job ends";
    assert_eq!(over(&facts, 6), (75, line.to_owned()));
}

#[test]
fn why_nodes_could_not_join_is_said_once() {
    let mut facts = job(4).exit(2, 100, 3);
    let errors = [(1, "no guard"), (2, "no room"), (3, "no guard")];
    facts.join_errors = errors.map(|(rank, why)| (rank, why.to_owned())).into();
    let (code, line) = over(&facts, 100);
    assert_eq!(code, 3);
    assert_eq!(
        line,
        "node 2 (pid 102) exited with code 3 since its mg_init failed: no room; the job ends"
    );
    assert_eq!(facts.unsaid_join_errors(Some(&line)), ["mg_init of node 1 and 1 more: no guard"]);
    assert_eq!(facts.unsaid_join_errors(None).len(), 2);
}

#[test]
fn a_job_is_not_over_before_it_is_known_how_its_nodes_ended() {
    let mut facts = job(2).leave(0, 100);
    facts.nodes[1].init = Init::Done { by: 7 };
    facts = facts.exit(1, 50, 0);
    (facts.nodes[1].left, facts.nodes[1].closed) = (true, true);
    assert_eq!(judge(&facts, ms(200)), Decision::Wait(ms(1050)));
    assert_eq!(over(&facts, 1050).0, 0, "nobody can say");
    facts.nodes[1].pid = 7;
    assert_eq!(over(&facts.exit(1, 210, 9), 210).0, 9);
}

/// Numbers from a seed (Knuth's linear congruential generator).
struct RandomFacts(u64);

impl RandomFacts {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn maybe<T>(&mut self, times: usize, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(times).then(|| value(self))
    }

    fn time(&mut self) -> Duration {
        if self.one_in(20) { Duration::MAX } else { ms(self.below(3_000) as u64) }
    }

    fn code(&mut self) -> i32 {
        [0, 0, 0, 1, 70, 75, 134, i32::MIN, i32::MAX][self.below(9)]
    }

    fn signal(&mut self) -> i32 {
        [6, 7, 9, 11, 15, 64, i32::MAX][self.below(7)]
    }

    fn status(&mut self) -> Status {
        match self.below(8) {
            0 => Status::Lost,
            1 | 2 => Status::Killed { signal: self.signal(), core: self.one_in(2) },
            _ => Status::Exited(self.code()),
        }
    }

    fn text(&mut self) -> String {
        let beyond = format!("{BEYOND_LIMIT}: more");
        ["", "gone", "broke the protocol: x", &beyond, "not all nodes came"][self.below(5)]
            .to_owned()
    }

    /// What a node and its agent may say of a node, whatever they are.
    fn node(&mut self, order: usize) -> NodeFacts {
        let init = match self.below(3) {
            0 => Init::NotBegun,
            1 => Init::Begun { by: [100, 900][self.below(2)] },
            _ => Init::Done { by: [100, 900][self.below(2)] },
        };
        NodeFacts {
            pid: 100,
            host: self.maybe(2, |_| "b".to_owned()),
            init,
            left: self.one_in(2),
            lost: self.maybe(3, |random| Loss {
                at: random.time(),
                rank: random.below(6),
                text: random.text(),
            }),
            closed: self.one_in(2),
            fatal: self.maybe(8, Self::text),
            crash: self.maybe(8, |random| (random.signal(), random.text())),
            memory_kills: self.maybe(8, Self::text),
            end: self.maybe(2, |random| End {
                at: ms(random.below(3_000) as u64),
                order,
                status: random.status(),
            }),
        }
    }

    fn facts(&mut self) -> Facts {
        let nodes = 1 + self.below(4);
        Facts {
            nodes: (0..nodes).map(|order| self.node(order)).collect(),
            join_errors: self
                .maybe(4, |random| (random.below(nodes), random.text()))
                .into_iter()
                .collect(),
            heard: self
                .maybe(2, |random| (random.below(nodes), random.time()))
                .into_iter()
                .collect(),
            races: self.below(3),
            forwarded: self.maybe(4, Self::signal),
            join_wait: ms(self.below(2_000) as u64),
            ..Facts::default()
        }
    }
}

/// Nodes and agents say what they like; lines of verdicts are for people, and codes for scripts.
#[test]
fn whatever_is_said_of_nodes_a_verdict_is_whole_and_comes() {
    for seed in 0..50_000 {
        let mut random = RandomFacts(seed);
        let facts = random.facts();
        let well = |node: &NodeFacts| {
            node.is_over() && node.end.is_some_and(|end| end.status == Status::Exited(0))
        };
        for now in [Duration::ZERO, random.time(), Duration::from_secs(3_600)] {
            match judge(&facts, now) {
                Decision::Over(Verdict { code: 0, .. }) => {
                    assert!(facts.nodes.iter().all(well), "{seed}: success: {facts:?}");
                }
                Decision::Over(verdict) => assert!(verdict.line.is_some(), "{seed}: {facts:?}"),
                Decision::Wait(until) => assert!(until > now, "{seed} {now:?}: {facts:?}"),
                Decision::Running => {
                    assert!(!facts.nodes.iter().all(NodeFacts::is_over), "{seed}: {facts:?}");
                }
            }
        }
    }
}
