use super::*;
use crate::analytics::model::Device;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Command;

const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";

/// A list of cases as uap-core publishes them.
#[derive(Deserialize)]
struct Published {
    test_cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    user_agent_string: String,
    family: String,
}

/// The folder of uap-core that the crate `ua-parser` carries with it.
fn uap_core() -> PathBuf {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages
        .iter()
        .find(|package| package["name"] == "ua-parser")
        .expect("ua-parser");
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    manifest.with_file_name("uap-core")
}

fn read<T: DeserializeOwned>(path: &str) -> T {
    let text = std::fs::read_to_string(uap_core().join(path)).expect("the file is readable");
    let options = serde_saphyr::options! { budget: None };
    serde_saphyr::from_str_with_options(&text, options).expect("YAML")
}

fn cases(path: &str) -> Vec<Case> {
    read::<Published>(path).test_cases
}

/// The share of the cases of which `found` is the family that is published.
fn share<'a>(cases: impl Iterator<Item = &'a Case>, found: impl Fn(&Agent) -> &str) -> f64 {
    let (mut all, mut agreed) = (0, 0);
    for case in cases {
        let family = match case.family.as_str() {
            OTHER_FAMILY => "",
            family => family,
        };
        all += 1;
        agreed += u32::from(found(&parse(&case.user_agent_string)) == family);
    }
    f64::from(agreed) / f64::from(all)
}

#[test]
fn family_when_checked_against_uap_core_mostly_agrees() {
    let browser: fn(&Agent) -> &str = |agent| &agent.browser;
    let os: fn(&Agent) -> &str = |agent| &agent.os;
    for (name, family, path) in [
        ("browser", browser, "tests/test_ua.yaml"),
        (
            "browser",
            browser,
            "test_resources/firefox_user_agent_strings.yaml",
        ),
        (
            "browser",
            browser,
            "test_resources/opera_mini_user_agent_strings.yaml",
        ),
        (
            "browser",
            browser,
            "test_resources/podcasting_user_agent_strings.yaml",
        ),
        ("browser", browser, "test_resources/pgts_browser_list.yaml"),
        ("os", os, "tests/test_os.yaml"),
        ("os", os, "test_resources/additional_os_tests.yaml"),
    ] {
        let all = cases(path);
        let is_person = |case: &&Case| !parse(&case.user_agent_string).is_bot;
        let shares = [
            share(all.iter(), family),
            share(all.iter().filter(is_person), family),
        ];
        let people = all.iter().filter(is_person).count();
        println!(
            "{name}, {path}: {:.4} of {}, {:.4} of {people} without bots",
            shares[0],
            all.len(),
            shares[1]
        );
        assert!(
            shares.iter().all(|share| *share >= 0.97),
            "{path}: {shares:?}"
        );
    }
}

#[test]
fn bot_when_listed_by_uap_core_is_recognized() {
    let (mut spiders, mut missed, mut people, mut taken) = (0, 0, 0, 0);
    for case in cases("tests/test_device.yaml") {
        let is_bot = parse(&case.user_agent_string).is_bot;
        if case.family == SPIDER {
            spiders += 1;
            missed += usize::from(!is_bot);
        } else {
            people += 1;
            taken += usize::from(is_bot);
        }
    }
    println!("bots: {missed} of {spiders} missed; {taken} of {people} others taken for one");
    assert_eq!(missed, 0);
    assert!(taken * 200 < people, "{taken}");
}

#[test]
fn expressions_when_compared_equal_the_ones_of_the_crate() {
    let ours: serde_json::Value =
        serde_json::from_str(include_str!("../../../data/user-agents/regexes.json")).expect("JSON");
    let theirs: serde_json::Value = read("regexes.yaml");
    assert!(
        ours == theirs,
        "run control-plane/clicks/data/user-agents/update.py"
    );
}

