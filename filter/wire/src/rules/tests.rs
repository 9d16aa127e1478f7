use super::*;
use proptest::prelude::*;
use std::net::IpAddr;

/// A visitor as a test makes one up.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestVisitor {
    pub(crate) user_agent: String,
    pub(crate) accept_language: String,
    pub(crate) query: Vec<u8>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) country: String,
    pub(crate) city: String,
    pub(crate) now: u64,
}

impl Visitor for TestVisitor {
    fn user_agent(&self) -> &[u8] {
        self.user_agent.as_bytes()
    }

    fn accept_language(&self) -> &[u8] {
        self.accept_language.as_bytes()
    }

    fn query(&self) -> &[u8] {
        &self.query
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn country(&self) -> &[u8] {
        self.country.as_bytes()
    }

    fn city(&self) -> &[u8] {
        self.city.as_bytes()
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// A visitor with all properties.
fn visitor() -> TestVisitor {
    TestVisitor {
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
            .to_owned(),
        accept_language: "en-GB,de;q=0.5".to_owned(),
        query: b"a=1&b&c=x%20y".to_vec(),
        address: Some("192.0.2.7".parse().unwrap()),
        country: "ES".to_owned(),
        city: "Zaragoza".to_owned(),
        now: 1_767_225_600,
    }
}

pub(crate) fn condition(kind: &str, key: Option<&str>, value: Option<&str>) -> Condition {
    Condition {
        kind: ConditionType::named(kind).unwrap(),
        match_key: key.map(str::to_owned),
        match_value: value.map(str::to_owned),
    }
}

pub(crate) fn rule(target: &str, conditions: Vec<Condition>) -> Rule {
    let target = target.to_owned();
    Rule { target, conditions }
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let valued = |kind: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| condition(kind, None, Some(value)))
    };
    prop_oneof![
        valued(
            "device",
            &[
                "android", "ios", "mobile", "windows", "macos", "linux", "chromeos", "desktop"
            ]
        ),
        valued(
            "browser",
            &[
                "chrome",
                "firefox",
                "edge",
                "safari",
                "opera",
                "android_browser"
            ]
        ),
        valued("language", &["en", "en-GB", "de_AT", "zh-Hant"]),
        valued(
            "ip-address",
            &[
                "192.0.2.7",
                "192.0.2.0/24",
                "192.*.2.*",
                "2001:db8::/32",
                "::1",
                "0.0.0.0/0"
            ]
        ),
        valued("geolocation-country-code", &["ES", "de"]),
        valued("geolocation-city-name", &["Zaragoza", "Köln"]),
        valued(
            "before-date",
            &[
                "1970-01-01T00:00:00Z",
                "2026-01-01T00:00:01+02:00",
                "9999-12-31T23:59:59Z"
            ]
        ),
        valued(
            "after-date",
            &["1970-01-01T00:00:00Z", "2026-01-01T00:00:01+02:00"]
        ),
        (1..=99_u8).prop_map(|share| condition("weight", None, Some(&share.to_string()))),
        ("[a-c%+ é]{1,4}", "[0-9a-z é&=]{1,9}").prop_map(|(key, value)| condition(
            "query-param",
            Some(&key),
            Some(&value)
        )),
        "[a-d]{1,2}".prop_map(|key| condition("any-value-query-param", Some(&key), None)),
        "[a-d]{1,2}".prop_map(|key| condition("valueless-query-param", Some(&key), Some(""))),
    ]
}

pub(crate) fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    let conditions = prop::collection::vec(any_condition(), 1..=3);
    let rule = ("https://[a-z]{1,9}\\.example/[!-~]{0,20}", conditions);
    let rule = rule.prop_map(|(target, conditions)| Rule { target, conditions });
    prop::collection::vec(rule, 1..=4)
}

fn any_visitor() -> impl Strategy<Value = TestVisitor> {
    let user_agent = "(Mozilla/5.0 )?(\\((iPhone|Linux; Android 14|Windows NT 10.0|X11; Linux|X11; CrOS|Macintosh)\\))?( (Chrome|Firefox|Edg|Version|Safari|OPR)/1){0,3}";
    (
        user_agent,
        "((en|en-GB|de-AT|zh-Hant-TW|\\*)(;q=(0|0.8|0.9|1))?,?){0,3}",
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "([a-d]{1,2}(=[0-9a-z%+]{0,5})?&?){0,4}".prop_map(String::into_bytes)
        ],
        any::<Option<IpAddr>>(),
        "(|ES|de|FR)",
        "(|zaragoza|Köln)",
        any::<u32>(),
    )
        .prop_map(
            |(user_agent, accept_language, query, address, country, city, now)| TestVisitor {
                user_agent,
                accept_language,
                query,
                address,
                country,
                city,
                now: u64::from(now),
            },
        )
}

