//! The exports of a site against a model of the kernel: all that can happen in small worlds, and long ways by chance through
//! larger ones.
//!
//! The code that runs is the site's own; its kernel is [`kernel::Model`], and the order of things is chosen: which thread of which
//! process goes on before each call of the site to the kernel, which fault is served, and what the node takes away.

mod choices;
mod explore;
mod kernel;
mod processes;
mod random_programs;
mod world;

use explore::{explore, walk};
use processes::Step::{self, Add, Attach, Detach, End, Fork, Move, Read, Replace, Unmap};
use random_programs::Maker;
use world::{Budget, World};

const fn budget(takes: u32, remotes: u32, kills: u32) -> Budget {
    Budget { takes, remotes, kills }
}

/// Explores all of a world.
fn all_of(
    name: &str,
    programs: Vec<Vec<Step>>,
    images: &[&[usize]],
    pages: &[usize],
    budget: Budget,
) {
    let began = std::time::Instant::now();
    let found = explore(World::new(programs, images, pages, budget), 3_000_000);
    println!(
        "{name}: {} states, {} ways, depth {}, {:.1} s",
        found.states,
        found.ways,
        found.depth,
        began.elapsed().as_secs_f64()
    );
    if let Some((what, path)) = found.wrong {
        panic!("{name}: {what} after {} states: {path:#?}", found.states);
    }
}

#[test]
fn two_write_and_read_a_page_that_another_node_wants_too() {
    let programs = vec![
        vec![Attach(0, 0), Add(0, 0), Read(0, 0), Add(0, 0)],
        vec![Attach(0, 0), Read(0, 0), Add(0, 0)],
    ];
    all_of("two images", programs, &[&[0], &[1]], &[1], budget(2, 1, 0));
}

#[test]
fn a_child_writes_beside_its_parent() {
    let programs =
        vec![vec![Attach(0, 0), Add(0, 0), Fork(1), Add(0, 0)], vec![Add(0, 0), Add(0, 0)]];
    all_of("a fork", programs, &[&[0]], &[1], budget(2, 1, 0));
}

#[test]
fn a_grandchild_writes_what_its_parents_have_detached() {
    let programs = vec![
        vec![Attach(0, 0), Add(0, 0), Fork(1), Detach(0)],
        vec![Fork(2), Detach(0)],
        vec![Add(0, 0)],
    ];
    all_of("a fork of a fork", programs, &[&[0]], &[1], budget(2, 0, 0));
}

#[test]
fn two_detach_what_they_have_written() {
    let program = vec![Attach(0, 0), Add(0, 0), Detach(0)];
    all_of("two detach", vec![program], &[&[0], &[0]], &[1], budget(2, 1, 0));
}

#[test]
fn some_are_killed_at_any_time() {
    let programs =
        vec![vec![Attach(0, 0), Add(0, 0), Fork(1), Add(0, 0), Detach(0)], vec![Add(0, 0), End]];
    all_of("kills", programs, &[&[0]], &[1], budget(1, 0, 1));
}

#[test]
fn a_thread_detaches_what_another_one_uses() {
    let programs = vec![vec![Attach(0, 0), Detach(0)], vec![Read(0, 0), Add(0, 0)]];
    all_of("threads, detach", programs, &[&[0, 1]], &[1], budget(1, 0, 0));
}

#[test]
fn a_thread_forks_while_another_one_traps_and_attaches() {
    let programs =
        vec![vec![Attach(0, 0), Fork(2)], vec![Add(0, 0), Attach(0, 1)], vec![Add(0, 0)]];
    all_of("threads, fork", programs, &[&[0, 1]], &[1], budget(1, 0, 0));
}

#[test]
fn a_thread_replaces_what_another_one_uses() {
    let programs = vec![vec![Attach(0, 0), Replace(1, 0), Read(0, 0)], vec![Read(0, 0), Add(0, 0)]];
    all_of("threads, replaced", programs, &[&[0, 1]], &[1, 1], budget(1, 1, 0));
}

#[test]
fn a_mapping_moves_while_another_thread_uses_it() {
    let programs =
        vec![vec![Attach(0, 0), Add(0, 0), Move(0, 1), Add(1, 0)], vec![Attach(0, 0), Add(0, 0)]];
    all_of("a move", programs, &[&[0], &[1]], &[1], budget(2, 0, 0));
}

#[test]
fn pages_that_follow_each_other_go_together() {
    let programs =
        vec![vec![Attach(0, 0), Add(0, 0), Add(0, 1)], vec![Attach(0, 0), Read(0, 0), Read(0, 1)]];
    all_of("two pages", programs, &[&[0], &[1]], &[2], budget(1, 0, 0));
}

#[test]
fn a_part_is_unmapped_and_another_segment_takes_its_place() {
    let programs = vec![vec![Attach(0, 0), Unmap(0, 1), Add(0, 0), Attach(1, 9), Add(9, 0)]];
    all_of("a part", programs, &[&[0]], &[2, 1], budget(1, 0, 0));
}

#[test]
#[ignore = "a minute"]
fn larger_worlds() {
    let programs = vec![
        vec![Attach(0, 0), Fork(2), Add(0, 0)],
        vec![Add(0, 0), Attach(0, 1), Add(1, 0)],
        vec![Add(0, 0)],
    ];
    all_of("threads, fork, both go on", programs, &[&[0, 1]], &[1], budget(1, 0, 0));
    let programs = vec![
        vec![Attach(0, 0), Add(0, 0), Read(0, 0), Add(0, 0)],
        vec![Attach(0, 0), Read(0, 0), Add(0, 0)],
    ];
    all_of("two images, three takings", programs, &[&[0], &[1]], &[1], budget(3, 2, 0));
    let program = vec![Attach(0, 0), Add(0, 0), Detach(0)];
    all_of("two detach or are killed", vec![program], &[&[0], &[0]], &[1], budget(2, 1, 1));
}

/// MULTIGRAIN_SITE_RUNS says how many ways, MULTIGRAIN_SITE_SEED from which one on.
#[test]
fn long_ways_by_chance() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let runs: u64 = number("MULTIGRAIN_SITE_RUNS").unwrap_or(300);
    let first: u64 = number("MULTIGRAIN_SITE_SEED").unwrap_or(1);
    let (began, mut actions) = (std::time::Instant::now(), 0);
    for seed in first..first + runs {
        let mut maker = Maker::new(seed);
        let (one, other, beside) = (maker.program(40), maker.program(30), maker.beside(20));
        let kills = u32::try_from(seed % 3 / 2).unwrap();
        let programs = core::mem::take(&mut maker.programs);
        let images: [&[usize]; 2] = [&[one, beside], &[other]];
        let world = World::new(programs, &images, &random_programs::PAGES, budget(200, 60, kills));
        let (length, wrong) = walk(world, seed);
        actions += length;
        if let Some((what, path)) = wrong {
            panic!("seed {seed}: {what} after {length} actions: {path:?}");
        }
    }
    println!("{runs} ways, {actions} actions, {:.1} s", began.elapsed().as_secs_f64());
}
