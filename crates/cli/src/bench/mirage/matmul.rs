//! Matrix multiplication by a master and workers (Table 6, Figure 7).

use super::job::{Counts, Network, Programs, Sites};
use crate::bench::samples::median;
use crate::bench::table::Table;
use anyhow::Result;
use serde::Serialize;

/// Table 6, seconds by sites from 2 to 7: without compression, and with it.
const PAPER: [(u32, [f64; 6], [f64; 6]); 8] = [
    (60, [2.4, 1.3, 1.3, 2.4, 2.6, 3.7], [1.9, 1.3, 0.8, 0.7, 0.7, 0.7]),
    (120, [13.9, 7.3, 5.2, 5.8, 5.3, 5.8], [13.4, 7.0, 5.8, 3.7, 3.5, 2.7]),
    (180, [46.9, 24.2, 16.7, 14.2, 13.0, 12.7], [46.1, 23.5, 15.9, 12.2, 10.1, 8.5]),
    (240, [108.8, 55.6, 37.7, 30.3, 25.8, 23.4], [107.7, 54.8, 36.7, 27.9, 22.6, 19.4]),
    (300, [221.6, 113.4, 77.3, 60.4, 50.5, 43.4], [218.2, 111.3, 74.7, 53.4, 46.1, 38.8]),
    (360, [378.9, 193.3, 131.4, 101.4, 82.7, 70.0], [376.4, 191.3, 128.3, 97.1, 78.3, 66.1]),
    (420, [596.2, 305.9, 206.9, 157.8, 128.0, 108.8], [596.2, 302.9, 202.9, 152.8, 123.3, 103.4]),
    (480, [892.2, 453.7, 305.1, 232.1, 182.8, 159.1], [889.8, 451.9, 301.5, 226.8, 182.8, 152.6]),
];
pub(super) const SITES: [u32; 6] = [2, 3, 4, 5, 6, 7];
/// What compresses the numbers of these matrices, whose upper halves are alike; run-length code finds next to
/// nothing in them.
pub(super) const CODEC: &[&str] = &["--segment-compression", "zstd"];

/// One size on one network.
#[derive(Debug, Serialize)]
struct Size {
    size: u32,
    network: Network,
    /// One process with the kernel's segment: no sites.
    alone_ms: f64,
    sites: Vec<OfSites>,
}

#[derive(Debug, Serialize)]
struct OfSites {
    sites: u32,
    plain: Product,
    compressed: Product,
}

/// Medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Product {
    pub(super) ms: f64,
    pub(super) counts: Counts,
}

#[derive(Debug, Serialize)]
pub(super) struct Matmul {
    sizes: Vec<Size>,
}

pub(super) fn measure(programs: &Programs, runs: u32, quick: bool) -> Result<Matmul> {
    let mut sizes = Vec::new();
    for (size, ..) in PAPER {
        let (sites, runs) = if quick { (&SITES[..2], 1) } else { (&SITES[..], runs) };
        if !quick || size == 60 {
            sizes.push(Size::measure(programs, size, Network::Here, (sites, runs))?);
        }
    }
    for size in if quick { &[][..] } else { &[60, 180] } {
        sizes.push(Size::measure(programs, *size, Network::Paper, (&[2, 4], 1))?);
    }
    Ok(Matmul { sizes })
}

/// One product of so many runs.
pub(super) fn product(
    programs: &Programs,
    sites: Sites<'_>,
    (size, runs): (u32, u32),
) -> Result<Product> {
    let size = size.to_string();
    let (mut times, mut counts) = (Vec::new(), Counts::default());
    for _ in 0..runs {
        let ran = programs.run(sites, "matmul", &["--size", &size])?;
        times.push(ran.number(" s: ok")? * 1e3);
        counts = ran.counts;
    }
    Ok(Product { ms: median(times), counts })
}

