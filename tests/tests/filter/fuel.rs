//! The figures in `tests/bench/fuel.toml` hold.

use edgelink_tests::fuel::{OTHER_COMPILER_TOLERANCE, TOLERANCE, agreed, measure};

#[test]
fn no_tier_takes_more_instructions_than_agreed() {
    let (now, agreed) = (measure(), agreed());
    println!("{}", toml::to_string(&now).expect("figures"));
    let is_same_compiler = now.rustc == agreed.rustc;
    let tolerance = if is_same_compiler {
        TOLERANCE
    } else {
        println!("rustc {} is agreed upon: measure again", agreed.rustc);
        OTHER_COMPILER_TOLERANCE
    };
    assert!(
        !now.rustc.is_empty(),
        "the module does not say who built it"
    );
    assert!(
        now.tiers.keys().eq(agreed.tiers.keys()),
        "{now:?}, {agreed:?}"
    );
    for ((tier, now), agreed) in now.tiers.iter().zip(agreed.tiers.values()) {
        assert!(
            now.fuel * 100 <= agreed.fuel * (100 + tolerance),
            "{tier}: {now:?}, and {agreed:?} is agreed upon: find out why, or change tests/bench/fuel.toml"
        );
        if now.fuel * 100 < agreed.fuel * (100 - tolerance) {
            println!("{tier}: {now:?} is less than {agreed:?}: lower it in tests/bench/fuel.toml");
        }
        assert!(
            now.hostcalls <= agreed.hostcalls,
            "{tier}: {now:?}, and {agreed:?} is agreed upon"
        );
    }
}
