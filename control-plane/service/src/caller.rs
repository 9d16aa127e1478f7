//! Callers: the rights of a key or a session, and the links that exist for it.

use crate::problem::{Kind, Problem};
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::{FIRST_TENANT, Reach, Rights, Role, Scope};
use edgelink_settings::admission::Claim;
use edgelink_store::{Actor, ChangeError, KeyHolder};
use edgelink_wire::Domain;
use std::sync::Arc;

/// The party that sent a request: a key or a session, with its rights and scope.
#[derive(Clone, Debug)]
pub struct Caller {
    holder: Arc<KeyHolder>,
    rights: Rights,
    scope: Arc<Scope>,
    login: Login,
}

/// The way in which a caller is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// By the API key of its request.
    Key,
    /// By a session of the console: the hash of its token.
    Session([u8; 32]),
}

impl Caller {
    /// The caller of the session of the console whose token has this hash.
    pub fn of_session(holder: Arc<KeyHolder>, token_hash: [u8; 32]) -> Self {
        Self {
            login: Login::Session(token_hash),
            ..Self::new(holder)
        }
    }

    /// Creates the caller of an API key, with the rights that both the key and its user have.
    pub fn new(holder: Arc<KeyHolder>) -> Self {
        let mut rights = holder.key.role.rights().and(holder.user_role.rights());
        // A bound key could make itself an unbound one.
        rights.administer &= holder.key.bounds.is_empty();
        let bounds = holder.key.bounds.clone();
        let scope = Scope {
            tenant_id: holder.key.tenant_id,
            // A caller without read access sees the links that it has created, in answers.
            owner_id: (rights.read != Reach::Tenant).then_some(holder.key.user_id),
            domains: bounds.domains,
            tags: bounds.tags,
        };
        Self {
            holder,
            rights,
            scope: Arc::new(scope),
            login: Login::Key,
        }
    }

    /// True if both have equal rights on equal links.
    pub fn may_the_same(&self, other: &Self) -> bool {
        self.rights == other.rights && self.scope == other.scope
    }

    /// The way in which the caller is authenticated.
    pub fn login(&self) -> Login {
        self.login
    }

    /// The public part of the key.
    pub fn id(&self) -> &str {
        &self.holder.key.id
    }

    /// The role of the key, which limits the role of its user.
    pub fn key_role(&self) -> Role {
        self.holder.key.role
    }

    /// The tenant of the key.
    pub fn tenant_id(&self) -> u32 {
        self.holder.key.tenant_id
    }

    /// The user of the key, who owns what it creates.
    pub(crate) fn user_id(&self) -> u64 {
        self.holder.key.user_id
    }

    /// True if the caller may set the history of imported links: time of creation and number of visits.
    pub(crate) fn may_set_history(&self) -> bool {
        self.has(Right::Administer)
    }

    /// True if the caller administers the installation.
    pub fn is_operator(&self) -> bool {
        self.has(Right::Operate)
    }

    /// True if the key has a quota of links.
    pub(crate) fn has_quota(&self) -> bool {
        self.holder.key.quota.is_some()
    }

    /// A claim of a permit for the caller.
    pub fn claim(&self) -> Claim {
        Claim::default().by(self.tenant_id(), self.id())
    }

    /// The caller, for the audit log.
    pub fn actor(&self) -> Actor {
        Actor {
            tenant_id: self.tenant_id(),
            key_id: self.id().to_owned(),
            user_id: Some(self.user_id()),
        }
    }

    /// The links that exist for the caller.
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Refuses a link that does not exist for the caller. Every change of a link checks this first.
    pub(crate) fn check(&self, link: &Link) -> Result<(), ChangeError> {
        if link.is_in(&self.scope) {
            Ok(())
        } else {
            Err(ChangeError::Hidden)
        }
    }

    /// The domain of new links that name none: `default`, or the first domain of a key that is bound to others.
    pub fn default_domain<'d>(&'d self, default: &'d Domain) -> &'d Domain {
        match self.check_domain(default) {
            Ok(()) => default,
            Err(_) => self.scope.domains.first().unwrap_or(default),
        }
    }

    /// Refuses a domain on which the key may not have links.
    pub(crate) fn check_domain(&self, domain: &Domain) -> Result<(), &'static str> {
        let domains = &self.scope.domains;
        if domains.is_empty() || domains.contains(domain) {
            Ok(())
        } else {
            Err("is not a domain of this key")
        }
    }

    /// The tags of a link that the caller creates or changes, with the tags to which the key is bound.
    pub(crate) fn tags(&self, mut tags: Vec<String>) -> Vec<String> {
        if !self.scope.tags.is_empty() {
            tags.extend_from_slice(&self.scope.tags);
            tags.sort_unstable();
            tags.dedup();
        }
        tags
    }

    /// Refuses a caller without a right.
    pub fn require(&self, right: Right) -> Result<(), Problem> {
        if self.has(right) {
            Ok(())
        } else {
            Err(Problem::new(Kind::Forbidden).with_detail(right.missing()))
        }
    }

    /// True if the caller has a right.
    pub fn has(&self, right: Right) -> bool {
        let Rights {
            read,
            create,
            change,
            administer,
        } = self.rights;
        match right {
            Right::ReadLinks => read != Reach::None,
            Right::ReadTenant => {
                *self.scope == Scope::tenant(self.tenant_id()) && read != Reach::None
            }
            Right::CreateLinks => create,
            Right::ChangeLinks => change && read != Reach::None,
            Right::Administer => administer,
            Right::Operate => administer && self.tenant_id() == FIRST_TENANT,
        }
    }
}

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To read links: all but creators, each the links of its scope.
    ReadLinks,
    /// To read data about all links of the tenant: admins and readers whose key is bound to nothing.
    ReadTenant,
    /// To create links: all but readers.
    CreateLinks,
    /// To change and delete links: admins and editors, each the links of its scope.
    ChangeLinks,
    /// To administer the tenant: its admins.
    Administer,
    /// To administer the installation: admins of the first tenant.
    Operate,
}

impl Right {
    /// The text for a caller without it.
    fn missing(self) -> &'static str {
        match self {
            Self::ReadLinks => "the key may not read links",
            Self::ReadTenant => "only a key that may read all links of the tenant may do this",
            Self::CreateLinks => "the key may not create links",
            Self::ChangeLinks => "the key may not change links",
            Self::Administer => "only an admin key that is bound to nothing may do this",
            Self::Operate => "only an admin key of the first tenant may do this",
        }
    }
}
