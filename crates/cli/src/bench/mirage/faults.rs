//! What a page fault is made of, with a handshake and without, and who serves it (Tables 1 to 3, 4.6, 4.7).

use super::job::{self, Measuring, Network, memory, paper_network_ms, row};
use crate::bench::row::{Row, size_name};
use crate::bench::table::{Table, micros};
use anyhow::Result;
use serde::Serialize;

/// Options of a job, and which of the paper's ways they are.
const WAYS: [(&str, &[&str]); 5] = [
    ("server, handshake", &["--service", "blocked", "--handshake"]),
    ("server, blast", &["--service", "blocked"]),
    ("interrupt, blast", &["--service", "polling"]),
    ("helping, handshake", &["--handshake"]),
    ("helping, blast", &[]),
];
const HANDSHAKE: usize = 0;
const BLAST: usize = 1;
/// On the paper's network, where who serves decides nothing.
const PAPER_WAYS: [usize; 2] = [HANDSHAKE, BLAST];

/// Read copies, and the milliseconds of 4.7.
const INVALIDATIONS: [(&str, &str); 5] =
    [("0", ""), ("1", "4.6"), ("2", "6.8"), ("3", "7.0"), ("4", "8.2")];

/// All rows of one way on one network.
#[derive(Debug, Serialize)]
struct Fetches {
    way: &'static str,
    network: Network,
    rows: Vec<Row>,
}

/// The part.
#[derive(Debug, Serialize)]
pub(super) struct Faults {
    memory: Vec<Row>,
    fetches: Vec<Fetches>,
    invalidations: Vec<(Network, Vec<Row>)>,
}

pub(super) fn measure(quick: bool) -> Result<Faults> {
    let (samples, page) = (if quick { 16 } else { 512 }, 4 << 10);
    let here = Measuring { program: "faults", nodes: 2, samples, batch: 16, largest: 64 << 10 };
    let far = Measuring { samples: 8, batch: 4, largest: 16 << 10, ..here };
    let far = if quick { Measuring { largest: page, ..far } } else { far };
    let mut fetches = Vec::new();
    for (way, options) in WAYS {
        let network = Network::Here;
        fetches.push(Fetches { way, network, rows: here.rows(network, options)? });
    }
    for (way, options) in PAPER_WAYS.map(|way| WAYS[way]) {
        let network = Network::Paper;
        fetches.push(Fetches { way, network, rows: far.rows(network, options)? });
    }
    let mut invalidations = Vec::new();
    for (network, job) in [(Network::Here, here), (Network::Paper, far)] {
        let job = Measuring { nodes: if quick { 3 } else { 6 }, ..job };
        invalidations.push((network, job.rows(network, &[])?));
    }
    Ok(Faults { memory: memory(samples)?, fetches, invalidations })
}

impl Faults {
    fn of(&self, network: Network, way: usize) -> &[Row] {
        let found = self.fetches.iter().find(|of| of.network == network && of.way == WAYS[way].0);
        found.map_or(&[], |of| &of.rows)
    }

    pub(super) fn text(&self) -> Result<String> {
        let parts = [self.components()?, self.comparison()?, self.sizes()?];
        let more = [self.services()?, self.invalidations_text()?];
        Ok(parts.into_iter().chain(more).collect())
    }

    /// Tables 1 and 2. The parts are measured by themselves; what they leave is the protocol's.
    fn components(&self) -> Result<String> {
        let trap = us(&self.memory, "access-fault")?;
        let install = us(&self.memory, "set-protection-none-read")?;
        let parts = |way: usize| -> Result<[f64; 5]> {
            let rows = self.of(Network::Here, way);
            let (short, packet) = (us(rows, "raw-short")?, us(rows, "raw-packet")?);
            let fetch = row(rows, "read-fetch-4096")?;
            let whole = fetch.floor.as_ref().map_or(0.0, |floor| floor.time.median_us);
            let request = short / 2.0;
            // Three parts are acknowledged before the next; the last one is not waited for.
            let transfer =
                if way == HANDSHAKE { 4.0 * packet - short / 2.0 } else { whole - request };
            let total = fetch.ours.median_us;
            let rest = total - trap - request - transfer - install;
            Ok([trap + request, rest, transfer, install, total])
        };
        let (handshake, blast) = (parts(HANDSHAKE)?, parts(BLAST)?);
        let paper = [
            ("1. transfer request: trap, short message one way", "3.0", "3.0"),
            ("2. process request (here all that the others leave)", "1.4", "1.4"),
            ("3. transfer page in four packets (here over a plain socket)", "26.8", "15.0"),
            ("4. install page", "0.5", "0.5"),
            ("total", "31.7", "19.9"),
        ];
        let heads =
            ["component", "paper handshake, ms", "blast, ms", "ours handshake, us", "blast, us"];
        let mut table = Table::new(heads);
        for (index, (name, theirs, blasted)) in paper.into_iter().enumerate() {
            let ours = [handshake[index], blast[index]].map(micros);
            table.row(
                [name.to_owned(), theirs.to_owned(), blasted.to_owned()].into_iter().chain(ours),
            );
        }
        Ok(format!(
            "Tables 1 and 2: the component costs of a page fault, 4 KiB, --service blocked\n{}\
             The user's and the library's share of each are not had: the clocks of two processes are compared nowhere.\n\n",
            table.render()
        ))
    }

