//! Bounds, the parties that share them, and claims for permits.

use std::fmt;
use std::net::IpAddr;

/// Bounds of a resource, in total and for each party.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The setting that bounds it, or its name, which refusals repeat.
    pub name: &'static str,
    /// Permits at once.
    pub permits: usize,
    /// Bytes of all permits together.
    pub bytes: usize,
    /// Setting that bounds `bytes`, which refusals repeat.
    pub bytes_name: &'static str,
    /// Claims that may wait at once.
    pub waiting: usize,
    /// Permits of one address at once.
    pub of_address: usize,
    /// Permits of one key at once.
    pub of_key: usize,
    /// Permits of one tenant at once.
    pub of_tenant: usize,
}

impl Bounds {
    /// Bounds of `permits` alone: no claim waits, and one party may hold all of them.
    pub const fn new(name: &'static str, permits: usize) -> Self {
        Self {
            name,
            permits,
            bytes: usize::MAX,
            bytes_name: name,
            waiting: 0,
            of_address: usize::MAX,
            of_key: usize::MAX,
            of_tenant: usize::MAX,
        }
    }

    /// Leaves at least one permit to other tenants and half of them to other keys. A single permit may go to any.
    pub const fn shared(self) -> Self {
        let of_tenant = self.permits.saturating_sub(1);
        Self {
            of_tenant: if of_tenant == 0 { 1 } else { of_tenant },
            of_key: self.permits.div_ceil(2),
            ..self
        }
    }
}

/// One of the parties that share permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// An address, or its network.
    Address(IpAddr),
    /// An API key, or a session.
    Key(Box<str>),
    /// A tenant.
    Tenant(u32),
}

/// The parties that ask for a permit, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    parties: [Option<Party>; 3],
}

impl Claim {
    /// Creates the claim of a client with this address.
    pub fn of_address(address: IpAddr) -> Self {
        Self {
            parties: [Some(Party::Address(address)), None, None],
        }
    }

    /// Adds the tenant and its key to the claim.
    pub fn by(self, tenant_id: u32, key_id: &str) -> Self {
        let [address, ..] = self.parties;
        let (key, tenant) = (Party::Key(key_id.into()), Party::Tenant(tenant_id));
        Self {
            parties: [address, Some(key), Some(tenant)],
        }
    }

    pub(super) fn parties(&self) -> impl Iterator<Item = &Party> {
        self.parties.iter().flatten()
    }
}

/// The reason why a claim gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All are taken.
    Full(&'static str),
    /// The address, key or tenant has its share.
    Share(&'static str),
    /// None is expected to become free by the deadline.
    Late(&'static str),
}

impl Refusal {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Full(_) => "full",
            Self::Share(_) => "share",
            Self::Late(_) => "late",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(name) => write!(f, "{name} is reached"),
            Self::Share(name) => {
                write!(f, "your share of {name} is reached: wait for your requests")
            }
            Self::Late(name) => write!(f, "{name} is reached, and too many wait already"),
        }
    }
}

impl std::error::Error for Refusal {}
