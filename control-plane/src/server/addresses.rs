//! Counts the connections of each client address.

use crate::http::client_address::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open connections by client address; it has at most as many entries as there are connections.
#[derive(Debug)]
pub(super) struct AddressCounts {
    max_per_address: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct CountedConnection {
    addresses: Arc<AddressCounts>,
    address: IpAddr,
}

impl AddressCounts {
    pub(super) fn new(max_per_address: usize) -> Arc<Self> {
        Arc::new(Self {
            max_per_address,
            open: Mutex::default(),
        })
    }

    /// Counts a connection of `address`; `None` if it has as many as it may have.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<CountedConnection> {
        let address = network(address);
        let mut open = self.open();
        let count = open.entry(address).or_default();
        if *count >= self.max_per_address {
            return None;
        }
        *count += 1;
        Some(CountedConnection {
            addresses: self.clone(),
            address,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedConnection {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(addresses: &Arc<AddressCounts>, address: &str) -> Option<CountedConnection> {
        addresses.admit(address.parse().unwrap())
    }

    #[test]
    fn an_address_has_its_share_and_room_comes_back() {
        let addresses = AddressCounts::new(2);
        let first = admit(&addresses, "192.0.2.1").unwrap();
        let _second = admit(&addresses, "::ffff:192.0.2.1").unwrap();
        assert!(admit(&addresses, "192.0.2.1").is_none());
        assert!(admit(&addresses, "192.0.2.2").is_some());
        drop(first);
        assert!(admit(&addresses, "192.0.2.1").is_some());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let addresses = AddressCounts::new(1);
        let first = admit(&addresses, "2001:db8::1");
        assert!(admit(&addresses, "2001:db8::ffff:1").is_none());
        assert!(admit(&addresses, "2001:db8:0:1::1").is_some());
        drop(first);
        assert!(addresses.open().is_empty());
    }
}
