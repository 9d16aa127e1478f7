//! Classification of devices, browsers and bots by the words of the header `User-Agent`. More specific words win, because browsers
//! also name those that they want to be compatible with.

use super::words::{Browser, Device};
use super::written::MAX_HEADER_BYTES;

/// The device named by the words, which is never a group; `None` if they name none.
pub(super) fn device(user_agent: &[u8]) -> Option<Device> {
    most_particular(user_agent, |word| {
        Some(match word {
            // Windows Phone claimed to be Android and iPhone too.
            b"Phone" => (0, None),
            // Browsers of iOS name themselves where they ask for pages of computers, and claim to be a Mac.
            b"iPhone" | b"iPad" | b"iPod" | b"CriOS" | b"FxiOS" | b"EdgiOS" | b"OPiOS" => {
                (1, Some(Device::Ios))
            }
            b"Android" => (2, Some(Device::Android)),
            b"CrOS" => (3, Some(Device::Chromeos)),
            b"Windows" => (4, Some(Device::Windows)),
            b"Macintosh" => (5, Some(Device::Macos)),
            b"Linux" | b"X11" => (6, Some(Device::Linux)),
            _ => return None,
        })
    })
}

/// The browser named by the words; `None` if it is not one of [`Browser`].
pub(super) fn browser(user_agent: &[u8]) -> Option<Browser> {
    let named = most_particular(user_agent, |word| {
        Some(match word {
            // These are based on Chrome or Firefox, and name it.
            b"SamsungBrowser" | b"YaBrowser" | b"Vivaldi" | b"Seamonkey" => (0, None),
            b"Edg" | b"EdgA" | b"EdgiOS" | b"Edge" => (1, Some(Browser::Edge)),
            b"OPR" | b"OPiOS" | b"Opera" => (2, Some(Browser::Opera)),
            b"FxiOS" | b"Firefox" => (3, Some(Browser::Firefox)),
            b"CriOS" | b"Chromium" | b"Chrome" => (4, Some(Browser::Chrome)),
            b"Safari" => (5, Some(Browser::Safari)),
            _ => return None,
        })
    })?;
    // Android's own browser claims to be Safari.
    let is_androids_own =
        named == Browser::Safari && words(user_agent).any(|word| word == b"Android");
    Some(if is_androids_own {
        Browser::AndroidBrowser
    } else {
        named
    })
}

/// Parts of words in the names of bots, in lower case.
const BOT_STEMS: [&[u8]; 11] = [
    b"bot",
    b"crawl",
    b"spider",
    b"slurp",
    b"preview",
    b"unfurl",
    b"scanner",
    b"externalhit",
    b"httpclient",
    b"fetcher",
    b"headless",
];

/// Names of programs and services that fetch links their users have not opened, in lower case.
const BOT_WORDS: [&[u8]; 46] = [
    b"aiohttp",
    b"akkoma",
    b"axios",
    b"barracuda",
    b"cardyb",
    b"curl",
    b"embedly",
    b"facebookcatalog",
    b"faraday",
    b"friendica",
    b"googleother",
    b"gotosocial",
    b"guzzlehttp",
    b"httpie",
    b"httpx",
    b"hubzilla",
    b"iframely",
    b"imgproxy",
    b"lemmy",
    b"libcurl",
    b"libwww",
    b"lighthouse",
    b"mastodon",
    b"mattermost",
    b"mediapartners",
    b"mimecast",
    b"misskey",
    b"okhttp",
    b"peertube",
    b"phantomjs",
    b"pixelfed",
    b"playwright",
    b"pleroma",
    b"postmanruntime",
    b"powershell",
    b"proofpoint",
    b"puppeteer",
    b"pycurl",
    b"python",
    b"reqwest",
    b"scrapy",
    b"selenium",
    b"undici",
    b"wget",
    b"whatsapp",
    b"winhttp",
];

/// True for the `User-Agent` of a bot, a link preview or a program. Bots that claim to be browsers are not recognized.
///
/// By convention, the address of a page about the bot has a plus in front: `(+https://bot.example/)`.
#[must_use]
pub fn is_bot(user_agent: &[u8]) -> bool {
    let beginning = user_agent.get(..MAX_HEADER_BYTES);
    let beginning = beginning.unwrap_or(user_agent);
    words(beginning).any(is_of_bots) || beginning.windows(5).any(|part| part == b"+http")
}

fn is_of_bots(word: &[u8]) -> bool {
    let mut room = [0; 32];
    let Some(word) = room.get_mut(..word.len()).map(|room| {
        room.copy_from_slice(word);
        room.make_ascii_lowercase();
        &*room
    }) else {
        return false;
    };
    // A brand of phones.
    let is_device = word == b"cubot";
    let has_stem = |stem: &&[u8]| word.windows(stem.len()).any(|part| part == *stem);
    BOT_WORDS.contains(&word) || !is_device && BOT_STEMS.iter().any(has_stem)
}

impl Device {
    /// True if `device`, which is not a group, is this device or belongs to this group.
    pub(super) fn includes(self, device: Self) -> bool {
        match self {
            Self::Mobile => matches!(device, Self::Android | Self::Ios),
            Self::Desktop => !matches!(device, Self::Android | Self::Ios),
            single => single == device,
        }
    }
}

/// The words of the header: letters and digits.
fn words(user_agent: &[u8]) -> impl Iterator<Item = &[u8]> {
    user_agent.split(|byte| !byte.is_ascii_alphanumeric())
}

