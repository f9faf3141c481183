//! Jacobi iteration on a grid: each node has a band of rows, and only the edges of bands travel.
//!
//! ```text
//! cargo build --release -p multigrain --examples
//! multigrain run -n 4 target/release/examples/jacobi [SIZE [STEPS]]
//! ```

use std::process::ExitCode;

use multigrain::{Grain, Job, Region, Result, SharedSlice};

fn main() -> ExitCode {
    multigrain::run(solve)
}

fn solve(job: &Job) -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap_or(0));
    let size = numbers.next().unwrap_or(512).max(3);
    let steps = numbers.next().unwrap_or(100);

    // A minipage a row, whatever its length: bands never share one.
    let row_bytes = (size * size_of::<f64>()).next_multiple_of(4096);
    let width = row_bytes / size_of::<f64>();
    let rows = |name: &str| -> Result<SharedSlice<'_, f64>> {
        job.share(name, || job.alloc_slice(size * width, Grain::Bytes(row_bytes)))
    };
    let (mut old, mut new) = (rows("even")?, rows("odd")?);

    let inner = size - 2;
    let band = 1 + inner * job.node() / job.nodes()..1 + inner * (job.node() + 1) / job.nodes();
    if job.node() == 0 {
        // The upper edge is hot.
        old.slice(..size).fill(1.0);
        new.slice(..size).fill(1.0);
    }
    job.barrier(0)?;

    let mut above = vec![0.0; size];
    let mut here = vec![0.0; size];
    let mut below = vec![0.0; size];
    let mut out = vec![0.0; size];
    for step in 0..steps {
        if !band.is_empty() {
            // The neighbour's edge is on its way while the first rows are computed.
            old.slice(band.end * width..band.end * width + size).prefetch_read()?;
        }
        for row in band.clone() {
            old.read((row - 1) * width, &mut above);
            old.read(row * width, &mut here);
            old.read((row + 1) * width, &mut below);
            for x in 1..size - 1 {
                out[x] = 0.25 * (above[x] + below[x] + here[x - 1] + here[x + 1]);
            }
            new.write(row * width, &out);
        }
        job.barrier(0)?;
        std::mem::swap(&mut old, &mut new);
        if job.node() == 0 {
            job.progress(step as u64 + 1, steps as u64);
        }
    }
    if job.node() == 0 {
        let sum: f64 = old.chunks(width).flat_map(|row| row.slice(..size).values()).sum();
        println!("{sum:.9}");
    }
    Ok(())
}
