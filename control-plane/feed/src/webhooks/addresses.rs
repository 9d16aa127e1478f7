//! Allowed addresses of webhooks: public ones, and those in configured networks.

use edgelink_settings::config::Network;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are not public (IANA's special-purpose registry, multicast, reserved), and the address at which Azure's virtual machines
/// reach their host. Metadata services of other clouds have link-local, shared or unique local addresses.
const NOT_PUBLIC_V4: [Ipv4Net; 16] = [
    v4([0, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([127, 0, 0, 0], 8),
    v4([168, 63, 129, 16], 32),
    v4([169, 254, 0, 0], 16),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// Global unicast addresses of IPv6; all others are not public.
const UNICAST_V6: Ipv6Net = v6([0x2000, 0], 3);

/// Networks within it that are not public: protocol assignments with Teredo, documentation, 6to4.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [
    v6([0x2001, 0], 23),
    v6([0x2001, 0x0db8], 32),
    v6([0x2002, 0], 16),
    v6([0x3fff, 0], 20),
];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6([a, b]: [u16; 2], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

/// True if an address is public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address)),
        IpAddr::V6(address) => {
            UNICAST_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&address))
        }
    }
}

/// True if an address may be connected to.
pub(super) fn is_allowed(address: IpAddr, networks: &[Network]) -> bool {
    is_public(address) || networks.iter().any(|network| network.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_when_of_a_private_network_is_not_public() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("168.63.129.15", true),
            ("2606:4700:4700::1111", true),
            ("::ffff:1.1.1.1", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.100.100.200", false),
            ("127.0.0.1", false),
            ("127.255.0.1", false),
            ("168.63.129.16", false),
            ("169.254.169.254", false),
            ("172.31.255.255", false),
            ("192.168.0.1", false),
            ("198.19.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("fd00:ec2::254", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
