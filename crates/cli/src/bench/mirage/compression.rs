//! Pages that go compressed (Table 4, Figure 4).

use super::job::{Measuring, Network, row};
use crate::bench::row::Row;
use crate::bench::table::{Table, micros};
use anyhow::Result;
use serde::Serialize;

pub(super) const CODECS: [&str; 4] = ["none", "rle", "lz4", "zstd"];
const PACKET_BYTES: f64 = 1024.0;
/// Table 4: what is written, and its times with compression and its gain.
const PACKETS: [(&str, &str, &str); 4] = [
    ("upto-896", "10.5", "47.2"),
    ("upto-1920", "13.5", "32.2"),
    ("upto-2944", "17.1", "14.1"),
    ("upto-4096", "21.3", "-7.0"),
];

#[derive(Debug, Serialize)]
pub(super) struct Compression {
    here: Vec<Row>,
    paper: Vec<Row>,
}

pub(super) fn measure(quick: bool) -> Result<Compression> {
    let program = if quick { "packets" } else { "patterns" };
    let samples = if quick { 16 } else { 128 };
    let here = Measuring { program, nodes: 2, samples, batch: 16, largest: 4096 };
    let far = Measuring { samples: 2, batch: 2, ..here };
    Ok(Compression { here: here.rows(Network::Here, &[])?, paper: far.rows(Network::Paper, &[])? })
}

impl Compression {
    const fn rows(&self, network: Network) -> &Vec<Row> {
        match network {
            Network::Here => &self.here,
            Network::Paper => &self.paper,
        }
    }

    pub(super) fn text(&self) -> Result<String> {
        Ok(self.packets()? + &self.patterns()?)
    }

    /// Table 4.
    fn packets(&self) -> Result<String> {
        let mut text = String::new();
        for network in Network::BOTH {
            let heads = [
                "packets by rle",
                "paper, ms",
                "gain, %",
                "none, us",
                "rle, us",
                "gain, %",
                "lz4, us",
                "zstd, us",
                "rle, bytes",
                "lz4",
                "zstd",
                "plain socket of rle's bytes, us",
            ];
            let mut table = Table::new(heads);
            for (pattern, paper, gain) in PACKETS {
                let [none, rle, lz4, zstd] = self.of(network, pattern)?;
                let time = |row: &Row| micros(row.ours.median_us);
                let bytes = |row: &Row| format!("{:.0}", bytes(row));
                let packets = format!("{:.0}", packets(rle));
                let ours = 100.0 * (1.0 - rle.ours.median_us / none.ours.median_us);
                let floor = rle.floor.as_ref().map_or(0.0, |floor| floor.time.median_us);
                let mut cells = vec![packets, paper.to_owned(), gain.to_owned()];
                cells.extend([time(none), time(rle), format!("{ours:.1}"), time(lz4), time(zstd)]);
                cells.extend([bytes(rle), bytes(lz4), bytes(zstd), micros(floor)]);
                table.row(cells);
            }
            text.push_str(&format!(
                "Table 4: a remote page fault by the packets of 1 KiB that its page compresses to (896, 1,920, 2,944 and 4,096 bytes of 4,096 \
                 written), {}\n{}\n",
                network.name(),
                table.render()
            ));
        }
        text.push_str(
            "The times of encoders and decoders by themselves are in ADR 52 (cargo bench --bench codecs); Figure 2 is \
             calculated from them in the paper.\n\n",
        );
        Ok(text)
    }

    /// Figure 4.
    fn patterns(&self) -> Result<String> {
        let heads =
            ["", "none", "rle", "lz4", "zstd", "rle", "lz4", "zstd", "none", "rle", "lz4", "zstd"];
        let mut table = Table::new(heads);
        let mut last = String::new();
        for row in &self.here {
            let Some((pattern, _)) = row.key.rsplit_once('-') else { continue };
            if pattern == last {
                continue;
            }
            last = pattern.to_owned();
            let (here, paper) =
                (self.of(Network::Here, pattern)?, self.of(Network::Paper, pattern)?);
            let mut cells = vec![last.clone()];
            cells.extend(here.map(|row| micros(row.ours.median_us)));
            cells.extend(here.iter().skip(1).map(|row| format!("{:.0}", bytes(row))));
            cells.extend(paper.map(|row| format!("{:.1}", row.ours.median_us / 1e3)));
            table.row(cells);
        }
        Ok(format!(
            "Figure 4: remote page faults of EachN, UptoN and RandN: us here, bytes a page here, ms on {}\n{}\
             The paper: compression pays from EachN 11, up to UptoN 3 KiB and RandN 650.\n\n",
            Network::Paper.name(),
            table.render()
        ))
    }

    /// By codec.
    fn of(&self, network: Network, pattern: &str) -> Result<[&Row; 4]> {
        let [none, rle, lz4, zstd] =
            CODECS.map(|codec| row(self.rows(network), &format!("{pattern}-{codec}")));
        Ok([none?, rle?, lz4?, zstd?])
    }

    /// For Figure 4: each pattern's number, and milliseconds on the paper's network.
    pub(super) fn points(&self, pattern: &str, codec: &str) -> Vec<(f64, f64)> {
        let found = self.paper.iter().filter_map(|row| {
            let n = row.key.strip_prefix(pattern)?.strip_prefix('-')?.strip_suffix(codec)?;
            let n = n.strip_suffix('-')?.parse().ok()?;
            Some((n, row.ours.median_us / 1e3))
        });
        found.collect()
    }
}

/// Of a page, as it was sent.
fn bytes(row: &Row) -> f64 {
    row.counts.unwrap_or_default().page_bytes
}

/// What the paper's network would have carried them in.
pub(super) fn packets(row: &Row) -> f64 {
    (bytes(row) / PACKET_BYTES).ceil()
}