fn meets(visitor: &TestVisitor, conditions: Vec<Condition>) -> bool {
    let bytes = encode(&[rule("https://e.com/", conditions)]).unwrap();
    evaluate(Rules::decode(&bytes).unwrap(), b"d/a", visitor).is_some()
}

#[test]
fn rules_when_written_as_json_match_shlink() {
    let json = r#"[{"longUrl":"https://e.com/","conditions":[{"type":"device","matchKey":null,"matchValue":"android"},{"type":"query-param","matchKey":"a","matchValue":"1"}]}]"#;
    let rules: Vec<Rule> = serde_json::from_str(json).unwrap();
    let expected = rule(
        "https://e.com/",
        vec![
            condition("device", None, Some("android")),
            condition("query-param", Some("a"), Some("1")),
        ],
    );
    assert_eq!(rules, [expected]);
    assert_eq!(serde_json::to_string(&rules).unwrap(), json);
}

#[test]
fn condition_when_request_matches_holds() {
    for (kind, key, value, holds) in [
        ("device", None, "linux", true),
        ("device", None, "desktop", true),
        ("device", None, "mobile", false),
        ("browser", None, "firefox", true),
        ("browser", None, "chrome", false),
        ("language", None, "en", true),
        ("language", None, "de", false),
        ("query-param", Some("a"), "1", true),
        ("query-param", Some("c"), "x y", true),
        ("query-param", Some("a"), "2", false),
        ("query-param", Some("b"), "1", false),
        ("any-value-query-param", Some("a"), "", true),
        ("any-value-query-param", Some("b"), "", true),
        ("any-value-query-param", Some("d"), "", false),
        ("valueless-query-param", Some("b"), "", true),
        ("valueless-query-param", Some("a"), "", false),
        ("valueless-query-param", Some("d"), "", false),
        ("ip-address", None, "192.0.*.7", true),
        ("ip-address", None, "2001:db8::/32", false),
        ("geolocation-country-code", None, "es", true),
        ("geolocation-country-code", None, "DE", false),
        ("geolocation-city-name", None, "zaragoza", true),
        ("geolocation-city-name", None, "Zara", false),
        ("before-date", None, "2026-01-01T00:00:00Z", false),
        ("before-date", None, "2026-01-01T00:00:00.5-00:01", true),
        ("after-date", None, "2026-01-01T00:00:00Z", true),
        ("after-date", None, "2026-01-01T00:00:01Z", false),
    ] {
        let condition = condition(kind, key, Some(value));
        assert_eq!(
            meets(&visitor(), vec![condition]),
            holds,
            "{kind} {key:?} {value}"
        );
    }
}

#[test]
fn condition_when_request_is_empty_does_not_hold() {
    for (kind, key, value) in [
        ("device", None, "desktop"),
        ("browser", None, "safari"),
        ("language", None, "en"),
        ("query-param", Some("a"), "1"),
        ("any-value-query-param", Some("a"), ""),
        ("valueless-query-param", Some("a"), ""),
        ("ip-address", None, "0.0.0.0/0"),
        ("ip-address", None, "::/0"),
        ("geolocation-country-code", None, "ES"),
        ("geolocation-city-name", None, "Zaragoza"),
    ] {
        let condition = condition(kind, key, Some(value));
        assert!(!meets(&TestVisitor::default(), vec![condition]), "{kind}");
    }
}

#[test]
fn rule_when_first_to_meet_all_conditions_is_chosen() {
    let linux = || condition("device", None, Some("linux"));
    let ios = || condition("device", None, Some("ios"));
    assert!(meets(&visitor(), vec![linux(), linux()]));
    assert!(!meets(&visitor(), vec![linux(), ios()]));
    assert!(!meets(&visitor(), vec![ios(), linux()]));
    let rules = [
        rule("https://e.com/1", vec![linux(), ios()]),
        rule("https://e.com/2", vec![linux()]),
        rule("https://e.com/3", vec![linux()]),
    ];
    let bytes = encode(&rules).unwrap();
    let rules = Rules::decode(&bytes).unwrap();
    let chosen = evaluate(rules, b"d/a", &visitor()).unwrap();
    assert_eq!((chosen.index, chosen.target), (1, &b"https://e.com/2"[..]));
    let explained = explain(rules, b"d/a", &visitor());
    let holds: Vec<_> = explained.iter().map(|rule| rule.holds).collect();
    assert_eq!(holds, [false, true, true]);
    let seen = |holds| ExplainedCondition {
        holds,
        saw: Some("linux".to_owned()),
    };
    assert_eq!(explained[0].conditions, [seen(true), seen(false)]);
}

