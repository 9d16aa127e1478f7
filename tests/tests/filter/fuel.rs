//! The figures in `tests/bench/fuel.toml` hold.

use edgelink_tests::fuel::{TOLERANCE, agreed, measure};

#[test]
fn no_tier_takes_more_instructions_than_agreed() {
    let (now, agreed) = (measure(), agreed());
    println!("{}", toml::to_string(&now).expect("figures"));
    assert!(now.keys().eq(agreed.keys()), "{now:?}, {agreed:?}");
    for ((tier, now), agreed) in now.iter().zip(agreed.values()) {
        assert!(
            now.fuel * 100 <= agreed.fuel * (100 + TOLERANCE),
            "{tier}: {now:?}, and {agreed:?} is agreed upon: find out why, or change tests/bench/fuel.toml"
        );
        if now.fuel * 100 < agreed.fuel * (100 - TOLERANCE) {
            println!("{tier}: {now:?} is less than {agreed:?}: lower it in tests/bench/fuel.toml");
        }
        assert!(
            now.hostcalls <= agreed.hostcalls,
            "{tier}: {now:?}, and {agreed:?} is agreed upon"
        );
    }
}
