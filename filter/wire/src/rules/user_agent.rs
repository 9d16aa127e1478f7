//! Devices and browsers by the header `User-Agent`: by the words that they put there, the more particular ones first, because
//! each names those that it wants to be taken for as well.

use super::words::{Browser, Device};

/// The device that the words name: one of the six that are no groups; `None` if they name none.
pub(super) fn device(user_agent: &[u8]) -> Option<Device> {
    most_particular(user_agent, |word| {
        Some(match word {
            // Phones with Windows called themselves Android and iPhone too.
            b"Phone" => (0, None),
            b"iPhone" | b"iPad" | b"iPod" => (1, Some(Device::Ios)),
            b"Android" => (2, Some(Device::Android)),
            b"CrOS" => (3, Some(Device::Chromeos)),
            b"Windows" => (4, Some(Device::Windows)),
            b"Macintosh" => (5, Some(Device::Macos)),
            b"Linux" | b"X11" => (6, Some(Device::Linux)),
            _ => return None,
        })
    })
}

/// The browser that the words name; `None` if they name none of ours.
pub(super) fn browser(user_agent: &[u8]) -> Option<Browser> {
    let named = most_particular(user_agent, |word| {
        Some(match word {
            // These are made of Chrome or Firefox, and name it.
            b"SamsungBrowser" | b"YaBrowser" | b"Vivaldi" | b"Seamonkey" => (0, None),
            b"Edg" | b"EdgA" | b"EdgiOS" | b"Edge" => (1, Some(Browser::Edge)),
            b"OPR" | b"OPiOS" | b"Opera" => (2, Some(Browser::Opera)),
            b"FxiOS" | b"Firefox" => (3, Some(Browser::Firefox)),
            b"CriOS" | b"Chromium" | b"Chrome" => (4, Some(Browser::Chrome)),
            b"Safari" => (5, Some(Browser::Safari)),
            _ => return None,
        })
    })?;
    // Android's own calls itself Safari.
    let is_androids_own =
        named == Browser::Safari && words(user_agent).any(|word| word == b"Android");
    Some(if is_androids_own {
        Browser::AndroidBrowser
    } else {
        named
    })
}

impl Device {
    /// Whether `device`, which is no group, is that one or one of that group.
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

/// What the word with the least rank means; `rank` has the words that mean something. The header is read once.
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

    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)";
    const ANDROID: &str =
        "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko)";
    const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

    #[test]
    fn what_browsers_say_is_the_device_and_the_browser() {
        let of = |user_agent: &str| {
            (
                device(user_agent.as_bytes()),
                browser(user_agent.as_bytes()),
            )
        };
        for (user_agent, expected_device, expected_browser) in [
            (format!("{IPHONE} Version/17.5 Mobile/15E148 Safari/604.1"), Some(Device::Ios), Some(Browser::Safari)),
            (format!("{IPHONE} CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1"), Some(Device::Ios), Some(Browser::Chrome)),
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
    fn groups_hold_the_devices_of_theirs() {
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
    fn a_word_counts_as_a_whole_wherever_it_stands() {
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
