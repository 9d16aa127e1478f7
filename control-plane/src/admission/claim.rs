//! What is bounded, by how much, and who claims it.

use std::fmt;
use std::net::IpAddr;

/// How much there is of something, and how much of it one party may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The setting that bounds it, or its name, which refusals repeat.
    pub(crate) name: &'static str,
    /// Permits at once.
    pub(crate) permits: usize,
    /// Bytes of all permits together, and the setting that bounds them.
    pub(crate) bytes: usize,
    pub(crate) bytes_name: &'static str,
    /// Claims that may wait at once.
    pub(crate) waiting: usize,
    /// Permits of one address at once.
    pub(crate) of_address: usize,
    /// Permits of one key at once.
    pub(crate) of_key: usize,
    /// Permits of one tenant at once.
    pub(crate) of_tenant: usize,
}

impl Bounds {
    /// So many permits, for which no claim waits, and of which a party may have all.
    pub(crate) const fn new(name: &'static str, permits: usize) -> Self {
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

    /// The same permits, of which a tenant leaves one to others, and a key half of them. A single one is for all.
    pub(crate) const fn shared(self) -> Self {
        let of_tenant = self.permits.saturating_sub(1);
        Self {
            of_tenant: if of_tenant == 0 { 1 } else { of_tenant },
            of_key: self.permits.div_ceil(2),
            ..self
        }
    }
}

/// One of those who share permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    /// An address, or its network.
    Address(IpAddr),
    /// An API key, or a session.
    Key(Box<str>),
    /// A tenant.
    Tenant(u32),
}

/// The parties for which a permit is wanted, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim {
    parties: [Option<Party>; 3],
}

impl Claim {
    /// A claim of a client with this address.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self {
            parties: [Some(Party::Address(address)), None, None],
        }
    }

    /// The same claim by a key of a tenant.
    pub(crate) fn by(self, tenant_id: u32, key_id: &str) -> Self {
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

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All are taken.
    Full(&'static str),
    /// The address, key or tenant has its share.
    Share(&'static str),
    /// There is none by the deadline, as far as that can be known.
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
