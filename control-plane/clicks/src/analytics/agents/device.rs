//! The class of a device, which uap-core does not know: by its names of system and device, and words in the user agent.
//!
//! The first rule that applies decides: screens that are neither computer nor phone; tablets; phones; computers. A device that has a
//! name, and no system, is a phone of the time before smartphones.

use crate::analytics::model::Device;
use ua_parser::device::ValueRef;

/// Systems of televisions, watches and the like.
const OTHER_SYSTEMS: [&str; 16] = [
    "ATV OS X",
    "Chromecast Android",
    "Chromecast Fuchsia",
    "Chromecast Linux",
    "Chromecast SmartSpeaker",
    "FireHbbTV",
    "GoogleTV",
    "LG",
    "Panasonic",
    "Philips",
    "Roku",
    "Samsung",
    "Sony",
    "WatchOS",
    "Web0S",
    "tvOS",
];

/// Words of televisions, consoles, watches and cars.
const OTHER_WORDS: [&str; 22] = [
    "; AFT", // Amazon's Fire TV
    "; Quest",
    "Android TV",
    "Apple TV",
    "AppleTV",
    "BRAVIA",
    "CrKey",
    "GoogleTV",
    "HbbTV",
    "NetCast",
    "Nintendo",
    "OculusBrowser",
    "PLAYSTATION",
    "PlayStation",
    "QtCarBrowser",
    "SMART-TV",
    "Smart TV",
    "SmartTV",
    "Tesla/",
    "Watch OS",
    "WebTV",
    "Xbox",
];

/// Systems of phones (and tablets, which are tried before).
const MOBILE_SYSTEMS: [&str; 23] = [
    "Android",
    "BREW",
    "Bada",
    "BlackBerry OS",
    "Brew MP",
    "Firefox OS",
    "KaiOS",
    "Maemo",
    "MeeGo",
    "Nokia Series 30 Plus",
    "Nokia Series 40",
    "Sailfish",
    "Symbian OS",
    "Symbian^3",
    "Symbian^3 Anna",
    "Symbian^3 Belle",
    "Tizen",
    "VRE",
    "Windows CE",
    "Windows Mobile",
    "Windows Phone",
    "iOS",
    "webOS",
];

/// Systems of computers that uap-core does not call by a kind of Linux or BSD.
const DESKTOP_SYSTEMS: [&str; 7] = [
    "Chrome OS",
    "Mac OS",
    "Mac OS X",
    "SerenityOS",
    "Solaris",
    "SunOS",
    "Windows",
];

/// Kinds of Linux and BSD.
const UNIX_SYSTEMS: [&str; 21] = [
    "Arch Linux",
    "BSD",
    "CentOS",
    "Debian",
    "Fedora",
    "FreeBSD",
    "Gentoo",
    "Kubuntu",
    "Linux",
    "Linux Mint",
    "Mageia",
    "Mandriva",
    "NetBSD",
    "OpenBSD",
    "PCLinuxOS",
    "Puppy",
    "Red Hat",
    "Slackware",
    "Ubuntu",
    "openSUSE",
    "Lubuntu",
];

/// The class of a device, by the family of the system, the device as uap-core knows it, and the text.
pub(super) fn class(os: &str, device: Option<&ValueRef<'_>>, user_agent: &str) -> Device {
    let name = device.map_or("", |device| &device.device);
    if name == super::SPIDER {
        return Device::Unknown;
    }
    let brand = device
        .and_then(|device| device.brand.as_deref())
        .unwrap_or_default();
    let has_name = !name.is_empty() && name != super::OTHER_FAMILY;
    let is_unix = UNIX_SYSTEMS.contains(&os);
    if is_other(os, name, brand, user_agent) {
        Device::Other
    } else if is_tablet(os, name, brand, user_agent) {
        Device::Tablet
    } else if MOBILE_SYSTEMS.contains(&os)
        || (is_unix && has_name)
        || user_agent.contains("Mobile Safari")
    {
        Device::Mobile
    } else if is_unix || DESKTOP_SYSTEMS.contains(&os) || name == "Mac" {
        Device::Desktop
    } else if has_name {
        Device::Mobile
    } else {
        Device::Unknown
    }
}

fn is_other(os: &str, name: &str, brand: &str, user_agent: &str) -> bool {
    OTHER_SYSTEMS.contains(&os)
        || brand == "Generic_Inettv"
        || matches!(name, "Inettv" | "HbbTV")
        || OTHER_WORDS.iter().any(|word| user_agent.contains(word))
}

fn is_tablet(os: &str, name: &str, brand: &str, user_agent: &str) -> bool {
    const NAMES: [&str; 8] = [
        "iPad",
        "Kindle",
        "BlackBerry Playbook",
        "HP TouchPad",
        "Generic Tablet",
        "Nook",
        "Kobo",
        "Tablet",
    ];
    // Android browsers send `Mobile` on phones only.
    let is_android_browser = os == "Android" && user_agent.starts_with("Mozilla/");
    let is_pc = user_agent.contains("Tablet PC");
    os == "BlackBerry Tablet OS"
        || os == "WeTab"
        || os == "Kindle"
        || brand == "Generic_Android_Tablet"
        || NAMES.iter().any(|start| name.starts_with(start))
        || (user_agent.contains("Tablet") && !is_pc)
        || (is_android_browser && !user_agent.contains("Mobile"))
}
