//! Tokens of visitors, and the visitors that were seen last: to hash one takes longer than all else of an event.

use edgelink_wire::clicks::{VisitorKey, visitor_token};
use edgelink_wire::same::is_same;
use std::net::IpAddr;

/// Visitors that are remembered.
const VISITORS: usize = 64;

/// The longest user agent of a visitor that is remembered, in bytes.
const MAX_USER_AGENT: usize = 256;

/// Visitors with their tokens.
#[derive(Default)]
pub(crate) struct KnownVisitors {
    /// By [`place_of`] their addresses; empty if there were none.
    seen: Vec<KnownVisitor>,
    /// The beginning of their day, and the version of the secrets.
    of: (u64, u32),
}

#[derive(Clone, Default)]
struct KnownVisitor {
    address: Option<IpAddr>,
    user_agent: Vec<u8>,
    token: u64,
}

impl KnownVisitors {
    /// Forgets visitors unless they are of the day of `key`, the secret of today.
    pub(crate) fn forget(&mut self, key: Option<&VisitorKey>) {
        if key.is_none_or(|key| key.from != self.of.0) {
            self.seen = Vec::new();
        }
    }

    /// The token of a visitor by that secret, which comes with the version of the secrets.
    pub(crate) fn token(
        &mut self,
        (key, version): (&VisitorKey, u32),
        address: IpAddr,
        user_agent: &[u8],
    ) -> u64 {
        let of = (key.from, version);
        if self.seen.is_empty() || self.of != of {
            (self.seen, self.of) = (vec![KnownVisitor::default(); VISITORS], of);
        }
        let seen = self.seen.get_mut(place_of(address));
        let Some(seen) = seen.filter(|_| user_agent.len() <= MAX_USER_AGENT) else {
            return token(key, address, user_agent);
        };
        if seen.address != Some(address) || !is_same(&seen.user_agent, user_agent) {
            seen.address = Some(address);
            seen.user_agent.clear();
            seen.user_agent.extend_from_slice(user_agent);
            seen.token = token(key, address, user_agent);
        }
        seen.token
    }
}

#[inline(never)]
fn token(key: &VisitorKey, address: IpAddr, user_agent: &[u8]) -> u64 {
    visitor_token(&key.secret, address, user_agent)
}

/// A place among [`VISITORS`] for an address.
fn place_of(address: IpAddr) -> usize {
    let bits = match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u32,
    };
    (bits.wrapping_mul(0x9e37_79b1) >> (u32::BITS - VISITORS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(from: u64, byte: u8) -> VisitorKey {
        VisitorKey {
            from,
            until: from + 100,
            secret: Box::new([byte; 16].into()),
        }
    }

    #[test]
    fn token_when_visitor_was_seen_before_is_that_of_its_hash() {
        let mut visitors = KnownVisitors::default();
        let address = |n: u32| IpAddr::from((0xc000_0200 + n).to_be_bytes());
        let long = [b'a'; MAX_USER_AGENT + 1];
        for (from, byte) in [(0, 7), (100, 8), (0, 7)] {
            let key = key(from, byte);
            for n in (0..300).chain(0..300).chain([1, 1]) {
                for agent in [&b"curl"[..], b"Curl", b"", &long[1..], &long] {
                    let token = visitors.token((&key, 1), address(n), agent);
                    assert_eq!(token, visitor_token(&[byte; 16], address(n), agent));
                }
            }
            assert_eq!(visitors.seen.len(), VISITORS);
        }
    }

    #[test]
    fn visitors_when_their_day_is_over_are_forgotten() {
        let mut visitors = KnownVisitors::default();
        let (today, tomorrow) = (key(0, 7), key(100, 8));
        let address = IpAddr::from([192, 0, 2, 1]);
        let first = visitors.token((&today, 1), address, b"curl");
        visitors.forget(Some(&today));
        assert_eq!(visitors.seen.len(), VISITORS);
        visitors.forget(Some(&tomorrow));
        assert!(visitors.seen.is_empty());
        assert_ne!(visitors.token((&tomorrow, 1), address, b"curl"), first);
        let changed = key(100, 9);
        let token = visitors.token((&changed, 2), address, b"curl");
        assert_eq!(token, visitor_token(&[9; 16], address, b"curl"));
        visitors.forget(None);
        assert!(visitors.seen.is_empty());
    }
}