/// The meaning of the word with the lowest rank; `rank` returns `None` for words without a meaning. The header is read once.
fn most_particular<T>(
    user_agent: &[u8],
    rank: impl Fn(&[u8]) -> Option<(u8, Option<T>)>,
) -> Option<T> {
    let (mut least, mut meaning) = (u8::MAX, None);
    for word in words(user_agent) {
        if let Some((rank, means)) = rank(word)
            && rank < least
        {
            (least, meaning) = (rank, means);
        }
    }
    meaning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_agent_when_it_has_a_bot_word_is_bot() {
        for user_agent in [
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
            "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
            "WhatsApp/2.23.20.0",
            "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
            "Bluesky Cardyb/1.1; +mailto:support@bsky.app",
            "Misskey/13.14.2 (https://misskey.example)",
            "Pleroma 2.5.5; https://pleroma.example <admin@pleroma.example>; ",
            "Pinterest/0.2 (+http://www.pinterest.example/)",
            "Mimecast-URL-Protect/1.0",
            "Barracuda Sentinel (EE)",
            "curl/8.8.0",
            "Wget/1.24.5",
            "python-requests/2.32.3",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/126.0.0.0 Safari/537.36",
        ] {
            assert!(is_bot(user_agent.as_bytes()), "{user_agent}");
        }
        let long = format!("{} bot", "x".repeat(MAX_HEADER_BYTES));
        for user_agent in [
            "",
            WINDOWS,
            IPHONE,
            ANDROID,
            "Mozilla/5.0 (Linux; Android 9; CUBOT NOTE 20) Chrome/126.0.0.0 Mobile Safari/537.36",
            &format!("{} bot", "w".repeat(33))[..33],
            &long,
        ] {
            assert!(!is_bot(user_agent.as_bytes()), "{user_agent}");
        }
    }

    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)";
    const ANDROID: &str =
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko)";
    const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

    #[test]
    fn user_agent_when_parsed_gives_device_and_browser() {
        let of = |user_agent: &str| {
            (
                device(user_agent.as_bytes()),
                browser(user_agent.as_bytes()),
            )
        };
        for (user_agent, expected_device, expected_browser) in [
            (format!("{IPHONE} Version/17.5 Mobile/15E148 Safari/604.1"), Some(Device::Ios), Some(Browser::Safari)),
            (format!("{IPHONE} CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1"), Some(Device::Ios), Some(Browser::Chrome)),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/147 Version/11.1.1 Safari/605.1.15".to_owned(),
                Some(Device::Ios),
                Some(Browser::Chrome),
            ),
            (format!("{IPHONE} FxiOS/127.0 Mobile/15E148 Safari/605.1.15"), Some(Device::Ios), Some(Browser::Firefox)),
            (format!("{IPHONE} EdgiOS/125.0 Version/17.0 Mobile/15E148 Safari/604.1"), Some(Device::Ios), Some(Browser::Edge)),
            (format!("{ANDROID} Chrome/126.0.0.0 Mobile Safari/537.36"), Some(Device::Android), Some(Browser::Chrome)),
            (format!("{ANDROID} Chrome/126.0.0.0 Mobile Safari/537.36 OPR/82.0"), Some(Device::Android), Some(Browser::Opera)),
            (format!("{ANDROID} SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36"), Some(Device::Android), None),
            (
                "Mozilla/5.0 (Linux; U; Android 4.0.3; de-de) AppleWebKit/534.30 (KHTML, like Gecko) Version/4.0 Mobile Safari/534.30".to_owned(),
                Some(Device::Android),
                Some(Browser::AndroidBrowser),
            ),
            (WINDOWS.to_owned(), Some(Device::Windows), Some(Browser::Chrome)),
            (format!("{WINDOWS} Edg/126.0.0.0"), Some(Device::Windows), Some(Browser::Edge)),
            (
                "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) Chrome/52.0.2743.116 Mobile Safari/537.36 Edge/15.15063".to_owned(),
                None,
                Some(Browser::Edge),
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15".to_owned(),
                Some(Device::Macos),
                Some(Browser::Safari),
            ),
            (
                "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36".to_owned(),
                Some(Device::Chromeos),
                Some(Browser::Chrome),
            ),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0".to_owned(), Some(Device::Linux), Some(Browser::Firefox)),
            ("curl/8.8.0".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            assert_eq!(of(&user_agent), (expected_device, expected_browser), "{user_agent}");
        }
    }

    #[test]
    fn device_when_in_group_is_included() {
        let mobile = [Device::Android, Device::Ios];
        let desktop = [
            Device::Windows,
            Device::Macos,
            Device::Linux,
            Device::Chromeos,
        ];
        for device in mobile {
            assert!(Device::Mobile.includes(device) && !Device::Desktop.includes(device));
        }
        for device in desktop {
            assert!(Device::Desktop.includes(device) && !Device::Mobile.includes(device));
        }
        assert!(Device::Ios.includes(Device::Ios) && !Device::Ios.includes(Device::Android));
    }

    #[test]
    fn device_word_when_not_whole_is_ignored() {
        for (text, device_of_it) in [
            ("iPad", Some(Device::Ios)),
            ("x iPad", Some(Device::Ios)),
            ("(iPad;", Some(Device::Ios)),
            ("iiPad", None),
            ("iPads", None),
            ("iPa", None),
        ] {
            assert_eq!(device(text.as_bytes()), device_of_it, "{text}");
        }
    }
}
