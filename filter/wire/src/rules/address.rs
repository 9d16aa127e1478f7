//! Patterns of addresses: one address, a CIDR block, or an IPv4 address with wildcards.

use crate::error::RecordError;
use crate::varint;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A pattern in the form used for comparison. An IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2) counts as the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPattern {
    /// The address equals the value in all bits of the mask.
    V4 { value: u32, mask: u32 },
    /// The address begins with the first `prefix` bits of the value.
    V6 { value: u128, prefix: u8 },
}

const V4: u8 = 4;
const V6: u8 = 6;

impl AddressPattern {
    /// Reads `192.0.2.7`, `192.0.2.0/24`, `192.0.*.7`, `2001:db8::1` or `2001:db8::/32`; `None` if it is none of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.contains('*') {
            return wildcards(text);
        }
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(length(prefix)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        match (address, prefix) {
            (IpAddr::V4(address), prefix) => block_v4(address, prefix.unwrap_or(32)),
            (IpAddr::V6(address), None) => match address.to_ipv4_mapped() {
                Some(address) => block_v4(address, 32),
                None => block_v6(address, 128),
            },
            (IpAddr::V6(address), Some(prefix)) => match address.to_ipv4_mapped() {
                Some(address) if prefix >= 96 => block_v4(address, prefix - 96),
                _ => block_v6(address, prefix),
            },
        }
    }

    /// True if the address matches the pattern.
    pub(super) fn includes(self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Self::V4 { value, mask }, IpAddr::V4(address)) => {
                (address.to_bits() ^ value) & mask == 0
            }
            (Self::V6 { value, prefix }, IpAddr::V6(address)) => {
                (address.to_bits() ^ value) & mask_v6(prefix) == 0
            }
            _ => false,
        }
    }

    /// Appends the encoding: 4, value and mask, or 6, value and length of the prefix; big-endian.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::V4 { value, mask } => {
                out.push(V4);
                out.extend(value.to_be_bytes());
                out.extend(mask.to_be_bytes());
            }
            Self::V6 { value, prefix } => {
                out.push(V6);
                out.extend(value.to_be_bytes());
                out.push(prefix);
            }
        }
    }

    /// Takes an encoded pattern off the front of `input`.
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, RecordError> {
        let [family] = varint::read_array(input)?;
        match family {
            V4 => Ok(Self::V4 {
                value: u32::from_be_bytes(varint::read_array(input)?),
                mask: u32::from_be_bytes(varint::read_array(input)?),
            }),
            V6 => {
                let value = u128::from_be_bytes(varint::read_array(input)?);
                match varint::read_array(input)? {
                    [prefix @ 0..=128] => Ok(Self::V6 { value, prefix }),
                    _ => Err(RecordError::Field("address")),
                }
            }
            _ => Err(RecordError::Field("address")),
        }
    }
}

fn wildcards(text: &str) -> Option<AddressPattern> {
    let (mut value, mut mask) = ([0; 4], [0; 4]);
    let mut parts = text.split('.');
    for (value, mask) in value.iter_mut().zip(&mut mask) {
        let part = parts.next()?;
        if part != "*" {
            (*value, *mask) = (length(part)?, u8::MAX);
        }
    }
    let pattern = AddressPattern::V4 {
        value: u32::from_be_bytes(value),
        mask: u32::from_be_bytes(mask),
    };
    parts.next().is_none().then_some(pattern)
}

/// Parses digits without a sign or a leading zero.
fn length(digits: &str) -> Option<u8> {
    let is_plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| is_plain)
}

fn block_v4(address: Ipv4Addr, prefix: u8) -> Option<AddressPattern> {
    let host = 32_u32.checked_sub(u32::from(prefix))?;
    let mask = u32::MAX.checked_shl(host).unwrap_or(0);
    let value = address.to_bits() & mask;
    Some(AddressPattern::V4 { value, mask })
}

fn block_v6(address: Ipv6Addr, prefix: u8) -> Option<AddressPattern> {
    let value = address.to_bits() & mask_v6(prefix);
    (prefix <= 128).then_some(AddressPattern::V6 { value, prefix })
}

fn mask_v6(prefix: u8) -> u128 {
    let host = 128_u32.saturating_sub(u32::from(prefix));
    u128::MAX.checked_shl(host).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_when_within_pattern_is_included() {
        for (pattern, inside, outside) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7/24", "192.0.2.255", "192.0.3.0"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.0/31", "192.0.2.1", "192.0.2.2"),
            ("11.22.*.*", "11.22.0.255", "11.23.0.0"),
            ("11.*.33.*", "11.0.33.1", "11.0.34.1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("2001:db8::/127", "2001:db8::1", "2001:db8::2"),
            ("::ffff:192.0.2.7", "192.0.2.7", "::1"),
            ("::ffff:192.0.2.0/120", "192.0.2.9", "192.0.3.9"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "ffff::1", "1.2.3.4"),
            ("*.*.*.*", "1.2.3.4", "::1"),
        ] {
            let parsed = AddressPattern::parse(pattern).unwrap();
            assert!(
                parsed.includes(inside.parse().unwrap()),
                "{inside} in {pattern}"
            );
            assert!(
                !parsed.includes(outside.parse().unwrap()),
                "{outside} in {pattern}"
            );
            let mut bytes = Vec::new();
            parsed.encode(&mut bytes);
            assert_eq!(AddressPattern::decode(&mut &bytes[..]), Ok(parsed));
        }
    }

    #[test]
    fn address_pattern_when_malformed_is_refused() {
        for text in [
            "",
            "*",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.*.5",
            "1.2.3.256",
            "1.2.3.0256",
            "1.2.3.+4",
            "1.2.3.4/33",
            "1.2.3.4/",
            "1.2.3.4/+8",
            "1.2.3.4/08",
            "1.2.3.4/-1",
            "1.*.3.4/8",
            "2001:db8::/129",
            "2001:db8::*",
            "[::1]",
            "::1%eth0",
            " 1.2.3.4",
            "example.com",
        ] {
            assert_eq!(AddressPattern::parse(text), None, "{text:?}");
        }
    }
}
