//! Instructions inside the VM, beside the agreed figures.

use crate::report::{Section, Table};
use edgelink_tests::fuel::{TOLERANCE, agreed, measure};

/// The table.
pub(crate) fn run() -> Section {
    let (now, agreed) = (measure(), agreed());
    let mut section = Section::new("Instructions inside the VM");
    section.text(
        &"Fuel of wasmtime, about one unit an instruction, by request; the same in every run. With click counting; LRU and \
          admission with a feed; shared data and Redis with putting the record into the caches in front. Agreed: \
          `tests/bench/fuel.toml`, which `make test` compares with.",
    );
    section.text(&format!(
        "Built by rustc {}; agreed upon for {}.",
        now.rustc, agreed.rustc
    ));
    let mut table = Table::new(["tier", "fuel", "hostcalls", "agreed", "of that"]);
    for (tier, cost) in &now.tiers {
        let agreed = agreed.tiers.get(tier).map_or(0, |cost| cost.fuel);
        let share = cost.fuel as f64 / agreed as f64;
        table.row([
            tier.clone(),
            cost.fuel.to_string(),
            cost.hostcalls.to_string(),
            agreed.to_string(),
            format!("{:.1} %", share * 100.0),
        ]);
    }
    section.text(&table);
    for (tier, cost) in &now.tiers {
        let agreed = agreed.tiers.get(tier).map_or(0, |cost| cost.fuel);
        let text = format!("{tier}: at most {TOLERANCE} % more than agreed");
        let holds = cost.fuel * 100 <= agreed * (100 + TOLERANCE);
        section.claim(holds.into(), text);
    }
    section
}
