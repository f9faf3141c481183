//! `multigrain sim --shares`: how often each node gets a contended minipage, in virtual time.

use std::process::ExitCode;

use multigrain_verify::sim::contention::{Contention, compete, complaint, contentions};

pub(super) fn run() -> ExitCode {
    for contention in contentions() {
        let shares = match compete(&contention) {
            Ok(shares) => shares,
            Err(broken) => return fail(&contention, &broken.text),
        };
        println!(
            "{}: shares within {:.2}, longest wait {:.0} us, at most {} faults an operation",
            name(&contention),
            shares.ratio(),
            shares.longest_wait_ns as f64 / 1000.0,
            shares.most_faults
        );
        if let Some(text) = complaint(&contention, &shares) {
            return fail(&contention, &text);
        }
    }
    ExitCode::SUCCESS
}

fn name(contention: &Contention) -> String {
    let Contention { threads, manager, think_ns, readers, .. } = contention;
    let what = if *readers { "adds and reads" } else { "adds" };
    format!("threads {threads:?}, manager {manager}, {what}, {} us of thought", think_ns / 1000)
}

fn fail(contention: &Contention, text: &str) -> ExitCode {
    eprintln!("multigrain: sim: {}: {text}", name(contention));
    ExitCode::FAILURE
}
