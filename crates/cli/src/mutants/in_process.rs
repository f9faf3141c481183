//! Tools that need no job and run in this process. Loom explores all orders that weak memory allows;
//! hostile peers fill what they can.

use clap::{Args, ValueEnum};
use multigrain_runtime as runtime;
use multigrain_transport as transport;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;
use std::sync::Once;

/// Plays scenes; exits with 1 if one does not end as it must.
#[derive(Debug, Args)]
pub(crate) struct ScenesArgs {
    /// Which ones.
    #[arg(value_enum)]
    of: Of,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    /// Flags of threads, under all orders that the memory model allows.
    Loom,
    /// A node between hostile peers.
    Peers,
}

type Scene = (&'static str, fn());

pub(crate) fn play(args: &ScenesArgs) -> ExitCode {
    let scenes: Vec<Scene> = match args.of {
        Of::Loom => [&transport::loom_tests::SCENES[..], &runtime::loom_tests::SCENES].concat(),
        Of::Peers => {
            [&transport::hostile_peer::SCENES[..], &runtime::hostile_peer::SCENES].concat()
        }
    };
    for (name, scene) in scenes {
        panic::set_hook(Box::new(move |panic| complain(name, panic)));
        if panic::catch_unwind(scene).is_err() {
            return ExitCode::FAILURE;
        }
        println!("{name}");
    }
    ExitCode::SUCCESS
}

/// Tells the first panic in one line. Those that follow say less: after a deadlock loom panics as it
/// unwinds, and that ends the process.
fn complain(scene: &str, panic: &PanicHookInfo<'_>) {
    static SAID: Once = Once::new();
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    // What has no words is loom's own way to end threads.
    let Some(text) = text.or_else(|| payload.downcast_ref::<&str>().copied()) else { return };
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    SAID.call_once(|| eprintln!("multigrain: scenes: {scene}: {line}"));
}

#[cfg(test)]
mod tests {
    use multigrain_protocol::mutants::{MUTANTS, VARIABLE};
    use multigrain_transport::mutants;

    #[test]
    fn what_the_transport_calls_its_mutants_is_in_the_table() {
        assert_eq!(mutants::VARIABLE, VARIABLE);
        for name in mutants::NAMES {
            assert!(MUTANTS.iter().any(|row| row.name == name), "{name}");
        }
    }
}
