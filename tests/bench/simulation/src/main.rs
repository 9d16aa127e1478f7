//! `edgelink-simulation '{...}'`: a specification as JSON in, a report as JSON out.

use edgelink_simulation::simulate;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let spec = std::env::args()
        .nth(1)
        .ok_or("usage: edgelink-simulation JSON")?;
    let report = simulate(&serde_json::from_str(&spec)?)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
