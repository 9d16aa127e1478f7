//! Authorization: tenants, the roles of their users, and the bounds of keys.
//!
//! A tenant has users, a user has API keys, and a link has a tenant and an owner, who is a user. A key can do no more than
//! its user. The rights that each request needs are in `http/auth/permission.rs`.

mod account_name;

pub use account_name::{AccountName, AccountNameError};

use edgelink_wire::Domain;
use edgelink_wire::settings::{Problems, Range, SettingValue, Value, ValueKind};

/// The key of the tenant that every installation has. Its admins are the admins of the installation.
pub const FIRST_TENANT: u32 = 1;

/// The key of the user that every installation has, an admin of the first tenant.
pub const FIRST_USER: u64 = 1;

/// Most that a user or a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything in the tenant.
    Admin,
    /// Creates links, and reads and changes its own.
    Editor,
    /// Reads the links of the tenant.
    Reader,
    /// Creates links, and sees them in the responses only.
    Creator,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Editor, Self::Reader, Self::Creator];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Editor => "editor",
            Self::Reader => "reader",
            Self::Creator => "creator",
        }
    }

    /// The role named by a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    /// The rights of the role.
    #[must_use]
    pub fn rights(self) -> Rights {
        let (read, create, change, administer) = match self {
            Self::Admin => (Reach::Tenant, true, true, true),
            Self::Editor => (Reach::Own, true, true, false),
            Self::Reader => (Reach::Tenant, false, false, false),
            Self::Creator => (Reach::None, true, false, false),
        };
        Rights {
            read,
            create,
            change,
            administer,
        }
    }
}

impl SettingValue for Role {
    const KIND: ValueKind = ValueKind::Text;

    fn range() -> Range {
        Range::Words(&["admin", "editor", "reader", "creator"])
    }

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let role = Self::of_word(&text);
        if role.is_none() {
            let words = Self::ALL.map(Self::word).join(", ");
            let reason = format!("has the role '{text}', must be one of {words}");
            problems.refuse(path, reason);
        }
        role
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(self.word().into())
    }
}

/// Range of readable links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// None.
    None,
    /// The user's links.
    Own,
    /// The tenant's links.
    Tenant,
}

/// Permitted actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Range of readable links.
    pub read: Reach,
    /// Allows creating links.
    pub create: bool,
    /// Allows changing and deleting readable links.
    pub change: bool,
    /// Allows managing keys and users of the tenant, and reading the audit log.
    pub administer: bool,
}

impl Rights {
    /// The rights that both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            read: self.read.min(other.read),
            create: self.create && other.create,
            change: self.change && other.change,
            administer: self.administer && other.administer,
        }
    }
}

/// Restrictions of a key. An empty list restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Links on these domains only.
    pub domains: Vec<Domain>,
    /// Links with one of these tags only; links that it creates or changes get all of them.
    pub tags: Vec<String>,
}

impl Bounds {
    /// True if the key is not restricted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.tags.is_empty()
    }
}

/// The links visible to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Links of this tenant.
    pub tenant_id: u32,
    /// Links of this user only; `None` for all.
    pub owner_id: Option<u64>,
    /// Links on these domains only; empty for all.
    pub domains: Vec<Domain>,
    /// Links with one of these tags only; empty for all.
    pub tags: Vec<String>,
}

impl Scope {
    /// All links of a tenant.
    #[must_use]
    pub fn tenant(tenant_id: u32) -> Self {
        Self {
            tenant_id,
            owner_id: None,
            domains: Vec::new(),
            tags: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_when_written_and_read_is_equal() {
        for role in Role::ALL {
            assert_eq!(Role::of_word(role.word()), Some(role));
        }
        assert_eq!(Role::of_word("Admin"), None);
    }

    #[test]
    fn rights_when_key_and_user_differ_are_the_common_ones() {
        let both = |one: Role, other: Role| one.rights().and(other.rights());
        for role in Role::ALL {
            assert_eq!(both(role, Role::Admin), role.rights());
            assert_eq!(both(Role::Admin, role), role.rights());
        }
        let read_own = both(Role::Editor, Role::Reader);
        assert_eq!(read_own, both(Role::Reader, Role::Editor));
        assert_eq!(read_own.read, Reach::Own);
        assert!(!read_own.create && !read_own.change);
        let nothing = both(Role::Reader, Role::Creator);
        assert_eq!(nothing.read, Reach::None);
        assert!(!nothing.create && !nothing.change && !nothing.administer);
    }
}
