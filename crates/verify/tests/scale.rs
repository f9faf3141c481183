//! Projections: what the patterns send is what the applications send, and they are repeatable.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_types::Placement;
use multigrain_verify::scale::apps::{Barriers, Copies, Is, Jacobi, Lu, Sor, Water, small};
use multigrain_verify::scale::{Costs, Hosts, Pattern, Plan, Projection, project};

const COSTS: Costs = Costs {
    latency_ns: 0,
    byte_ps: 350,
    send_ns: 2_500,
    service_ns: 3_500,
    fault_ns: 8_000,
    wake_ns: 20_000,
};

fn plan(pattern: &dyn Pattern, nodes: u16) -> Plan<'_> {
    Plan {
        pattern,
        nodes,
        element_ns: 2.0,
        costs: COSTS,
        hosts: Hosts::OWN,
        invalidations: TreeShape::default(),
        placement: Placement::Allocator,
        most_rounds: 4,
    }
}

fn run(pattern: &dyn Pattern, nodes: u16) -> Projection {
    project(&plan(pattern, nodes)).unwrap()
}

#[test]
fn sor_on_two_nodes_sends_what_its_formula_says() {
    for iterations in [1, 2, 5, 100] {
        let sor = Sor { rows: 8192, columns: 64, iterations };
        let result = run(&sor, 2);
        let sweeps = 2 * u64::from(iterations);
        // In every sweep each node reads the other's edge and writes its own, which the other has
        // read: but for node 1 in the first sweep.
        assert_eq!((result.read_faults, result.write_faults), (2 * sweeps, 2 * sweeps - 1));
        // Node 1's read and upgrade: request, reply, ack. Node 0 manages: its read is a forward and
        // a page, its upgrade an invalidation and the answer. It finds the edge of node 1 in an
        // open transaction and asks for the ack.
        // A barrier is two messages.
        let (first, sweep, barrier) = (3 + 2 + 2, 3 + 3 + 1 + 2 + 2, 2);
        let messages = first + (sweeps - 1) * sweep + (sweeps + 1) * barrier;
        assert_eq!(result.messages, messages);
        assert_eq!(result.bytes, 40 * messages + 256 * 2 * sweeps);
    }
}

/// Virtual nanoseconds and messages of a barrier of so many nodes.
fn barrier(nodes: u16) -> (u64, u64) {
    let count = 6;
    let result = project(&Plan {
        costs: Costs { latency_ns: 10_000, ..COSTS },
        most_rounds: count,
        ..plan(&Barriers { count }, nodes)
    });
    let result = result.unwrap();
    (result.ns / u64::from(count), result.messages / u64::from(count))
}

#[test]
fn a_barrier_takes_two_messages_a_node_and_a_time_that_grows_with_the_logarithm() {
    let nodes = [8, 64, 512, 1024];
    let results = nodes.map(barrier);
    println!("{results:?}");
    assert_eq!(
        results.map(|(_, messages)| messages),
        nodes.map(|nodes| 2 * (u64::from(nodes) - 1))
    );
    let [small, medium, large, largest] = results.map(|(ns, _)| ns);
    // Each level more costs about what the one before did, where one node that served all would cost eight times as much.
    let (second, third) = (medium - small, large - medium);
    assert!(third < 2 * second && second < 3 * small, "{results:?}");
    assert!(largest < 2 * large && largest < 7 * small, "{results:?}");
}

/// Virtual nanoseconds that a write of a page takes which so many nodes have.
fn write(nodes: u16, busy: bool, invalidations: TreeShape) -> u64 {
    let took = |written| {
        let costs = Costs { latency_ns: 10_000, ..COSTS };
        let pattern = Copies { count: 1, written, busy };
        project(&Plan { costs, invalidations, ..plan(&pattern, nodes) }).unwrap().ns
    };
    took(true) - took(false)
}

