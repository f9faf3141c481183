//! Two players in one page, the worst case of two sites (Table 5, Figure 6).

use super::compression::CODECS;
use super::job::{Counts, Network, Programs, Ran, Sites, on_one_cpu};
use crate::bench::samples::median;
use crate::bench::table::Table;
use anyhow::Result;
use serde::Serialize;

/// Who plays where, and how. A field has 29 x 29 places as nearly in the paper, or 10 x 10 where turns are slow.
struct Setting {
    name: &'static str,
    paper: &'static str,
    place: Place,
    words: &'static [&'static str],
    /// Slow: once, and in the small field.
    slow: bool,
}

#[derive(Clone, Copy)]
enum Place {
    /// Both players on one processor.
    OneCpu {
        native: bool,
    },
    /// One site, all processors.
    OneSite {
        native: bool,
    },
    TwoSites(Network, &'static [&'static str]),
}

const HERE: Network = Network::Here;
const FAR: Network = Network::Paper;

const TABLE_5: [Setting; 14] = [
    Setting {
        name: "one site, one processor, no yield, kernel's segment",
        paper: "490 s (311)",
        place: Place::OneCpu { native: true },
        words: &["--spin"],
        slow: true,
    },
    Setting {
        name: "the same, --sysv",
        paper: "",
        place: Place::OneCpu { native: false },
        words: &["--spin"],
        slow: true,
    },
    Setting {
        name: "one site, one processor, yield, kernel's segment",
        paper: "4 s (2.5)",
        place: Place::OneCpu { native: true },
        words: &["--yield"],
        slow: false,
    },
    Setting {
        name: "the same, --sysv",
        paper: "",
        place: Place::OneCpu { native: false },
        words: &["--yield"],
        slow: false,
    },
    Setting {
        name: "one site, semaphores, kernel's segment",
        paper: "",
        place: Place::OneSite { native: true },
        words: &[],
        slow: false,
    },
    Setting {
        name: "the same, --sysv",
        paper: "",
        place: Place::OneSite { native: false },
        words: &[],
        slow: false,
    },
    Setting {
        name: "two sites, no yield",
        paper: "",
        place: Place::TwoSites(HERE, &[]),
        words: &["--spin"],
        slow: true,
    },
    Setting {
        name: "two sites, yield",
        paper: "",
        place: Place::TwoSites(HERE, &[]),
        words: &["--yield"],
        slow: true,
    },
    Setting {
        name: "two sites, yield, --segment-window 20ms",
        paper: "81 s (51)",
        place: Place::TwoSites(HERE, &["--segment-window", "20ms"]),
        words: &["--yield"],
        slow: true,
    },
    Setting {
        name: "two sites, yield, --segment-window 500us",
        paper: "",
        place: Place::TwoSites(HERE, &["--segment-window", "500us"]),
        words: &["--yield"],
        slow: true,
    },
    Setting {
        name: "two sites, semaphores",
        paper: "48 s (30)",
        place: Place::TwoSites(HERE, &[]),
        words: &[],
        slow: false,
    },
    Setting {
        name: "two sites, semaphores, --segment-window 500us",
        paper: "",
        place: Place::TwoSites(HERE, &["--segment-window", "500us"]),
        words: &[],
        slow: false,
    },
    Setting {
        name: "two sites, semaphores, --emulate 2700us,10M",
        paper: "48 s (30)",
        place: Place::TwoSites(FAR, &[]),
        words: &[],
        slow: true,
    },
    Setting {
        name: "two sites, yield, --segment-window 20ms, --emulate 2700us,10M",
        paper: "81 s (51)",
        place: Place::TwoSites(FAR, &["--segment-window", "20ms"]),
        words: &["--yield"],
        slow: true,
    },
];

/// One game, medians.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Game {
    name: String,
    paper: &'static str,
    turns: f64,
    pub(super) turn_ms: f64,
    counts: Counts,
    /// All were counted; natively nothing is.
    counted: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Battleship {
    table_5: Vec<Game>,
    figure_6: Vec<(Network, Vec<Game>)>,
}

pub(super) fn measure(programs: &Programs, runs: u32, quick: bool) -> Result<Battleship> {
    let mut table_5 = Vec::new();
    for setting in &TABLE_5 {
        if !(quick && setting.slow) {
            let runs = if setting.slow { 1 } else { runs };
            table_5.push(setting.games(programs, runs, setting.slow || quick)?);
        }
    }
    let mut figure_6 = Vec::new();
    for (network, codecs) in [(HERE, &CODECS[..]), (FAR, &CODECS[..2])] {
        let small = network == FAR;
        if quick && small {
            continue;
        }
        let mut games = Vec::new();
        for &codec in codecs {
            let options: &[&str] = &["--segment-compression", codec];
            let options = if codec == "none" { &[] } else { options };
            let runs = if small { 1 } else { runs };
            let played =
                played(programs, Sites::Nodes(2, network, options), (runs, small || quick));
            games.push(game(codec, "", &played?)?);
        }
        figure_6.push((network, games));
    }
    Ok(Battleship { table_5, figure_6 })
}

