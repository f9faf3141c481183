//! The table of MGS: every arc of Figure 22 and every message of Table 5 has a row, every
//! row that runs is reached, and docs/tables/mgs.md agrees with the table.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::{env, fs};

use multigrain_protocol::mgs::row_coverage::{self, Mark};
use multigrain_protocol::{Message, Words};

use super::figure_22::{ADDITIONS, MESSAGES, Ours, ROWS, Word};
use super::{faults, races, releases};
use crate::cluster::M;

type Scenario = (&'static str, fn());

macro_rules! scenarios {
    ($($module:ident: $($name:ident),* $(,)?;)*) => {
        [$($((stringify!($name), $module::$name as fn())),*),*]
    };
}

/// Every scenario under eager consistency but the refusals.
const SCENARIOS: &[Scenario] = &scenarios! {
    faults:
        paper_figure_22_a_read_miss_is_rreq_rdat_and_disturbs_nobody,
        paper_figure_22_a_write_miss_is_wreq_wdat_and_disturbs_nobody,
        paper_figure_22_an_upgrade_makes_a_twin_and_notifies_the_home_without_waiting,
        the_first_reader_takes_the_home_out_of_single_writer_mode,
        the_allocating_nodes_copy_goes_home_whole_for_it_has_no_twin,
        the_home_reads_and_writes_its_own_copy_without_bytes_and_without_a_twin,
        the_home_waits_for_a_single_writers_copy_like_any_client,
        threads_of_a_node_share_a_request,
        a_fault_that_is_served_already_sends_nothing,
        a_prefetch_asks_once_and_wakes_nobody,
        acks_pushes_and_frees_of_the_sequential_protocol_send_nothing;
    releases:
        a_release_of_nothing_costs_nothing,
        paper_s3_2_3_the_only_copy_is_granted_single_writer_mode,
        paper_s3_2_3_releases_ignore_a_copy_in_single_writer_mode,
        paper_s3_2_3_a_third_party_ends_single_writer_mode_and_is_served_after_the_diff,
        a_single_writer_with_readers_sends_its_page_and_keeps_it_read_only,
        the_next_write_of_a_kept_copy_asks_nobody,
        a_kept_copy_that_was_not_written_again_is_given_up_with_an_ack,
        two_writers_and_a_reader_are_invalidated_and_their_diffs_merged,
        three_writers_merge_three_diffs_once,
        the_home_writes_alone_without_a_message,
        the_home_in_single_writer_mode_gives_its_copy_up_without_a_diff,
        the_home_and_another_writer_cost_one_diff,
        a_release_of_several_minipages_asks_for_all_at_once_and_waits_for_all;
    races:
        requests_wait_at_the_home_until_the_release_has_ended,
        a_single_writer_that_others_wait_for_is_invalidated_at_once,
        a_release_before_its_senders_answer_joins_the_round,
        a_release_after_its_senders_answer_gets_a_round_of_its_own,
        an_invalidation_releases_what_was_written_and_not_released,
        an_upgrade_that_meets_an_invalidation_makes_the_kept_copy_old,
        an_old_kept_copy_brings_what_was_written_to_it_since,
        a_release_that_crosses_the_invalidation_of_an_old_kept_copy_joins_the_round,
        a_release_waits_for_an_older_one_of_its_node,
        a_release_passes_by_what_was_taken_off_the_queue_meanwhile,
        paper_figure_22_a_release_in_state_read_invalidates_the_readers,
        a_single_writer_invalidation_of_a_copy_not_written_since_is_answered_again;
};

/// Runs everything: of each row, the scenario that reaches it. Scenarios that do little come first,
/// so that the one named is the plainest.
fn reached() -> BTreeMap<Mark, &'static str> {
    let mut reached: BTreeMap<Mark, (&str, usize)> = BTreeMap::new();
    for &(name, scenario) in SCENARIOS {
        drop(row_coverage::take_reached());
        scenario();
        let marks = row_coverage::take_reached();
        for &mark in &marks {
            let plainest = reached.entry(mark).or_insert((name, marks.len()));
            if marks.len() < plainest.1 {
                *plainest = (name, marks.len());
            }
        }
    }
    reached.into_iter().map(|(mark, (name, _))| (mark, name)).collect()
}

