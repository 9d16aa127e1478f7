//! How many connections each client address has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of an IPv6 address that names a network: a client has all addresses in one.
const NETWORK: u128 = !0 << 64;

/// The open connections by client address, as many entries as there are connections at most.
#[derive(Debug)]
pub(super) struct Addresses {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            open: Mutex::default(),
        })
    }

    /// Counts a connection of `address`; `None` if it has as many as it may have.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let address = network(address);
        let mut open = self.open();
        let count = open.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Counted {
            addresses: self.clone(),
            address,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.addresses.open();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// What is counted as one client.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(addresses: &Arc<Addresses>, address: &str) -> Option<Counted> {
        addresses.admit(address.parse().unwrap())
    }

    #[test]
    fn an_address_has_its_share_and_room_comes_back() {
        let addresses = Addresses::new(2);
        let first = admit(&addresses, "192.0.2.1").unwrap();
        let _second = admit(&addresses, "::ffff:192.0.2.1").unwrap();
        assert!(admit(&addresses, "192.0.2.1").is_none());
        assert!(admit(&addresses, "192.0.2.2").is_some());
        drop(first);
        assert!(admit(&addresses, "192.0.2.1").is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let addresses = Addresses::new(1);
        let first = admit(&addresses, "2001:db8::1");
        assert!(admit(&addresses, "2001:db8::ffff:1").is_none());
        assert!(admit(&addresses, "2001:db8:0:1::1").is_some());
        drop(first);
        assert!(addresses.open().is_empty());
    }
}
