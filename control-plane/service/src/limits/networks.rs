//! The networks against which a client counts.

use edgelink_model::token_bucket::{KeyedBucket, Rate};
use std::net::{IpAddr, Ipv6Addr};

/// IPv6 prefixes that are assigned to single customers (RFC 6177, BCP 157), with their multiple of the rate of a /64: a /48
/// is 65,536 networks of a /64, and one customer.
const WIDER: [(u32, u32); 2] = [(56, 4), (48, 16)];

/// The buckets of a client: one for its address, or for its /64, and for IPv6 one for each wider network, which holds more.
pub(super) fn buckets(prefix: &str, address: IpAddr, rate: Rate) -> Vec<KeyedBucket> {
    let narrow = KeyedBucket {
        key: format!("{prefix}:{address}"),
        rate,
    };
    let mut buckets = vec![narrow];
    if let IpAddr::V6(address) = address {
        buckets.extend(WIDER.iter().map(|(length, times)| KeyedBucket {
            key: format!("{prefix}:{}/{length}", network(address, *length)),
            rate: rate.times(*times),
        }));
    }
    buckets
}

fn network(address: Ipv6Addr, length: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (!0 << (128 - length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_when_of_ipv6_has_three_buckets() {
        let rate = Rate::new(10, 1).unwrap();
        let shown = |address: &str| -> Vec<String> {
            let buckets = buckets("p", address.parse().unwrap(), rate);
            let buckets = buckets.into_iter();
            buckets
                .map(|bucket| format!("{} {}", bucket.key, bucket.rate.capacity))
                .collect()
        };
        assert_eq!(shown("192.0.2.1"), ["p:192.0.2.1 10"]);
        assert_eq!(
            shown("2001:db8:0:1fff::"),
            [
                "p:2001:db8:0:1fff:: 10",
                "p:2001:db8:0:1f00::/56 40",
                "p:2001:db8::/48 160"
            ]
        );
    }
}