/// The number of a message on the wire.
fn number(word: &Word) -> Option<u8> {
    word.ours.ok().map(|message| message.about(M).to_words().kind)
}

#[test]
fn paper_figure_22_every_arc_has_a_row() {
    for arc in 1..=36 {
        let rows = ROWS.concat();
        assert!(rows.iter().any(|row| row.arcs.contains(&arc)), "arc {arc} has no row");
    }
}

#[test]
fn paper_figure_22_every_row_that_runs_is_reached() {
    let reached = reached();
    let missing: Vec<_> = Mark::ALL.iter().filter(|mark| !reached.contains_key(mark)).collect();
    assert!(missing.is_empty(), "no scenario reaches {missing:?}");
    let rows = ROWS.concat();
    let marked = |mark| {
        rows.iter().any(|row| matches!(row.ours, Ours::Runs { mark: own, .. } if own == mark))
            || ADDITIONS.iter().any(|addition| addition.mark == mark)
    };
    let lonely: Vec<_> = Mark::ALL.iter().filter(|&&mark| !marked(mark)).collect();
    assert!(lonely.is_empty(), "no row speaks of {lonely:?}");
}

#[test]
fn paper_table_5_every_message_has_its_place() {
    assert_eq!(MESSAGES.len(), 20);
    let mut numbers: Vec<u8> = MESSAGES.iter().filter_map(number).collect();
    numbers.sort_unstable();
    let decoded = (0..=u8::MAX).filter(|&kind| {
        let words = Words { kind, ..Words::default() };
        matches!(Message::from_words(&words), Ok(Message::Mgs { .. }))
    });
    assert_eq!(numbers, decoded.collect::<Vec<_>>());
}

#[test]
fn docs_tables_mgs_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables/mgs.md");
    let text = page();
    if env::var_os("UPDATE_TABLES").is_some() {
        fs::write(path, &text).expect("docs/tables/mgs.md can be written");
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/tables/mgs.md is old; UPDATE_TABLES=1 cargo test -p multigrain-protocol writes it anew"
    );
}

/// The page docs/tables/mgs.md.
fn page() -> String {
    let reached = reached();
    let test = |mark| reached.get(&mark).map_or("-", |name| *name);
    let mut page = String::from(
        "# MGS, Figure 22 and Table 5: the paper's row and ours\n\n\
         Written by `UPDATE_TABLES=1 cargo test -p multigrain-protocol`, from the table in\n\
         crates/protocol/tests/golden/mgs/figure_22.rs and from what the golden tests reach. In the paper's\n\
         columns `+=` and `-=` add to and take from a set, `0` is the empty set, `+` between sets their\n\
         union. Under *here*: our event and the state it meets, then what is done; in italics, why this\n\
         hardware does not need the row. The last column names the plainest test that reaches the row.\n",
    );
    for (title, rows) in ["Local client and remote client", "Server"].iter().zip(ROWS) {
        let _ = write!(page, "\n## {title}\n\n");
        page += "| arc | event | precondition | side effects | out message | here | test |\n";
        page += "|---|---|---|---|---|---|---|\n";
        for row in rows {
            let arcs: Vec<_> = row.arcs.iter().map(u8::to_string).collect();
            let paper = [row.event, row.when, row.effects, row.sends].join(" | ");
            let (here, test) = match row.ours {
                Ours::Runs { event, does, mark } => (format!("{event}: {does}"), test(mark)),
                Ours::Spared { why } => (format!("*{why}*"), ""),
            };
            let _ = writeln!(page, "| {} | {paper} | {here} | {test} |", arcs.join(", "));
        }
    }
    page +=
        "\n## What Figure 22 does not have\n\n| here | does | why | test |\n|---|---|---|---|\n";
    for row in ADDITIONS {
        let _ =
            writeln!(page, "| {} | {} | {} | {} |", row.event, row.does, row.why, test(row.mark));
    }
    page += "\n## Messages (Table 5)\n\n| message | way | says | here | number |\n|---|---|---|---|---|\n";
    for word in MESSAGES {
        let here = match word.ours {
            Ok(message) => format!("`{message:?}`"),
            Err(why) => format!("*{why}*"),
        };
        let number = number(word).map_or_else(String::new, |number| number.to_string());
        let Word { name, way, says, .. } = word;
        let _ = writeln!(page, "| {name} | {way} | {says} | {here} | {number} |");
    }
    page
}
