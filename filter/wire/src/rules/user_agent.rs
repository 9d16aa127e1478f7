//! Devices and browsers by the header `User-Agent`: by the words that they put there, the more particular ones first, because
//! each names those that it wants to be taken for as well.

use super::words::{Browser, Device};

/// The device that the words name: one of the six that are no groups; `None` if they name none.
pub(super) fn device(user_agent: &[u8]) -> Option<Device> {
    // Phones with Windows called themselves Android and iPhone too.
    const NONE: [&str; 1] = ["Windows Phone"];
    const WORDS: [(&str, Device); 9] = [
        ("iPhone", Device::Ios),
        ("iPad", Device::Ios),
        ("iPod", Device::Ios),
        ("Android", Device::Android),
        ("CrOS", Device::Chromeos),
        ("Windows", Device::Windows),
        ("Macintosh", Device::Macos),
        ("Linux", Device::Linux),
        ("X11", Device::Linux),
    ];
    first(user_agent, &NONE, &WORDS)
}

/// The browser that the words name; `None` if they name none of ours.
pub(super) fn browser(user_agent: &[u8]) -> Option<Browser> {
    // These are made of Chrome or Firefox, and name it.
    const NONE: [&str; 4] = ["SamsungBrowser/", "YaBrowser/", "Vivaldi/", "Seamonkey/"];
    const WORDS: [(&str, Browser); 13] = [
        ("Edg/", Browser::Edge),
        ("EdgA/", Browser::Edge),
        ("EdgiOS/", Browser::Edge),
        ("Edge/", Browser::Edge),
        ("OPR/", Browser::Opera),
        ("OPiOS/", Browser::Opera),
        ("Opera", Browser::Opera),
        ("FxiOS/", Browser::Firefox),
        ("Firefox/", Browser::Firefox),
        ("CriOS/", Browser::Chrome),
        ("Chromium/", Browser::Chrome),
        ("Chrome/", Browser::Chrome),
        ("Safari/", Browser::Safari),
    ];
    let named = first(user_agent, &NONE, &WORDS)?;
    let is_androids_own = named == Browser::Safari && contains(user_agent, "Android");
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

fn first<T: Copy>(text: &[u8], none: &[&str], words: &[(&str, T)]) -> Option<T> {
    let found = words.iter().find(|(word, _)| contains(text, word))?;
    let is_none = none.iter().any(|word| contains(text, word));
    (!is_none).then_some(found.1)
}

fn contains(text: &[u8], word: &str) -> bool {
    let word = word.as_bytes();
    let Some(first) = word.first() else {
        return false;
    };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        let Some(found) = rest.get(at..) else {
            return false;
        };
        if found.starts_with(word) {
            return true;
        }
        rest = found.get(1..).unwrap_or_default();
    }
    false
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
    fn a_word_is_found_at_the_start_in_the_middle_and_at_the_end() {
        for (text, is_there) in [
            ("iPad", true),
            ("iiPad", true),
            ("x iPad y", true),
            ("iPa", false),
            ("iPaiPa", false),
        ] {
            assert_eq!(contains(text.as_bytes(), "iPad"), is_there, "{text}");
        }
    }
}