#[test]
fn user_agent_when_of_a_person_is_no_bot() {
    for (device, browser, os, user_agent) in [
        (Device::Mobile, "Mobile Safari", "iOS", IPHONE),
        (
            Device::Desktop,
            "Chrome",
            "Windows",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
        ),
        (
            Device::Desktop,
            "Safari",
            "Mac OS X",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
        ),
        (
            Device::Desktop,
            "Firefox",
            "Linux",
            "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
        ),
        (
            Device::Desktop,
            "Firefox",
            "Ubuntu",
            "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
        ),
        (
            Device::Desktop,
            "Edge",
            "Windows",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36 Edg/125.0.0.0",
        ),
        (
            Device::Desktop,
            "Chrome",
            "Chrome OS",
            "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36",
        ),
        (
            Device::Desktop,
            "IE",
            "Windows",
            "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; Tablet PC 2.0)",
        ),
        (
            Device::Mobile,
            "Chrome Mobile",
            "Android",
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
        ),
        (
            Device::Mobile,
            "Samsung Internet",
            "Android",
            "Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36",
        ),
        (
            Device::Mobile,
            "Firefox Mobile",
            "Android",
            "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0",
        ),
        (
            Device::Mobile,
            "Facebook",
            "iOS",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/21F90 [FBAN/FBIOS;FBAV/466.0.0.41.108;FBBV/605283123;FBDV/iPhone14,5]",
        ),
        (
            Device::Tablet,
            "Mobile Safari",
            "iOS",
            "Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.6 Mobile/15E148 Safari/604.1",
        ),
        (
            Device::Tablet,
            "Chrome",
            "Android",
            "Mozilla/5.0 (Linux; Android 13; SM-X710) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36",
        ),
        (
            Device::Tablet,
            "Firefox Mobile",
            "Android",
            "Mozilla/5.0 (Android 13; Tablet; rv:127.0) Gecko/127.0 Firefox/127.0",
        ),
        (
            Device::Tablet,
            "Amazon Silk",
            "Android",
            "Mozilla/5.0 (Linux; Android 9; KFMAWI) AppleWebKit/537.36 (KHTML, like Gecko) Silk/124.3.1 like Chrome/124.0.6367.207 Safari/537.36",
        ),
        (
            Device::Other,
            "Edge",
            "Windows",
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox Series X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/123.0.0.0 Safari/537.36 Edge/44.18363.8131",
        ),
        (
            Device::Other,
            "Samsung Internet",
            "Tizen",
            "Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.5) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/5.0 Chrome/85.0.4183.93 TV Safari/537.36",
        ),
        (
            Device::Mobile,
            "Nokia Services (WAP) Browser",
            "",
            "Nokia6230/2.0 (03.14) Profile/MIDP-2.0 Configuration/CLDC-1.1",
        ),
    ] {
        let agent = parse(user_agent);
        let found = (agent.device, &*agent.browser, &*agent.os, agent.is_bot);
        assert_eq!(found, (device, browser, os, false), "{user_agent}");
    }
}

#[test]
fn user_agent_when_of_a_program_is_a_bot() {
    for user_agent in [
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
        "WhatsApp/2.23.20.0",
        "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        "Twitterbot/1.0",
        "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
        "TelegramBot (like TwitterBot)",
        "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
        "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com",
        "curl/8.7.1",
        "Wget/1.21.4",
        "python-requests/2.32.3",
        "python-httpx/0.27.0",
        "Python/3.12 aiohttp/3.9.5",
        "Go-http-client/2.0",
        "okhttp/4.12.0",
        "Java/17.0.11",
        "axios/1.7.2",
        "node",
        "reqwest/0.12.4",
        "PostmanRuntime/7.39.0",
        "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.4412",
        "Mozilla/4.0 (compatible; ms-office; MSOffice 16)",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.1; +https://openai.com/gptbot",
    ] {
        assert!(parse(user_agent).is_bot, "{user_agent}");
    }
}

#[test]
fn user_agent_when_meaningless_is_unknown() {
    for user_agent in ["", " ", "\u{fffd}", "x", "Mozilla/5.0"] {
        assert_eq!(*parse(user_agent), Agent::default(), "{user_agent:?}");
    }
}

#[test]
fn user_agent_when_known_is_not_parsed_again() {
    let first = parse(IPHONE);
    assert!(Arc::ptr_eq(&first, &parse(IPHONE)));
}

#[test]
fn user_agent_when_too_long_is_read_from_its_beginning() {
    let long = format!("{}{}", IPHONE, " Googlebot/2.1".repeat(100));
    assert!(parse(&long).is_bot);
    let padded = format!("{IPHONE}{}Googlebot/2.1", "é".repeat(MAX_TEXT));
    assert!(!parse(&padded).is_bot);
    assert_eq!(
        &*family(&"é".repeat(MAX_FAMILY)),
        "é".repeat(MAX_FAMILY / 2)
    );
}

#[test]
fn user_agent_cache_when_full_stays_within_its_bound() {
    let known = remembering(10);
    for number in 0..100 {
        known.insert(number.to_string().into(), Arc::default());
    }
    known.run_pending_tasks();
    assert_eq!(known.entry_count(), 10);
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn family_when_text_is_arbitrary_stays_within_its_bound(text in ".{0,700}") {
            let agent = parse(&text);
            prop_assert!(agent.browser.len() <= MAX_FAMILY && agent.os.len() <= MAX_FAMILY);
        }
    }
}
