//! Types of settings about the senders of requests: networks of proxies, origins of web pages.

use edgelink_wire::settings::{Problems, SettingValue, Value, ValueKind};
use ipnet::IpNet;
use std::net::IpAddr;
use url::Url;

/// A network, such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// True if an address is in it. IPv4-mapped IPv6 addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl SettingValue for Network {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse::<IpNet>().or_else(|_| address());
        if network.is_err() {
            let must = "must be an address or a network such as 10.0.0.0/8";
            problems.refuse(path, format!("is '{text}', {must}"));
        }
        network.ok().map(Self)
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.0.to_string().into())
    }
}

/// The origin of web pages (RFC 6454), `https://console.example`, or `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// The text as sent by browsers; `*` for any.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SettingValue for Origin {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let as_sent = |url: Url| url.origin().ascii_serialization() == text;
        if text == "*" || Url::parse(&text).is_ok_and(as_sent) {
            return Some(Self(text));
        }
        let must = "must be '*' or an origin as browsers send it, such as https://console.example";
        problems.refuse(path, format!("is '{text}', {must}"));
        None
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: SettingValue>(text: &str) -> Option<T> {
        T::read(text.into(), "x", &mut Problems::default())
    }

    #[test]
    fn address_when_in_a_network_is_contained() {
        for (network, address, is_inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("::1", "::1", true),
        ] {
            let found = read::<Network>(network).unwrap();
            assert_eq!(
                found.contains(address.parse().unwrap()),
                is_inside,
                "{network}"
            );
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "a.example"] {
            assert_eq!(read::<Network>(text), None, "{text}");
        }
    }

    #[test]
    fn origin_when_browsers_do_not_send_it_is_refused() {
        for text in ["*", "https://console.example", "http://127.0.0.1:8081"] {
            assert_eq!(read::<Origin>(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "console.example",
            "https://console.example/",
            "https://Console.example",
            "https://console.example:443",
            "null",
        ] {
            assert_eq!(read::<Origin>(text), None, "{text}");
        }
    }
}
