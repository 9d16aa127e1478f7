//! `edgelink-load ask '{...}'` and `edgelink-load simulate '{...}'`: a specification as JSON in, a report as JSON out.

use edgelink_load::{AskSpec, SimulateSpec, ask, simulate};
use serde::{Serialize, de::DeserializeOwned};
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ask", spec] => run(spec, |spec: &AskSpec| ask(spec)),
        ["simulate", spec] => run(spec, |spec: &SimulateSpec| simulate(spec)),
        _ => Err("usage: edgelink-load ask|simulate JSON".into()),
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("edgelink-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<S: DeserializeOwned, R: Serialize, E: Into<Box<dyn Error>>>(
    spec: &str,
    work: impl Fn(&S) -> Result<R, E>,
) -> Result<String, Box<dyn Error>> {
    let report = work(&serde_json::from_str(spec)?).map_err(Into::into)?;
    Ok(serde_json::to_string(&report)?)
}
