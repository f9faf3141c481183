//! Faults and programs by what is switched on (Table 7).

use super::battleship::{self, Game};
use super::job::{Measuring, Network, Programs, Sites, row};
use super::matmul::{self, Product};
use crate::bench::row::Row;
use crate::bench::table::Table;
use anyhow::Result;
use serde::Serialize;

/// A line of Table 7: the paper's name and figures, and our options for all jobs, and for segments alone.
struct Way {
    name: &'static str,
    paper: [&'static str; 3],
    options: &'static [&'static str],
    compressed: bool,
    /// Whether the paper's network tells anything of it.
    far: bool,
}

const WAYS: [Way; 7] = [
    Way {
        name: "Mirage (S)",
        paper: ["27.5", "", ""],
        options: &[],
        compressed: false,
        far: false,
    },
    Way {
        name: "MIRAGE+ (S+H)",
        paper: ["31.7", "", ""],
        options: &["--service", "blocked", "--handshake"],
        compressed: false,
        far: true,
    },
    Way {
        name: "MIRAGE+ (S+B)",
        paper: ["19.9", "48", "2.4"],
        options: &["--service", "blocked"],
        compressed: false,
        far: true,
    },
    Way {
        name: "MIRAGE+ (I+B)",
        paper: ["16.7", "42", "2.0"],
        options: &["--service", "polling"],
        compressed: false,
        far: false,
    },
    Way {
        name: "MIRAGE+ (S+B+C)",
        paper: ["10.5/13.5/17.1/21.3", "36", "1.9"],
        options: &["--service", "blocked"],
        compressed: true,
        far: true,
    },
    Way {
        name: "MIRAGE+ (I+B+C)",
        paper: ["10.5/13.5/16.5/18.5", "35", "1.8"],
        options: &["--service", "polling"],
        compressed: true,
        far: false,
    },
    Way {
        name: "as Multigrain is",
        paper: ["", "", ""],
        options: &[],
        compressed: false,
        far: false,
    },
];

#[derive(Debug, Serialize)]
struct Measured {
    way: usize,
    network: Network,
    rows: Vec<Row>,
    game: Option<Game>,
    product: Option<Product>,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary(Vec<Measured>);

pub(super) fn measure(programs: Option<&Programs>, runs: u32, quick: bool) -> Result<Summary> {
    let mut all = Vec::new();
    for network in Network::BOTH {
        for (number, way) in WAYS.iter().enumerate() {
            let is_far = network == Network::Paper;
            // Mirage itself is not here.
            if number == 0 || (is_far && (!way.far || quick)) {
                continue;
            }
            let samples = if quick || is_far { 4 } else { 512 };
            let job = Measuring { program: "packets", nodes: 2, samples, batch: 4, largest: 4096 };
            let rows = job.rows(network, way.options)?;
            let mut options = way.options.to_vec();
            if way.compressed {
                options.extend(["--segment-compression", "rle"]);
            }
            let (sites, runs) = (Sites::Nodes(2, network, &options), if is_far { 1 } else { runs });
            let (mut game, mut product) = (None, None);
            if let Some(programs) = programs {
                let played = battleship::played(programs, sites, (runs, is_far || quick))?;
                game = Some(battleship::game(way.name, "", &played)?);
                product = Some(matmul::product(programs, sites, (60, runs))?);
            }
            all.push(Measured { way: number, network, rows, game, product });
        }
    }
    Ok(Summary(all))
}

impl Measured {
    /// Milliseconds of a fault: of pages of one to four packets where they go compressed.
    fn faults(&self) -> Result<String> {
        let patterns: &[&str] = if WAYS[self.way].compressed {
            &["upto-896-rle", "upto-1920-rle", "upto-2944-rle", "upto-4096-rle"]
        } else {
            &["upto-4096-none"]
        };
        let mut times = Vec::new();
        for key in patterns {
            times.push(format!("{:.3}", row(&self.rows, key)?.ours.median_us / 1e3));
        }
        Ok(times.join("/"))
    }
}

impl Summary {
    pub(super) fn text(&self) -> Result<String> {
        let mut text = String::new();
        for network in Network::BOTH {
            let heads = [
                "",
                "paper: fault, ms",
                "battleship, s",
                "matrix, s",
                "ours: fault, ms",
                "battleship, ms a turn",
                "matrix, ms",
            ];
            let mut table = Table::new(heads);
            let mut rows = 0;
            for (number, way) in WAYS.iter().enumerate() {
                let found = self.0.iter().find(|of| of.way == number && of.network == network);
                let none = number == 0 && network == Network::Here;
                if found.is_none() && !none {
                    continue;
                }
                rows += 1;
                let mut cells = vec![way.name.to_owned()];
                cells.extend(way.paper.map(str::to_owned));
                match found {
                    None => cells.push("its hardware's".to_owned()),
                    Some(of) => {
                        cells.push(of.faults()?);
                        let turn = of.game.as_ref().map(|game| format!("{:.3}", game.turn_ms));
                        let product = of.product.map(|product| format!("{:.2}", product.ms));
                        cells.extend([turn, product].map(Option::unwrap_or_default));
                    }
                }
                table.row(cells);
            }
            if rows > 0 {
                text.push_str(&format!(
                    "Table 7: (H)andshake, (B)last, (I)nterrupt level or (S)erver process, (C)ompression by run-length code; 60 x 60, two \
                     sites; the paper's 48 s are 30 ms a turn; {}\n{}\n",
                    network.name(),
                    table.render()
                ));
            }
        }
        Ok(text)
    }
}
