//! Generated programs in random orders; and planted races and deadlocks, which must be found.

use super::generate::generate;
use super::program::{Group, Object, ObjectId, Pattern, Shape, Thread};
use super::program::{GroupId, Op, Program, Span, ThreadId};
use super::schedule::execute;
use super::setting::Setting;

#[test]
fn generated_programs_have_neither_races_nor_deadlocks_in_any_order() {
    for seed in 1..=40 {
        let setting = Setting::of_seed(seed);
        let program = generate(&setting, None);
        let initial_threads = usize::from(setting.nodes * setting.threads);
        for order in 0..3 {
            let done = execute(&program, initial_threads, order);
            assert_eq!(done, Ok(()), "seed {seed}, order {order}\n{}", program.show());
        }
    }
}

#[test]
fn all_operations_come_within_a_few_seeds() {
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 1..=60 {
        for op in generate(&Setting::of_seed(seed), None).sequence().map(|(.., op)| op) {
            let name = format!("{op:?}");
            kinds.insert(name.split([' ', '(']).next().unwrap().to_owned());
        }
    }
    assert_eq!(kinds.len(), 21, "{kinds:?}");
}

#[test]
fn a_program_cut_short_is_the_beginning_of_the_whole() {
    let setting = Setting::of_seed(5);
    let (short, whole) = (generate(&setting, Some(3)), generate(&setting, None));
    assert!(short.order.len() < whole.order.len());
    assert_eq!(short.order[..10], whole.order[..10]);
}

#[test]
fn a_sweep_can_be_cut_short_too() {
    let mut setting = Setting::of_seed(5);
    setting.sweeps = true;
    let (short, whole) = (generate(&setting, Some(2)), generate(&setting, None));
    assert!(short.order.len() * 4 < whole.order.len());
    assert_eq!(short.order[..40], whole.order[..40]);
}

/// Two initial threads on one object of 8 bytes, which the first allocates.
fn pair(first: &[Op], second: &[Op]) -> Program {
    let object = ObjectId(0);
    let place = Span { object, from: 0, bytes: 8 };
    let alloc = [Op::Alloc(object, Pattern::Fill(0)), Op::Post { id: 9, units: 1 }];
    let ops = [[&alloc, first].concat(), [&[Op::Down(9)], second].concat()];
    let order = [0, 1]
        .into_iter()
        .flat_map(|thread: usize| std::iter::repeat_n(ThreadId(thread), ops[thread].len()));
    let order = order.collect();
    Program {
        objects: vec![Object { bytes: 8, shape: Shape::Zeroed, consistency: None }],
        groups: vec![Group { lock: 1, condition: 1, places: vec![place], total: 10 }],
        threads: ops.into_iter().map(|ops| Thread { node: 0, ops }).collect(),
        order,
    }
}

fn outcomes(first: &[Op], second: &[Op]) -> Vec<String> {
    let program = pair(first, second);
    (0..20).filter_map(|order| execute(&program, 2, order).err()).collect()
}

#[test]
fn a_race_is_found_in_every_order_that_has_it_and_none_where_a_semaphore_orders() {
    let object = ObjectId(0);
    let read = Op::Read(Span { object, from: 3, bytes: 4 });
    let write = Op::Write(Span { object, from: 0, bytes: 4 }, Pattern::Fill(7));
    let races = outcomes(&[read], &[write]);
    assert!(races.iter().any(|why| why.contains("race with a write")), "{races:?}");
    assert!(races.iter().any(|why| why.contains("race with reads")), "{races:?}");
    let post = Op::Post { id: 5, units: 1 };
    assert_eq!(outcomes(&[write, post], &[Op::Down(5), read]), Vec::<String>::new());
}

#[test]
fn a_wait_that_nothing_ends_is_a_deadlock() {
    let hangs = outcomes(&[], &[Op::Down(5)]);
    assert!(hangs.len() == 20 && hangs[0].contains("deadlock"), "{hangs:?}");
    let bump = [Op::Lock(1), Op::Bump(GroupId(0), 5), Op::Unlock(1)];
    let wait = [Op::Lock(1), Op::Await(GroupId(0), 5), Op::Unlock(1)];
    // Some wait before the number grows, and nobody tells them.
    let hangs = outcomes(&bump, &wait);
    assert!(!hangs.is_empty() && hangs.len() < 20, "{hangs:?}");
    let signal = Op::Signal { condition: 1, all: false };
    let told = [&bump[..], &[signal]].concat();
    assert_eq!(outcomes(&told, &wait), Vec::<String>::new());
}