impl Size {
    fn measure(
        programs: &Programs,
        size: u32,
        network: Network,
        (sites, runs): (&[u32], u32),
    ) -> Result<Self> {
        let input = (size, runs);
        let alone_ms = product(programs, Sites::Native, input)?.ms;
        let mut all = Vec::new();
        for &sites in sites {
            let plain = product(programs, Sites::Nodes(sites, network, &[]), input)?;
            let compressed = product(programs, Sites::Nodes(sites, network, CODEC), input)?;
            all.push(OfSites { sites, plain, compressed });
        }
        Ok(Self { size, network, alone_ms, sites: all })
    }

    /// Times, what they are to one process, and counts.
    fn rows(&self, table: &mut Table) {
        let size = self.size;
        let mut row = |name: &str, alone: String, cell: &dyn Fn(&OfSites) -> String| {
            let own = [format!("{size} x {size}"), name.to_owned(), alone];
            let mut cells: Vec<String> = own.into();
            for sites in SITES {
                let found = self.sites.iter().find(|of| of.sites == sites);
                cells.push(found.map_or_else(String::new, cell));
            }
            table.row(cells);
        };
        let kib = |counts: Counts| format!("{:.0}", counts.page_bytes / 1024.0);
        row("ms", millis(self.alone_ms), &|of| millis(of.plain.ms));
        row("ms, zstd", String::new(), &|of| millis(of.compressed.ms));
        row("speed-up", "1".to_owned(), &|of| format!("{:.2}", self.alone_ms / of.plain.ms));
        row("pages", String::new(), &|of| format!("{:.0}", of.plain.counts.pages));
        row("messages", String::new(), &|of| format!("{:.0}", of.plain.counts.messages));
        row("KiB of pages", String::new(), &|of| kib(of.plain.counts));
        row("KiB, zstd", String::new(), &|of| kib(of.compressed.counts));
        if let Some((_, plain, compressed)) = PAPER.iter().find(|(of, ..)| *of == size) {
            for (name, times) in [("paper, s", plain), ("paper, s, compressed", compressed)] {
                let at = |of: u32| SITES.iter().position(|&sites| sites == of);
                let cell = |of: &OfSites| at(of.sites).map_or(0.0, |at| times[at]).to_string();
                row(name, String::new(), &cell);
            }
        }
    }
}

fn millis(ms: f64) -> String {
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

impl Matmul {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for network in Network::BOTH {
            let sites = SITES.iter().map(|sites| format!("{sites} sites"));
            let heads = ["matrix", "", "alone"].map(str::to_owned);
            let mut table = Table::new(heads.into_iter().chain(sites));
            let mut sizes = self.sizes.iter().filter(|size| size.network == network).peekable();
            if sizes.peek().is_none() {
                continue;
            }
            sizes.for_each(|size| size.rows(&mut table));
            text.push_str(&format!(
                "Table 6, Figure 7: matrix multiplication by a master and workers, {}; alone: one process, no sites. Counts are of the whole \
                 program, in which each site then compares all matrices\n{}\n",
                network.name(),
                table.render()
            ));
        }
        text
    }

    /// For Figure 7: speed-up by sites.
    pub(super) fn speed_ups(&self, size: u32, compressed: bool) -> Vec<(f64, f64)> {
        let here = |of: &&Size| of.size == size && of.network == Network::Here;
        let Some(of) = self.sizes.iter().find(here) else { return Vec::new() };
        let point = |sites: &OfSites| {
            let product = if compressed { sites.compressed } else { sites.plain };
            (f64::from(sites.sites), of.alone_ms / product.ms)
        };
        of.sites.iter().map(point).collect()
    }
}

/// The same of the paper, against one worker.
pub(super) fn paper_speed_ups(size: u32) -> Vec<(f64, f64)> {
    let Some((_, times, _)) = PAPER.iter().find(|(of, ..)| *of == size) else { return Vec::new() };
    let points = SITES.iter().zip(times).map(|(&sites, time)| (f64::from(sites), times[0] / time));
    points.collect()
}
