//! The short form of the model check, one test a configuration group.
use multigrain_verify::check::{Form, check, configurations};

#[test]
fn measure() {
    let pick = std::env::var("PICK").unwrap_or_default();
    let form = if std::env::var("LONG").is_ok() { Form::Long } else { Form::Short };
    for configuration in configurations(form) {
        if !configuration.name.contains(&pick) {
            continue;
        }
        let report = check(&configuration);
        println!(
            "{:34} {:8} depth {:3} outcomes {:3} {:?}",
            report.name, report.states, report.depth, report.outcomes, report.elapsed
        );
        if let Some(counterexample) = report.counterexample {
            println!("{counterexample}");
        }
    }
}
