//! Collective operations of all threads of a job, or of some.

use multigrain::{Consistency, Job, Op, Party, Policy, Result};

use super::Scenario;

pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("broadcast", broadcast),
    ("sums for one and for all, and of those before", numbers),
    ("functions whose order counts", functions),
    ("atomic operations where the number lives", atomic_operations),
];

/// One thread a node.
fn a_thread_a_node(job: &Job) -> Party<'_> {
    job.party_of(3, job.nodes(), job.node())
}

fn broadcast(job: &Job) -> Result<()> {
    let all = a_thread_a_node(job);
    for root in 0..job.nodes() {
        let mut values = [[job.node(), 7]; 100];
        all.broadcast(root, &mut values)?;
        assert_eq!(values, [[root, 7]; 100]);
    }
    assert!(all.broadcast(job.nodes(), &mut [0]).is_err(), "no thread is at that place");
    Ok(())
}

fn numbers(job: &Job) -> Result<()> {
    let all = a_thread_a_node(job);
    let (me, nodes) = (job.node() as u64, job.nodes() as u64);
    // The sum of 1, 2 and so on, and the greatest.
    let sum_to = |place: u64| (place + 1) * (place + 2) / 2;
    for root in 0..job.nodes() {
        let mut sums = [me + 1, 2 * (me + 1)];
        all.reduce(Op::Sum, root, &mut sums)?;
        if job.node() == root {
            assert_eq!(sums, [sum_to(nodes - 1), 2 * sum_to(nodes - 1)]);
        }
        let mut least = [me as f64 - 0.5];
        all.reduce(Op::Min, root, &mut least)?;
        assert!(job.node() != root || least == [-0.5]);
    }
    let mut sums = [me + 1, 3];
    all.scan(Op::Sum, &mut sums)?;
    assert_eq!(sums, [sum_to(me), 3 * (me + 1)]);
    let mut greatest = [i32::try_from(me).unwrap() - 10];
    all.scan(Op::Max, &mut greatest)?;
    assert_eq!(greatest, [i32::try_from(me).unwrap() - 10]);
    Ok(())
}

/// What maps x to a * x + b, and then to c * that + d.
fn then([a, b]: [u64; 2], [c, d]: [u64; 2]) -> [u64; 2] {
    [a * c, b * c + d]
}

fn functions(job: &Job) -> Result<()> {
    let all = a_thread_a_node(job);
    let of = |place: usize| [place as u64 + 2, 10 + place as u64];
    let up_to = |place: usize| (0..=place).map(of).reduce(then).unwrap();
    let last = job.nodes() - 1;
    for root in 0..=last {
        let mut values = [of(job.node()), [1, 1]];
        all.reduce_with(root, &mut values, then)?;
        if job.node() == root {
            assert_eq!(values, [up_to(last), [1, job.nodes() as u64]]);
        }
    }
    let mut values = [of(job.node())];
    all.allreduce_with(&mut values, then)?;
    assert_eq!(values, [up_to(last)]);
    let mut values = [of(job.node()), [1, 1]];
    all.scan_with(&mut values, then)?;
    assert_eq!(values, [up_to(job.node()), [1, job.node() as u64 + 1]]);
    Ok(())
}

/// Under sequential consistency they are exact; elsewhere they are refused.
fn atomic_operations(job: &Job) -> Result<()> {
    let policy = Policy::new().consistency(Consistency::Sequential);
    let half = job.share("half", || job.alloc_with(0.0, policy))?;
    let most = job.share("most", || job.alloc_with(0_i32, policy))?;
    let owner = job.share("owner", || job.alloc_with(0_u64, policy))?;
    let guarded = job.share("guarded", || job.alloc_with(0_u64, policy))?;
    let (me, nodes) = (job.node() as u64 + 1, job.nodes());
    for round in 0..200 {
        half.fetch_op(Op::Sum, 0.5)?;
        most.fetch_op(Op::Max, round)?;
        while owner.compare_exchange(0, me)? != 0 {}
        guarded.set(guarded.get() + 1);
        assert_eq!(owner.exchange(0)?, me);
    }
    job.barrier(0)?;
    assert_eq!(half.get(), 100.0 * nodes as f64);
    assert_eq!((most.get(), guarded.get()), (199, 200 * nodes as u64));
    let relaxed = job.alloc_with(0_u64, Policy::new().consistency(Consistency::LazyRelease))?;
    let refused = relaxed.fetch_op(Op::Sum, 1).unwrap_err();
    assert!(refused.to_string().contains("release-consistent"), "{refused}");
    job.barrier(0)
}