    /// Table 3.
    fn comparison(&self) -> Result<String> {
        let heads = [
            "operation",
            "Mirage, ms",
            "MIRAGE+ handshake, ms",
            "blast, ms",
            "ours handshake, us",
            "blast, us",
            "plain socket, us",
            "on its network: handshake, ms",
            "blast, ms",
        ];
        let mut table = Table::new(heads);
        let rows = [
            ("page fault (Mirage 512 B, else 4 KiB)", ["27.5", "31.7", "19.9"], "read-fetch-4096"),
            ("short message and answer (ours: an upgrade)", ["12.9", "5.5", "5.5"], "upgrade"),
            ("1 KiB and short answer (ours: a fetch)", ["21.5", "7.2", "7.2"], "read-fetch-1024"),
        ];
        for (name, theirs, key) in rows {
            let here = [HANDSHAKE, BLAST].map(|way| us(self.of(Network::Here, way), key));
            let far = [HANDSHAKE, BLAST].map(|way| us(self.of(Network::Paper, way), key));
            let mut cells = vec![name.to_owned()];
            cells.extend(theirs.map(str::to_owned));
            for us in here {
                cells.push(micros(us?));
            }
            cells.push(floor(row(self.of(Network::Here, BLAST), key)?));
            for us in far {
                cells.push(format!("{:.1}", us? / 1e3));
            }
            table.row(cells);
        }
        Ok(format!(
            "Table 3: Mirage, MIRAGE+ and ours\n{}The parts of Mirage's fault are its hardware's (VAX 11/750).\n\n",
            table.render()
        ))
    }

    /// Handshake against blast by the size of the transfer.
    fn sizes(&self) -> Result<String> {
        let mut text = String::new();
        for network in Network::BOTH {
            let heads = [
                "bytes",
                "handshake, us",
                "blast, us",
                "handshake/blast",
                "floor, us",
                "memcpy, us",
                "messages",
                "page bytes",
            ];
            let mut table = Table::new(heads);
            let rows = self.of(network, BLAST);
            for blast in rows.iter().filter(|row| row.key.starts_with("read-fetch-")) {
                let Some(bytes) = size(&blast.key) else { continue };
                let counts = blast.counts.unwrap_or_default();
                let handshake = us(self.of(network, HANDSHAKE), &blast.key)?;
                let least = match network {
                    Network::Here => floor(blast),
                    Network::Paper => micros(paper_network_ms(bytes) * 1e3),
                };
                let memcpy = blast.memcpy_us.map_or_else(String::new, micros);
                table.row([
                    size_name(bytes),
                    micros(handshake),
                    micros(blast.ours.median_us),
                    format!("{:.2}", handshake / blast.ours.median_us),
                    least,
                    memcpy,
                    format!("{:.1}", counts.messages),
                    format!("{:.0}", counts.page_bytes),
                ]);
            }
            let floor = match network {
                Network::Here => "a plain socket in turn with it",
                Network::Paper => "what latency and bandwidth alone take",
            };
            text.push_str(&format!(
                "Handshake (parts of 1 KiB) against blast by size, {}, --service blocked; floor: {floor}. The paper, 4 KiB: 31.7 and 19.9 ms\n{}\n",
                network.name(),
                table.render()
            ));
        }
        Ok(text)
    }

    /// 4.6.
    fn services(&self) -> Result<String> {
        let heads = [
            "service",
            "paper, ms",
            "who serves waits, us",
            "p99",
            "sleeps, us",
            "computes, us",
            "plain socket, us",
            "messages",
        ];
        let mut table = Table::new(heads);
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let rows = self.of(Network::Here, way);
            let fetch = row(rows, "read-fetch-4096")?;
            let paper = ["31.7", "19.9", "16.7", "", ""][way];
            table.row([
                (*name).to_owned(),
                paper.to_owned(),
                micros(fetch.ours.median_us),
                micros(fetch.ours.p99_us),
                micros(us(rows, "read-fetch-asleep")?),
                micros(us(rows, "read-fetch-computing")?),
                floor(fetch),
                format!("{:.1}", fetch.counts.unwrap_or_default().messages),
            ]);
        }
        Ok(format!(
            "Service level (4.6), a read fetch of 4 KiB: --service blocked is its server process, polling its interrupt level\n{}\n",
            table.render()
        ))
    }

    /// 4.7.
    fn invalidations_text(&self) -> Result<String> {
        let heads = [
            "read copies",
            "paper, ms",
            "here, us",
            "more than none",
            "plain socket, us",
            "messages",
            "on its network, ms",
            "more than none",
        ];
        let mut table = Table::new(heads);
        for (copies, paper) in INVALIDATIONS {
            let key = format!("write-fetch-copies-{copies}");
            let mut cells = vec![copies.to_owned(), paper.to_owned()];
            for (network, rows) in &self.invalidations {
                let Ok(with) = row(rows, &key) else { continue };
                let more = with.ours.median_us - us(rows, "write-fetch-copies-0")?;
                if *network == Network::Here {
                    cells.extend([micros(with.ours.median_us), micros(more), floor(with)]);
                    cells.push(format!("{:.1}", with.counts.unwrap_or_default().messages));
                } else {
                    let ms = [with.ours.median_us, more].map(|us| format!("{:.1}", us / 1e3));
                    cells.extend(ms);
                }
            }
            if cells.len() > 2 {
                table.row(cells);
            }
        }
        Ok(format!(
            "Invalidation (4.7): a write fetch of 4 KiB by the read copies that other nodes have; the paper's is the invalidation alone\n{}\n",
            table.render()
        ))
    }
}

fn us(rows: &[Row], key: &str) -> Result<f64> {
    Ok(job::row(rows, key)?.ours.median_us)
}

fn floor(row: &Row) -> String {
    row.floor.as_ref().map_or_else(String::new, |floor| micros(floor.time.median_us))
}

/// Of `read-fetch-4096`; the others have a word there.
fn size(key: &str) -> Option<usize> {
    key.rsplit('-').next()?.parse().ok()
}