#[test]
fn weight_when_drawn_is_proportional_and_stable() {
    let split = |share: &str| vec![condition("weight", None, Some(share))];
    let visitor = |number: u32| TestVisitor {
        address: Some(IpAddr::V4(number.into())),
        ..visitor()
    };
    for share in [1, 30, 50, 99] {
        let met = (0..10_000).filter(|number| meets(&visitor(*number), split(&share.to_string())));
        let met = met.count();
        // Six standard deviations of a binomial distribution.
        let expected = share as f64 * 100.0;
        let deviation = (10_000.0 * share as f64 / 100.0 * (1.0 - share as f64 / 100.0)).sqrt();
        assert!(
            (met as f64 - expected).abs() < 6.0 * deviation,
            "{share}: {met}"
        );
    }
    for number in 0..50 {
        let share = |share| meets(&visitor(number), split(share));
        assert_eq!(share("30"), share("30"));
        assert!(
            !share("30") || share("31"),
            "a larger share has those of a smaller one"
        );
        let mapped = TestVisitor {
            address: Some(std::net::Ipv4Addr::from(number).to_ipv6_mapped().into()),
            ..visitor(number)
        };
        assert_eq!(meets(&mapped, split("30")), share("30"));
    }
}

#[test]
fn draws_when_of_other_rules_or_links_are_independent() {
    let weight = || vec![condition("weight", None, Some("50"))];
    let bytes = encode(&[
        rule("https://e.com/1", weight()),
        rule("https://e.com/2", weight()),
    ])
    .unwrap();
    let rules = Rules::decode(&bytes).unwrap();
    let visitors = (0..4_000_u32).map(|number| TestVisitor {
        address: Some(IpAddr::V4(number.into())),
        ..visitor()
    });
    let mut counts = [0; 3];
    let mut differ = 0;
    for visitor in visitors {
        let index = |key: &[u8]| evaluate(rules, key, &visitor).map_or(2, |chosen| chosen.index);
        counts[index(b"d/a")] += 1;
        differ += usize::from(index(b"d/a") != index(b"d/b"));
    }
    assert!(
        (1_800..2_200).contains(&counts[0]) && (850..1_150).contains(&counts[1]),
        "{counts:?}"
    );
    assert!((2_200..2_800).contains(&differ), "{differ}");
}

#[test]
fn explanation_when_evaluated_shows_seen_values() {
    for (kind, key, value, saw) in [
        ("device", None, "ios", Some("linux")),
        ("browser", None, "edge", Some("firefox")),
        ("language", None, "en", Some("en-GB,de;q=0.5")),
        ("query-param", Some("c"), "1", Some("x y")),
        ("any-value-query-param", Some("b"), "", Some("")),
        ("any-value-query-param", Some("d"), "", None),
        ("ip-address", None, "::1", Some("192.0.2.7")),
        ("geolocation-country-code", None, "DE", Some("ES")),
        ("geolocation-city-name", None, "Bonn", Some("Zaragoza")),
        (
            "after-date",
            None,
            "2030-01-01T00:00:00Z",
            Some("2026-01-01T00:00:00Z"),
        ),
    ] {
        let bytes = encode(&[rule(
            "https://e.com/",
            vec![condition(kind, key, Some(value))],
        )])
        .unwrap();
        let explained = explain(Rules::decode(&bytes).unwrap(), b"d/a", &visitor());
        assert_eq!(explained[0].conditions[0].saw.as_deref(), saw, "{kind}");
    }
}