#[test]
fn a_write_of_what_many_nodes_have_takes_a_time_that_grows_with_the_logarithm() {
    let flat = TreeShape { beyond: u16::MAX, ..TreeShape::default() };
    for busy in [false, true] {
        let each = |shape| [64, 256, 1024].map(|nodes| write(nodes, busy, shape));
        let (trees, flat) = (each(TreeShape::default()), each(flat));
        println!("busy {busy}: {trees:?} by a tree, {flat:?} without");
        let [small, medium, large] = trees;
        assert!(medium < 2 * small && large < 2 * medium, "{trees:?}");
        assert!(trees.iter().zip(&flat).all(|(tree, flat)| tree * 10 <= flat * 9));
        assert!(large * 5 <= flat[2], "{trees:?} {flat:?}");
        // Few copies: as ever.
        assert_eq!(
            write(49, busy, TreeShape::default()),
            write(49, busy, TreeShape { beyond: u16::MAX, ..TreeShape::default() })
        );
    }
}

#[test]
fn patterns_send_what_the_applications_were_counted_to_send() {
    // Messages and bytes as `multigrain run -n N --learn off app-mg` printed them.
    let is = Is { keys_log2: 20, values_log2: 9, iterations: 10 };
    let lu = Lu { size: 1024, block: 32 };
    let jacobi = Jacobi { size: 1024, iterations: 50 };
    let water = Water { molecules: 512, steps: 3 };
    let counted: [(&dyn Pattern, u16, u64, u64); 8] = [
        (&is, 2, 978, 81_872),
        (&is, 4, 3_592, 268_352),
        (&lu, 2, 1_456, 2_216_832),
        (&lu, 4, 3_883, 4_472_504),
        (&jacobi, 2, 596, 834_848),
        (&jacobi, 4, 2_578, 2_536_144),
        (&water, 2, 30_058, 4_901_072),
        (&water, 4, 69_039, 9_733_080),
    ];
    for (pattern, nodes, messages, bytes) in counted {
        let result = run(pattern, nodes);
        for (ours, theirs) in [(result.messages, messages), (result.bytes, bytes)] {
            assert!(ours.abs_diff(theirs) * 50 <= theirs, "{pattern:?}, {nodes}: {result:?}");
        }
    }
}

#[test]
fn a_projection_is_the_same_every_time() {
    for pattern in small().iter().filter(|pattern| pattern.name() != "tsp") {
        assert_eq!(run(pattern.as_ref(), 5), run(pattern.as_ref(), 5), "{pattern:?}");
    }
}

#[test]
fn rounds_that_are_not_simulated_count_as_much_as_those_that_are() {
    for pattern in [
        &Jacobi { size: 1024, iterations: 24 } as &dyn Pattern,
        &Is { keys_log2: 16, values_log2: 9, iterations: 24 },
    ] {
        let few = run(pattern, 3);
        let all = project(&Plan { most_rounds: 24, ..plan(pattern, 3) }).unwrap();
        assert_eq!((few.read_faults, few.write_faults), (all.read_faults, all.write_faults));
        assert!(few.messages.abs_diff(all.messages) * 100 <= all.messages, "{few:?} {all:?}");
        assert!(few.ns.abs_diff(all.ns) * 100 <= all.ns, "{few:?} {all:?}");
    }
}

#[test]
fn nodes_that_share_one_core_take_as_long_as_one_node() {
    let jacobi = Jacobi { size: 1024, iterations: 4 };
    let alone = run(&jacobi, 1).ns;
    let hosts = Hosts { nodes: 4, cores: 1 };
    let shared = project(&Plan { hosts, ..plan(&jacobi, 4) }).unwrap().ns;
    assert!(shared > alone && run(&jacobi, 4).ns < alone / 2);
}

#[test]
fn every_pattern_runs_on_a_thousand_nodes() {
    let lu = Lu { size: 1024, block: 32 };
    let jacobi = Jacobi { size: 1024, iterations: 3 };
    let sor = Sor { rows: 2048, columns: 64, iterations: 2 };
    for pattern in [&lu as &dyn Pattern, &jacobi, &sor] {
        assert!(run(pattern, 1024).messages > 2 * 1023);
    }
    let water = Water { molecules: 64, steps: 1 };
    assert!(run(&water, 100).messages > 0);
}