/// Games of two sites by semaphores.
pub(super) fn played(
    programs: &Programs,
    sites: Sites<'_>,
    (runs, small): (u32, bool),
) -> Result<Vec<Ran>> {
    let words: &[&str] = if small { &["--size", "10"] } else { &[] };
    (0..runs).map(|_| programs.run(sites, "battleship", words)).collect()
}

impl Setting {
    fn games(&self, programs: &Programs, runs: u32, small: bool) -> Result<Game> {
        let both: &[&str] = &["-c", "2"];
        let size: &[&str] = if small { &["--size", "10"] } else { &[] };
        let (sites, processes) = match self.place {
            Place::OneCpu { native: true } | Place::OneSite { native: true } => {
                (Sites::Native, both)
            }
            Place::OneCpu { native: false } | Place::OneSite { native: false } => {
                (Sites::Nodes(1, HERE, &[]), both)
            }
            Place::TwoSites(network, options) => (Sites::Nodes(2, network, options), &[][..]),
        };
        let words = [processes, self.words, size].concat();
        let game = || programs.run(sites, "battleship", &words);
        let all: Result<Vec<Ran>> = match self.place {
            Place::OneCpu { .. } => on_one_cpu(|| (0..runs).map(|_| game()).collect()),
            Place::OneSite { .. } | Place::TwoSites(..) => (0..runs).map(|_| game()).collect(),
        };
        self::game(self.name, self.paper, &all?)
    }
}

/// Of some runs.
pub(super) fn game(name: &str, paper: &'static str, all: &[Ran]) -> Result<Game> {
    let numbers =
        |before: &str| all.iter().map(|ran| ran.number(before)).collect::<Result<Vec<_>>>();
    let of = |count: fn(&Counts) -> f64| median(all.iter().map(|ran| count(&ran.counts)));
    let counts = Counts {
        pages: of(|counts| counts.pages),
        messages: of(|counts| counts.messages),
        bytes: of(|counts| counts.bytes),
        page_bytes: of(|counts| counts.page_bytes),
    };
    Ok(Game {
        name: name.to_owned(),
        paper,
        turns: median(numbers(" turns")?),
        turn_ms: median(numbers(" ms each")?),
        counts,
        counted: counts.messages > 0.0,
    })
}

impl Game {
    fn cells(&self) -> [String; 6] {
        let per = |count: f64| {
            if self.counted { format!("{:.2}", count / self.turns) } else { String::new() }
        };
        [
            format!("{:.0}", self.turns),
            format!("{:.3}", self.turn_ms),
            per(self.counts.pages),
            per(self.counts.messages),
            per(self.counts.bytes / 1024.0),
            per(self.counts.page_bytes / 1024.0),
        ]
    }
}

impl Battleship {
    pub(super) fn text(&self) -> String {
        let counts = ["turns", "a turn, ms", "pages", "messages", "KiB", "of pages"];
        let mut table = Table::new(["", "paper (a turn, ms)"].into_iter().chain(counts));
        for game in &self.table_5 {
            let names = [game.name.clone(), game.paper.to_owned()];
            table.row(names.into_iter().chain(game.cells()));
        }
        let mut text = format!(
            "Table 5: battleship; pages, messages and KiB of a turn, of the whole program. 1,648 turns in fields of 29 x 29, medians; 197 in \
             fields of 10 x 10, once; the paper's game has 1,578. Its locks around what is written are semaphores here\n{}\n",
            table.render()
        );
        for (network, games) in &self.figure_6 {
            let heads =
                counts.into_iter().chain(["time, none = 100", "bytes of pages, none = 100"]);
            let mut table = Table::new(core::iter::once("codec").chain(heads));
            let Some(none) = games.first() else { continue };
            for game in games {
                let share = |ours: f64, none: f64| format!("{:.0}", 100.0 * ours / none);
                let ratios = [
                    share(game.turn_ms, none.turn_ms),
                    share(game.counts.page_bytes, none.counts.page_bytes),
                ];
                table.row([game.name.clone()].into_iter().chain(game.cells()).chain(ratios));
            }
            text.push_str(&format!(
                "Figure 6: battleship with compression, two sites, semaphores, {}. The paper: 54 % fewer packets, 21 % less time\n{}\n",
                network.name(),
                table.render()
            ));
        }
        text
    }
}
