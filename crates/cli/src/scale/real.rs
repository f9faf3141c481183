//! The real applications, for comparison: runs them and reads their `result` line.

use anyhow::{Context, Result, ensure};
use multigrain_verify::scale::Pattern;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Manager;
use crate::bench::options::Transport;
use crate::bench::result::ResultLine;

/// What a run reported of its measured section.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) ms: f64,
    pub(super) messages: f64,
    pub(super) bytes: f64,
    pub(super) faults: f64,
}

/// How the job is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) apps: &'a Path,
    pub(super) transport: Transport,
    pub(super) manager: Manager,
}

impl Setting<'_> {
    /// The fastest of so many runs: all that disturbs a run makes it slower.
    pub(super) fn best_of(self, runs: u32, pattern: &dyn Pattern, nodes: u16) -> Result<Measured> {
        let mut best = self.measure(pattern, nodes)?;
        for _ in 1..runs {
            let other = self.measure(pattern, nodes)?;
            if other.ms < best.ms {
                best = other;
            }
        }
        Ok(best)
    }

    /// The application.
    ///
    /// # Errors
    ///
    /// It is not built.
    pub(super) fn program(self, pattern: &dyn Pattern) -> Result<PathBuf> {
        let program = self.apps.join(format!("{}-mg", pattern.name()));
        ensure!(
            program.is_file(),
            "there is no {}; `make apps` builds it where the source is, --apps-dir says where",
            program.display()
        );
        Ok(program)
    }

    fn measure(self, pattern: &dyn Pattern, nodes: u16) -> Result<Measured> {
        let program = self.program(pattern)?;
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(this);
        command.args(["run", "--no-tag-output", "--no-summary", "--learn", "off"]);
        command.args(["--timeout", "120", "-n", &nodes.to_string()]);
        command.args(["--transport", &self.transport.to_string()]);
        command.args(["--manager", &self.manager.to_string(), "--"]);
        command.arg(&program).args(pattern.flags().split(' ')).arg("--no-check");
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let place = || format!("{} on {nodes} nodes", program.display());
        ensure!(output.status.success(), "{} ended with {}", place(), output.status);
        parse(&String::from_utf8_lossy(&output.stdout)).with_context(place)
    }
}

fn parse(text: &str) -> Result<Measured> {
    let line = ResultLine::find(text)?;
    Ok(Measured {
        ms: line.number("ms")?,
        messages: line.number("messages")?,
        bytes: line.number("bytes")?,
        faults: line.number("read_faults")? + line.number("write_faults")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_both_kinds_are_counted_together() {
        let line = "result app=lu ms=3.50 check=ok read_faults=2 write_faults=3 messages=1456 \
                    bytes=99 build=mg\n";
        let expected = Measured { ms: 3.5, messages: 1456.0, bytes: 99.0, faults: 5.0 };
        assert_eq!(parse(line).unwrap(), expected);
        assert!(parse("result ms=1").is_err());
    }
}
