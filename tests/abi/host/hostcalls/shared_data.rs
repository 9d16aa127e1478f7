//! The shared data hostcalls.
//!
//! There is no way to remove a key, and no bound: a value remains for as long as a VM of that id lives.

use crate::abi::host::call::{Call, HostcallResult, Status, link_hostcalls};
use crate::abi::host::state::VmState;
use std::collections::BTreeMap;
use wasmtime::Linker;

/// Values by key, each with its CAS number.
#[derive(Debug)]
pub(crate) struct SharedData {
    values: BTreeMap<Vec<u8>, (Vec<u8>, u32)>,
    next_cas: u32,
    /// Values that another thread sets right before a module next sets them.
    pub(crate) races: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Default for SharedData {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            next_cas: 1,
            races: BTreeMap::new(),
        }
    }
}

impl SharedData {
    /// A value and its CAS number.
    pub(crate) fn get(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        self.values.get(key).cloned()
    }

    /// Sets a value. A CAS number other than 0 must match that of the present value, if there is one.
    pub(crate) fn set(&mut self, key: &[u8], value: Vec<u8>, cas: u32) -> Result<(), Status> {
        let present = self.values.get(key).map(|(_, cas)| *cas);
        if cas != 0 && present.is_some_and(|present| present != cas) {
            return Err(Status::CasMismatch);
        }
        self.values.insert(key.to_owned(), (value, self.next_cas));
        self.next_cas = self.next_cas.checked_add(1).unwrap_or(1);
        Ok(())
    }

    /// The keys.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.values.keys().cloned().collect()
    }

    /// Number of keys, and bytes of keys and values.
    pub(crate) fn size(&self) -> (usize, usize) {
        let bytes = self.values.iter();
        let bytes = bytes.map(|(key, (value, _))| key.len() + value.len());
        (self.values.len(), bytes.sum())
    }
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_get_shared_data" => get_shared_data(key, key_size, value_at, size_at, cas_at);
        "proxy_set_shared_data" => set_shared_data(key, key_size, value, value_size, cas);
    }
    Ok(())
}

fn get_shared_data(
    call: &mut Call<'_>,
    key: u32,
    key_size: u32,
    value_at: u32,
    size_at: u32,
    cas_at: u32,
) -> HostcallResult {
    let key = call.read(key, key_size)?;
    let state = call.state();
    let found = state.shared.data.borrow().get(&key);
    let (value, cas) = found.ok_or(Status::NotFound)?;
    call.give(&value, value_at, size_at)?;
    Ok(call.write_word(cas_at, cas)?)
}

fn set_shared_data(
    call: &mut Call<'_>,
    key: u32,
    key_size: u32,
    value: u32,
    value_size: u32,
    cas: u32,
) -> HostcallResult {
    let key = call.read(key, key_size)?;
    let value = call.read(value, value_size)?;
    let state = call.state();
    let mut data = state.shared.data.borrow_mut();
    if let Some(other) = data.races.remove(&key) {
        data.set(&key, other, 0)?;
    }
    Ok(data.set(&key, value, cas)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cas_number_when_another_key_is_set_advances() {
        let mut data = SharedData::default();
        data.set(b"a", b"1".to_vec(), 0).unwrap();
        data.set(b"b", b"2".to_vec(), 0).unwrap();
        assert_eq!(data.get(b"b"), Some((b"2".to_vec(), 2)));
        assert_eq!(data.set(b"a", Vec::new(), 2), Err(Status::CasMismatch));
        data.set(b"a", b"3".to_vec(), 1).unwrap();
        assert_eq!(data.get(b"a"), Some((b"3".to_vec(), 3)));
    }

    #[test]
    fn cas_number_when_it_wraps_skips_zero() {
        let mut data = SharedData {
            next_cas: u32::MAX,
            ..SharedData::default()
        };
        data.set(b"a", Vec::new(), 0).unwrap();
        data.set(b"b", Vec::new(), 0).unwrap();
        assert_eq!(data.get(b"b"), Some((Vec::new(), 1)));
    }
}
