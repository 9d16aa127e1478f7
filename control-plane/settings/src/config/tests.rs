use super::*;
use edgelink_wire::settings::Range;
use std::collections::BTreeSet;
use std::io::Write;

const EXAMPLE: &str = include_str!("../../../edgelink.example.toml");

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn load(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    Config::load(Some(file(text).path()), &environment(variables))
        .map_err(|error| error.to_string())
}

#[test]
fn example_when_loaded_holds_the_defaults() {
    let defaults = Config::load(None, &Environment::default()).unwrap();
    assert_eq!(load(EXAMPLE, &[]).unwrap(), defaults);
    assert_eq!(defaults, Config::default());
}

#[test]
fn variable_when_listed_is_named_by_section_and_field() {
    let names: BTreeSet<String> = Config::variables().map(|variable| variable.name).collect();
    assert_eq!(names.len(), Config::variables().count());
    assert!(names.contains("EDGELINK_SERVER_LISTEN"));
}

#[test]
fn lease_setting_when_longest_equals_that_of_the_store() {
    let lease = Config::variables()
        .find(|variable| variable.name == "EDGELINK_PUBLISHER_LEASE_MS")
        .unwrap();
    let most = edgelink_store::MAX_LEASE_MILLIS.cast_signed();
    assert_eq!(lease.setting.range, Range::Numbers(500..=most));
}

#[test]
fn certificate_when_no_listener_uses_it_is_refused() {
    let pem = file("x");
    let path = pem.path().display();
    let files = format!("[tls]\ncertificate_file = \"{path}\"\nkey_file = \"{path}\"\n");
    let error = load(&format!("{files}listeners = []"), &[]).unwrap_err();
    assert!(error.contains("tls.listeners: is empty"), "{error}");
    assert!(load(&files, &[]).is_ok());
}