#[test]
fn rules_when_invalid_name_each_path() {
    let rules = [
        rule(
            "https://e.com/",
            vec![condition("weight", None, Some("50"))],
        ),
        rule(
            "https://e.com/ x",
            vec![
                condition("device", Some("x"), Some("Android")),
                condition("query-param", None, None),
                condition("valueless-query-param", Some("a\n"), Some("1")),
            ],
        ),
        rule("https://e.com/", vec![]),
    ];
    let errors = encode(&rules).unwrap_err();
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    let expected = [
        "[1].longUrl",
        "[1].conditions[0].matchKey",
        "[1].conditions[0].matchValue",
        "[1].conditions[1].matchKey",
        "[1].conditions[1].matchValue",
        "[1].conditions[2].matchKey",
        "[1].conditions[2].matchValue",
        "[2].conditions",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn condition_when_value_is_invalid_is_refused() {
    for (kind, values) in [
        ("device", &["", "Android", "phone"][..]),
        ("browser", &["", "Chrome", "ie"]),
        ("language", &["", "en GB", "englishes1", "*"]),
        ("ip-address", &["", "1.2.3", "1.2.3.4/33", "example.com"]),
        ("geolocation-country-code", &["", "E", "ESP", "E1", "É"]),
        ("geolocation-city-name", &["", "a\tb"]),
        (
            "before-date",
            &[
                "",
                "2026-01-01",
                "2026-01-01T00:00:00",
                "1969-12-31T23:59:59Z",
            ],
        ),
        ("after-date", &["", "now", "1767225600"]),
        ("weight", &["", "0", "100", "050", "+5", "1.5", "-1", "50%"]),
    ] {
        for value in values {
            let rules = [rule(
                "https://e.com/",
                vec![condition(kind, None, Some(value))],
            )];
            let errors = encode(&rules).unwrap_err();
            assert_eq!(
                errors[0].path, "[0].conditions[0].matchValue",
                "{kind} {value:?}"
            );
        }
    }
}

#[test]
fn rules_when_above_bounds_are_refused() {
    let any = || condition("weight", None, Some("1"));
    let rules = |count| vec![rule("https://e.com/", vec![any()]); count];
    let conditions = |count| [rule("https://e.com/", vec![any(); count])];
    let text = |length: usize| {
        let text = "a".repeat(length);
        [rule(
            "https://e.com/",
            vec![condition("query-param", Some(&text), Some(&text))],
        )]
    };
    let targets = |length: usize| vec![rule(&"a".repeat(length), vec![any()]); 2];
    // A rule of that target has 2 bytes of its own length, 2 of the target's, and 2 of the condition.
    let longest = MAX_ENCODED_LENGTH / 2 - 6;
    assert!(encode(&rules(MAX_RULES)).is_ok());
    assert!(encode(&conditions(MAX_CONDITIONS)).is_ok());
    assert!(encode(&text(MAX_TEXT_LENGTH)).is_ok());
    let bytes = encode(&targets(longest)).unwrap();
    assert_eq!(bytes.len(), MAX_ENCODED_LENGTH);
    assert!(Rules::decode(&bytes).is_ok());
    for (rules, path) in [
        (rules(MAX_RULES + 1), ""),
        (conditions(MAX_CONDITIONS + 1).to_vec(), "[0].conditions"),
        (
            text(MAX_TEXT_LENGTH + 1).to_vec(),
            "[0].conditions[0].matchKey",
        ),
        (targets(longest + 1), ""),
    ] {
        assert_eq!(encode(&rules).unwrap_err()[0].path, path);
    }
    let one = &encode(&rules(1)).unwrap()[..];
    assert!(Rules::decode(&one.repeat(MAX_RULES)).is_ok());
    assert!(Rules::decode(&one.repeat(MAX_RULES + 1)).is_err());
}

#[test]
fn request_when_header_or_query_is_long_is_read_in_part() {
    let late = |bytes: usize, text: &str| format!("{}{text}", "x".repeat(bytes - text.len()));
    let device = || vec![condition("device", None, Some("ios"))];
    let parameter = || vec![condition("any-value-query-param", Some("a"), None)];
    for (more, holds) in [(0, true), (1, false)] {
        let visitor = TestVisitor {
            user_agent: late(MAX_HEADER_BYTES + more, " iPhone"),
            query: late(MAX_QUERY_BYTES + more, "&a").into_bytes(),
            ..TestVisitor::default()
        };
        assert_eq!(meets(&visitor, device()), holds);
        assert_eq!(meets(&visitor, parameter()), holds);
    }
}

proptest! {
    #[test]
    fn rules_when_decoded_are_explained_as_evaluated(rules in any_rules(), visitor in any_visitor()) {
        let bytes = encode(&rules).unwrap();
        let encoded = Rules::decode(&bytes).unwrap();
        let explained = explain(encoded, b"d/a", &visitor);
        let counts = |rule: &Rule| rule.conditions.len();
        prop_assert_eq!(
            explained.iter().map(|rule| rule.conditions.len()).collect::<Vec<_>>(),
            rules.iter().map(counts).collect::<Vec<_>>()
        );
        let first = explained.iter().position(|rule| rule.holds);
        let chosen = evaluate(encoded, b"d/a", &visitor);
        prop_assert_eq!(chosen.map(|chosen| chosen.index), first);
        if let Some(chosen) = chosen {
            prop_assert_eq!(chosen.target, rules[chosen.index].target.as_bytes());
        }
    }

    #[test]
    fn rules_when_bytes_are_arbitrary_never_panic(
        rules in any_rules(),
        visitor in any_visitor(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&rules).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        let _ = Rules::decode(&bytes);
        // As if they had been decoded before.
        let _ = evaluate(Rules::decoded_before(&bytes), b"d/a", &visitor);
        let _ = explain(Rules::decoded_before(&bytes), b"d/a", &visitor);
    }
}
