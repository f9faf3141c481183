//! `multigrain site`: what a node of `multigrain run --sysv` is (ADR 55). Users do not call it.

use crate::run::SegmentCompression;
use crate::{ignored_pipes, preload};
use clap::Args;
use multigrain_runtime::{Policy, SegmentOptions};
use multigrain_types::{Compression, Consistency};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a program as the site of a node.
#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    /// Time window of segments, us.
    #[arg(long, default_value_t = 0)]
    window: u64,

    /// How pages of segments are compressed.
    #[arg(long, value_enum)]
    compression: Option<SegmentCompression>,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, num_args = 1..)]
    command: Vec<OsString>,
}

/// Runs the site to its end.
pub(crate) fn run(args: &SiteArgs) -> ExitCode {
    let compression = match args.compression {
        None | Some(SegmentCompression::None) => Compression::None,
        Some(SegmentCompression::Rle) => Compression::RunLength,
        Some(SegmentCompression::Lz4) => Compression::Lz4,
        Some(SegmentCompression::Zstd) => Compression::Zstd,
    };
    let policy = Policy::new().consistency(Consistency::Sequential);
    let options = SegmentOptions::new()
        .policy(policy)
        .window(Duration::from_micros(args.window))
        .compression(compression);
    let ended = preload::library().and_then(|library| {
        let ignores_pipes = ignored_pipes::are_ignored();
        multigrain_sysv::site::run(&args.command, &library, options, ignores_pipes)
    });
    match ended {
        Ok(code) => std::process::exit(code),
        Err(why) => {
            // In one call: the job may end at any moment.
            let line = if why.is_empty() { why } else { format!("multigrain: {why}\n") };
            let _ = std::io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    }
}