#[test]
fn variable_when_set_overrides_the_file() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\nmax_body_bytes = 2000\n[links]\ndomains = [\"a.example\"]";
    let variables = [
        ("EDGELINK_SERVER_LISTEN", "[::1]:2"),
        ("EDGELINK_SERVER_MAX_BODY_BYTES", ""),
        ("EDGELINK_LINKS_DOMAINS", "B.example:8080, c.example"),
        ("EDGELINK_STORE_AUTO_MIGRATE", "false"),
        ("EDGELINK_LINKS_SHORT_URL_SCHEME", "http"),
        ("EDGELINK_LOG_FORMAT", "json"),
        ("EDGELINK_LOG_FILTER", "warn,edgelink=debug"),
    ];
    let config = load(text, &variables).unwrap();
    assert_eq!(config.server.listen, "[::1]:2".parse().unwrap());
    assert_eq!(config.server.max_body_bytes, 2000);
    let domains: Vec<&str> = config.links.domains.iter().map(AsRef::as_ref).collect();
    assert_eq!(domains, ["b.example:8080", "c.example"]);
    assert!(!config.store.auto_migrate);
    assert_eq!(config.links.short_url_scheme, Scheme::Http);
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn value_when_wrong_is_refused_with_the_right_ones() {
    for (text, parts) in [
        ("[server]\nlisten = \"here\"", ["server.listen", "'here'"]),
        ("[server]\nlisten = 8081", ["server.listen", "a string"]),
        (
            "[server]\nmax_body_bytes = 1",
            ["server.max_body_bytes", "is 1, must be 1024 to 16777216"],
        ),
        (
            "[server]\nmax_body_bytes = -1",
            ["server.max_body_bytes", "-1"],
        ),
        ("[server]\nlistn = \"x\"", ["server.listn", "listen"]),
        ("[servr]\nlisten = \"x\"", ["servr", "server"]),
        ("server = 1", ["server", "must be a section"]),
        (
            "[server]\nmax_connections_per_address = 0",
            [
                "server.max_connections_per_address",
                "is 0, must be 1 to 1000000",
            ],
        ),
        (
            "[server]\nhealth_connections = 1001",
            ["server.health_connections", "is 1001, must be 0 to 1000"],
        ),
        (
            "[server]\nwrite_timeout_ms = 99",
            ["server.write_timeout_ms", "is 99, must be 100 to 600000"],
        ),
        (
            "[links]\nunknown_hosts = \"pass\"",
            ["links.unknown_hosts", "`not_found`"],
        ),
        (
            "[auth]\nmax_key_lookups = 0",
            ["auth.max_key_lookups", "is 0, must be 1 to 1000"],
        ),
        (
            "[numbers]\nzookeeper_auth = \"digest:\"",
            ["numbers.zookeeper_auth", "digest:user:password"],
        ),
        ("[store]\nurl = \"postgres://x\"", ["store.url", "mysql://"]),
        ("[links]\ndomains = []", ["links.domains", "at least one"]),
        (
            "[links]\ndomains = [\"a\", \"A\"]",
            ["links.domains", "'a' twice"],
        ),
        (
            "[links]\ndomains = [\"http://a\"]",
            ["links.domains", "'http://a'"],
        ),
        (
            "[links]\ncode_length = 5",
            ["links.code_length", "is 5, must be 6 to 10"],
        ),
        (
            "[links]\nshort_url_scheme = \"ftp\"",
            ["links.short_url_scheme", "`https`"],
        ),
        (
            "[links]\ncode_key = \"xyz\"",
            ["links.code_key", "32 hexadecimal digits"],
        ),
        (
            "[links]\ncode_key_file = \"/nowhere/key\"",
            ["links.code_key_file", "/nowhere/key"],
        ),
        (
            "[numbers]\nsource = \"zookeeper\"",
            ["numbers.source", "needs numbers.zookeeper_servers"],
        ),
        (
            "[numbers]\nsource = \"snowflake\"\n[links]\ncode_length = 9",
            ["numbers.source", "need links.code_length = 10 (it is 9)"],
        ),
        (
            "[numbers]\nsource = \"counter\"\n[links]\ncode_key = \"000102030405060708090a0b0c0d0e0f\"",
            ["numbers.source", "remove links.code_key"],
        ),
        (
            "[numbers]\nsource = \"uuid\"",
            ["numbers.source", "`snowflake`"],
        ),
        (
            "[numbers]\nzookeeper_path = \"next\"",
            ["numbers.zookeeper_path", "'next'"],
        ),
        (
            "[auth]\nedge_tokens = [\"short\"]",
            ["auth.edge_tokens", "16 visible ASCII"],
        ),
        (
            "[auth]\nedge_token_file = \"/nowhere/token\"",
            ["auth.edge_token_file", "/nowhere/token"],
        ),
        ("[log]\nformat = \"xml\"", ["log.format", "`json`"]),
        ("[log]\nfilter = \"a=b=c\"", ["log.filter", "a=b=c"]),
        (
            "[pages]\ngone = \"/nowhere/gone\"",
            ["pages.gone", "/nowhere/gone"],
        ),
    ] {
        let error = load(text, &[]).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

#[test]
fn variable_when_wrong_is_refused_by_name() {
    let error = load(
        "",
        &[
            ("EDGELINK_LINKS_CODE_LENGTH", "seven"),
            ("EDGELINK_STORE_AUTO_MIGRATE", "yes"),
        ],
    );
    let error = error.unwrap_err();
    assert!(
        error.contains("EDGELINK_LINKS_CODE_LENGTH: is 'seven', must be a whole number"),
        "{error}"
    );
    assert!(
        error.contains("EDGELINK_STORE_AUTO_MIGRATE: is 'yes', must be true or false"),
        "{error}"
    );
}

#[test]
fn fields_when_several_are_wrong_are_named_at_once() {
    let error = load("[links]\ncode_length = 5\n[numbers]\nstep = 0", &[]).unwrap_err();
    assert!(
        error.contains("links.code_length") && error.contains("numbers.step"),
        "{error}"
    );
}

#[test]
fn file_when_missing_or_no_toml_is_named() {
    let error =
        Config::load(Some(Path::new("/nowhere/x.toml")), &Environment::default()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/x.toml"));
    let error = load("[server", &[]).unwrap_err();
    assert!(error.contains("not valid TOML"), "{error}");
}

#[test]
fn message_when_a_secret_is_wrong_hides_it() {
    const SECRET: &str = "0123456789abcdef0123";
    for (text, field, right) in [
        (
            format!("[links]\n[store]\nurl = \"mysql://u:{SECRET}@h/db"),
            "line 3, column",
            "not valid TOML",
        ),
        (
            format!("[links]\ncode_key = {SECRET}"),
            "line 2, column",
            "not valid TOML",
        ),
        (
            format!("[auth]\nedge_tokens = \"{SECRET}\""),
            "auth.edge_tokens",
            "must be a sequence",
        ),
        (
            format!("[auth]\nedge_tokens = [\"{SECRET}, expected\", {{ a = \"{SECRET}\" }}]"),
            "auth.edge_tokens[1]",
            "must be a string",
        ),
        (
            "[links]\ncode_key = 1234567890123".to_owned(),
            "links.code_key",
            "must be a string",
        ),
        (format!("auth = \"{SECRET}\""), "auth", "must be a section"),
        (
            format!("[numbers]\nzookeeper_auth = \"{SECRET}\""),
            "numbers.zookeeper_auth",
            "digest:user:password",
        ),
        (
            format!("[redis]\nurl = \"http://:{SECRET}@h\""),
            "redis.url",
            "redis://",
        ),
    ] {
        let error = Config::load(Some(file(&text).path()), &Environment::default()).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains(field) && shown.contains(right),
            "{text}: {shown}"
        );
        for secret in [SECRET, "1234567890123"] {
            assert!(!shown.contains(secret), "{text}: {shown}");
        }
    }
    let environment = environment(&[("EDGELINK_LINKS_CODE_KEY", SECRET)]);
    let error = Config::load(None, &environment).unwrap_err();
    let shown = format!("{error} {error:?} {environment:?}");
    assert!(
        shown.contains("links.code_key") && !shown.contains(SECRET),
        "{shown}"
    );
}

#[test]
fn secret_when_read_from_a_file_is_never_shown() {
    let key = file("000102030405060708090a0b0c0d0e0f\n");
    let tokens = file("first-token-of-the-edges\n\nsecond-token-of-the-edges\n");
    let config = load(
        "",
        &[
            ("EDGELINK_LINKS_CODE_KEY_FILE", key.path().to_str().unwrap()),
            (
                "EDGELINK_AUTH_EDGE_TOKEN_FILE",
                tokens.path().to_str().unwrap(),
            ),
            ("EDGELINK_AUTH_EDGE_TOKENS", "third-token-of-the-edges"),
        ],
    )
    .unwrap();
    let file = config.auth.edge_token_file.as_ref();
    let tokens = config.auth.tokens_with(file).unwrap();
    let tokens: Vec<&str> = tokens.iter().map(Secret::expose).collect();
    assert_eq!(
        tokens,
        [
            "third-token-of-the-edges",
            "first-token-of-the-edges",
            "second-token-of-the-edges"
        ]
    );
    assert!(config.links.code_key.is_some());
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("token-of-the-edges") && !shown.contains("0001020304"),
        "{shown}"
    );
}

#[test]
fn variable_when_unknown_is_found() {
    let environment = environment(&[
        ("EDGELINK_LISTN", "x"),
        ("EDGELINK_SERVICE_HOST", "x"),
        ("EDGELINK_SERVER_LISTEN", "x"),
        ("EDGELINK_EDGE_PORT", "1"),
        ("EDGELINK_TEST_ANYTHING", "1"),
        ("OTHER", "x"),
    ]);
    let unknown: Vec<&str> = Config::unknown_variables(&environment).collect();
    assert_eq!(unknown, ["EDGELINK_LISTN", "EDGELINK_SERVICE_HOST"]);

    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let files = ["envoy", "nginx"]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(format!("{root}/{folder}")).unwrap());
    let scripts = files.map(|file| file.unwrap().path());
    let scripts = scripts.filter(|path| path.extension().is_some_and(|end| end == "sh"));
    let text: String = scripts
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let words = text.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
    let of_scripts: BTreeSet<&str> = words.filter(|word| word.starts_with("EDGELINK_")).collect();
    assert!(of_scripts.len() > 50, "{of_scripts:?}");
    let of_scripts: Vec<_> = of_scripts.into_iter().map(|name| (name, "1")).collect();
    let of_scripts = self::environment(&of_scripts);
    let unknown: Vec<&str> = Config::unknown_variables(&of_scripts).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn variable_when_named_by_its_old_name_is_refused() {
    let names: BTreeSet<String> = Config::variables().map(|variable| variable.name).collect();
    let renamed: Vec<(String, String)> = environment::renamed().collect();
    let olds: BTreeSet<&String> = renamed.iter().map(|(old, _)| old).collect();
    assert_eq!((renamed.len(), olds.len()), (57, 57));
    for (old, new) in &renamed {
        assert!(names.contains(new), "{new} is no variable");
        assert!(!names.contains(old), "{old} is a variable");
        let error = load("", &[(old, "1")]).unwrap_err();
        assert_eq!(
            error.lines().skip(1).collect::<Vec<_>>(),
            [format!("  {old}: is now {new}")]
        );
        assert_eq!(load("", &[(old, "")]), load("", &[]));
        let error = load("", &[(old, "1"), (new, "")]).unwrap_err();
        assert!(error.contains(&format!("{old}: is now {new}")), "{error}");
    }
    let error = load(
        "",
        &[
            ("EDGELINK_DATABASE_URL", "mysql://u:secret@h/db"),
            ("EDGELINK_DOMAINS", "a.example"),
            ("EDGELINK_EDGE_TOKEN", "0123456789abcdef"),
            ("EDGELINK_LISTEN", "[::1]:2"),
        ],
    )
    .unwrap_err();
    for part in [
        "EDGELINK_DATABASE_URL: is now EDGELINK_STORE_URL",
        "EDGELINK_DOMAINS: is now EDGELINK_LINKS_DOMAINS",
        "EDGELINK_EDGE_TOKEN: is now EDGELINK_AUTH_EDGE_TOKENS",
        "EDGELINK_LISTEN: is now EDGELINK_SERVER_LISTEN",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn old_variable_when_the_new_one_is_set_is_ignored() {
    let defaults: std::collections::BTreeMap<String, String> = Config::variables()
        .filter_map(|variable| {
            let text = match variable.setting.default? {
                serde_json::Value::String(text) => text,
                serde_json::Value::Array(items) => items.first()?.as_str()?.to_owned(),
                value => value.to_string(),
            };
            Some((variable.name, text))
        })
        .collect();
    let token = file("first-token-of-the-edges");
    let key = file("000102030405060708090a0b0c0d0e0f");
    for (old, new) in environment::renamed() {
        let value = match new.as_str() {
            "EDGELINK_AUTH_EDGE_TOKENS" => "0123456789abcdef",
            "EDGELINK_LINKS_CODE_KEY" => "000102030405060708090a0b0c0d0e0f",
            "EDGELINK_LINKS_CODE_KEY_FILE" => key.path().to_str().unwrap(),
            "EDGELINK_NUMBERS_ZOOKEEPER_AUTH" => "digest:user:password",
            name => defaults
                .get(name)
                .map_or(token.path().to_str().unwrap(), String::as_str),
        };
        let without = load("", &[(&new, value)]).unwrap();
        assert_eq!(load("", &[(&old, "x"), (&new, value)]), Ok(without));
    }
}

#[test]
fn float_when_not_a_number_is_refused() {
    for (section, field) in [("redis", "url"), ("links", "code_key"), ("store", "url")] {
        for value in ["nan", "-nan", "inf", "-inf"] {
            let error = load(&format!("[{section}]\n{field} = {value}"), &[]).unwrap_err();
            let reasons: Vec<&str> = error.lines().skip(1).collect();
            assert_eq!(reasons.len(), 1, "{error}");
            assert!(
                reasons[0].starts_with(&format!("  {section}.{field}: is ")),
                "{error}"
            );
        }
    }
    for (text, field) in [
        ("redis = nan", "redis"),
        ("[auth]\nedge_tokens = [nan]", "auth.edge_tokens[0]"),
        ("[redis]\nurl = 1.5", "redis.url"),
    ] {
        let error = load(text, &[]).unwrap_err();
        assert!(
            error.contains(&format!("{field}: is of the type")),
            "{error}"
        );
    }
}

#[test]
fn feed_when_one_late_beat_makes_it_too_old_is_refused() {
    for (age, heartbeat, is_good) in [(4000, 2000, true), (3999, 2000, false), (1000, 500, true)] {
        let text = format!("[feed]\nmax_age_ms = {age}\n[publisher]\nheartbeat_ms = {heartbeat}");
        let loaded = load(&text, &[]);
        assert_eq!(loaded.is_ok(), is_good, "{age} {heartbeat}: {loaded:?}");
    }
    let error = load("[feed]\nmax_age_ms = 1500", &[]).unwrap_err();
    assert!(error.contains("feed.max_age_ms"), "{error}");
    for (field, value) in [
        ("stream_bytes", 1_048_575u64),
        ("stream_bytes", 1_099_511_627_777),
        ("max_age_ms", 999),
        ("max_age_ms", 5001),
    ] {
        let text = format!("[feed]\n{field} = {value}");
        let error = load(&text, &[("EDGELINK_PUBLISHER_HEARTBEAT_MS", "100")]).unwrap_err();
        assert!(error.contains(&format!("feed.{field}")), "{error}");
    }
    let error = load("[publisher]\nheartbeat_ms = 2001", &[]).unwrap_err();
    assert!(error.contains("publisher.heartbeat_ms"), "{error}");
}

#[test]
fn attribute_when_its_header_is_unknown_is_refused() {
    let text =
        "[clicks]\nattributes = ['country', 'userAgent', 'city']\n[links]\ncity_header = 'x-city'";
    let error = load(text, &[]).unwrap_err();
    assert!(error.contains("links.country_header"), "{error}");
    assert!(!error.contains("links.city_header"), "{error}");
    let with_header = [("EDGELINK_LINKS_COUNTRY_HEADER", "x-country")];
    assert!(load(text, &with_header).is_ok());
    let error = load("[clicks]\nattributes = ['colour']", &[]).unwrap_err();
    assert!(error.contains("`country`"), "{error}");
}

#[test]
fn stranger_key_when_malformed_or_unused_is_refused() {
    let key = format!("edgelink_{}_{}", "0".repeat(16), "0".repeat(64));
    for (content, page, refusal) in [
        (format!("{key}\n"), "true", None),
        (String::new(), "true", Some("with an API key")),
        (format!("{key} {key}"), "true", Some("with an API key")),
        (key.clone(), "false", Some("home.page")),
    ] {
        let file = file(&content);
        let file = file.path().display().to_string();
        let variables = [
            ("EDGELINK_HOME_PAGE", page),
            ("EDGELINK_HOME_STRANGER_KEY_FILE", &*file),
        ];
        match (load("", &variables), refusal) {
            (Ok(config), None) => assert_eq!(config.home.stranger_key(), Some(&*key)),
            (Err(error), Some(refusal)) => {
                assert!(error.contains("home.stranger_key_file"), "{error}");
                assert!(error.contains(refusal), "{error}");
                assert!(!error.contains(&key), "{error}");
            }
            (loaded, _) => panic!("{content} {page}: {loaded:?}"),
        }
    }
}

#[test]
fn provider_when_a_part_is_wrong_is_refused() {
    let good =
        "[oidc]\nissuer = \"https://login.example/a\"\nconsole_url = \"https://console.example\"\n";
    let more = "role_claim = \"groups\"\nroles = [\"a=b=editor\"]\nnew_role = \"creator\"";
    let config = load(&format!("{good}{more}"), &[]).unwrap().oidc;
    let expected = RoleOfClaim {
        claimed: "a=b".to_owned(),
        role: edgelink_model::tenancy::Role::Editor,
    };
    assert_eq!(config.roles, [expected]);
    for issuer in ["http://localhost:1", "http://127.0.0.1:1/x", "http://[::1]"] {
        let here = good.replace("https://login.example/a", issuer);
        assert!(load(&here, &[]).is_ok(), "{issuer}");
    }
    for (wrong, field) in [
        (
            good.replace("https://login.example/a", "http://login.example"),
            "oidc.issuer",
        ),
        (
            good.replace("https://login.example/a", "https://login.example?a"),
            "oidc.issuer",
        ),
        (
            good.replace("https://console.example", "https://console.example/"),
            "oidc.console_url",
        ),
        (
            "[oidc]\nissuer = \"https://login.example\"".to_owned(),
            "oidc.console_url",
        ),
        (format!("{good}client_id = \" \""), "oidc.client_id"),
        (format!("{good}scopes = [\"profile\"]"), "oidc.scopes"),
        (format!("{good}role_claim = \"groups\""), "oidc.roles"),
        (format!("{good}roles = [\"a=admin\"]"), "oidc.roles"),
        (format!("{good}roles = [\"a=boss\"]"), "oidc.roles"),
        (format!("{good}roles = [\"=admin\"]"), "oidc.roles"),
        (format!("{good}new_role = \"boss\""), "oidc.new_role"),
        (
            format!("{good}client_secret_file = \"/absent\""),
            "oidc.client_secret_file",
        ),
    ] {
        let error = load(&wrong, &[]).unwrap_err();
        assert!(error.contains(&format!("\n  {field}")), "{wrong}: {error}");
    }
}

/// The files of imports, plus the temporary excess of the reports of all imports.
#[test]
fn import_files_when_largest_fit_the_volume_of_a_pod() {
    const POD: &str = include_str!("../../../../envoy/deploy/kubernetes/base/control-plane.yaml");
    const BATCH_OF_A_REPORT: u64 = 8 << 20;
    let (_, volume) = POD.split_once("emptyDir: { sizeLimit: ").unwrap();
    let (gibibytes, _) = volume.split_once("Gi").unwrap();
    let console = Config::default().console;
    let most = console.max_import_bytes + console.max_imports as u64 * BATCH_OF_A_REPORT;
    assert!(most <= gibibytes.parse::<u64>().unwrap() << 30);
}
