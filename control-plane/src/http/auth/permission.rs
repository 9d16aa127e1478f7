//! Who may do what: the one place that decides.
//!
//! Each route of the admin API has a rule here, with the right that it needs; a route without one answers no request. What
//! a right is about (which links, which domains) follows from the [`Scope`] of the caller: handlers ask it, and what is out
//! of it does not exist for the caller.

#[cfg(test)]
mod matrix;

use crate::admission::Claim;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::store::{Actor, ChangeError, KeyHolder};
use crate::tenancy::{FIRST_TENANT, Reach, Rights, Role, Scope};
use axum::response::{IntoResponse, Response};
use edgelink_wire::Domain;
use http::{HeaderValue, Method, header};
use std::sync::Arc;

/// Whose request it is; [`require_api_key`](super::require_api_key) puts it into the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    holder: Arc<KeyHolder>,
    rights: Rights,
    scope: Arc<Scope>,
    login: Login,
}

/// By what a caller is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// By the API key that its request has.
    Key,
    /// By a session of the console: the hash of its token.
    Session([u8; 32]),
}

impl Caller {
    /// The caller of the session of the console whose token has this hash.
    pub(super) fn of_session(holder: Arc<KeyHolder>, token_hash: [u8; 32]) -> Self {
        Self {
            login: Login::Session(token_hash),
            ..Self::new(holder)
        }
    }

    pub(super) fn new(holder: Arc<KeyHolder>) -> Self {
        let mut rights = holder.key.role.rights().and(holder.user_role.rights());
        // A bound key could make itself an unbound one.
        rights.administer &= holder.key.bounds.is_empty();
        let bounds = holder.key.bounds.clone();
        let scope = Scope {
            tenant_id: holder.key.tenant_id,
            // One that reads none sees what it has created, in answers.
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

    /// Whether both may do the same with the same links.
    pub(crate) fn may_the_same(&self, other: &Self) -> bool {
        self.rights == other.rights && self.scope == other.scope
    }

    /// By what the caller is known.
    pub(super) fn login(&self) -> Login {
        self.login
    }

    /// The public part of the key.
    pub(crate) fn id(&self) -> &str {
        &self.holder.key.id
    }

    /// The role of the key, which limits that of its user.
    pub(crate) fn key_role(&self) -> Role {
        self.holder.key.role
    }

    /// The tenant of the key.
    pub(crate) fn tenant_id(&self) -> u32 {
        self.holder.key.tenant_id
    }

    /// The user of the key, who owns what it creates.
    pub(crate) fn user_id(&self) -> u64 {
        self.holder.key.user_id
    }

    /// Whether the caller may say what links had before they were imported: when they were created, how often visited.
    pub(crate) fn may_set_history(&self) -> bool {
        self.has(Right::Administer)
    }

    /// Whether the caller administers the installation.
    pub(crate) fn is_operator(&self) -> bool {
        self.has(Right::Operate)
    }

    /// Whether the key has a quota of links.
    pub(crate) fn has_quota(&self) -> bool {
        self.holder.key.quota.is_some()
    }

    /// A claim of a permit for the caller.
    pub(crate) fn claim(&self) -> Claim {
        Claim::default().by(self.tenant_id(), self.id())
    }

    /// The caller, for the audit log.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            tenant_id: self.tenant_id(),
            key_id: self.id().to_owned(),
            user_id: Some(self.user_id()),
        }
    }

    /// The links that exist for the caller.
    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Refuses a link that does not exist for the caller. Every change of a link asks this first.
    pub(crate) fn check(&self, link: &Link) -> Result<(), ChangeError> {
        match link.is_in(&self.scope) {
            true => Ok(()),
            false => Err(ChangeError::Hidden),
        }
    }

    /// The domain of new links for which none is asked for: `default`, or the first one of a key that is bound to others.
    pub(crate) fn default_domain<'d>(&'d self, default: &'d Domain) -> &'d Domain {
        match self.check_domain(default) {
            Ok(()) => default,
            Err(_) => self.scope.domains.first().unwrap_or(default),
        }
    }

    /// Refuses a domain on which the key may not have links.
    pub(crate) fn check_domain(&self, domain: &Domain) -> Result<(), &'static str> {
        let domains = &self.scope.domains;
        match domains.is_empty() || domains.contains(domain) {
            true => Ok(()),
            false => Err("is not a domain of this key"),
        }
    }

    /// The tags of a link that the caller creates or changes: with those to which the key is bound.
    pub(crate) fn tags(&self, mut tags: Vec<String>) -> Vec<String> {
        if !self.scope.tags.is_empty() {
            tags.extend_from_slice(&self.scope.tags);
            tags.sort_unstable();
            tags.dedup();
        }
        tags
    }

    /// Whether the caller may send such a request. `path` is the route as the router has it.
    pub(crate) fn may(&self, method: &Method, path: &str) -> bool {
        let mut rules = RULES.iter();
        let rule = rules.find(|rule| rule.path == path && rule.method == *method);
        rule.is_some_and(|rule| self.has(rule.right))
    }

    fn has(&self, right: Right) -> bool {
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
pub(crate) enum Right {
    /// To read links: all but creators, each the links of its scope.
    ReadLinks,
    /// To read what all links of the tenant have: admins and readers whose key is bound to nothing.
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

/// What a request to a route needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) method: Method,
    /// The path as the router has it: below `/api/v1`, or with `/rest/v3` in front.
    pub(crate) path: &'static str,
    pub(crate) right: Right,
}

const fn rule(method: Method, path: &'static str, right: Right) -> Rule {
    Rule {
        method,
        path,
        right,
    }
}

/// The rules of all routes.
pub(crate) const RULES: &[Rule] = &[
    rule(Method::POST, "/links", Right::CreateLinks),
    rule(Method::GET, "/links", Right::ReadLinks),
    rule(Method::PUT, "/links", Right::ChangeLinks),
    rule(Method::POST, "/links/bulk", Right::CreateLinks),
    rule(Method::PATCH, "/links/bulk", Right::ChangeLinks),
    rule(Method::DELETE, "/links/bulk", Right::ChangeLinks),
    rule(Method::POST, "/import", Right::CreateLinks),
    rule(Method::GET, "/links/{code}", Right::ReadLinks),
    rule(Method::PATCH, "/links/{code}", Right::ChangeLinks),
    rule(Method::DELETE, "/links/{code}", Right::ChangeLinks),
    rule(Method::GET, "/links/{code}/history", Right::ReadLinks),
    rule(Method::POST, "/links/{code}/restore", Right::ChangeLinks),
    rule(Method::POST, "/links/{code}/move", Right::ChangeLinks),
    rule(Method::GET, "/links/{code}/rules", Right::ReadLinks),
    rule(Method::POST, "/links/{code}/rules", Right::ChangeLinks),
    rule(Method::POST, "/links/{code}/resolve", Right::ReadLinks),
    rule(Method::GET, "/links/{code}/clicks", Right::ReadLinks),
    rule(Method::DELETE, "/links/{code}/clicks", Right::ChangeLinks),
    rule(Method::GET, "/tags", Right::ReadTenant),
    rule(Method::PATCH, "/tags/{tag}", Right::Administer),
    rule(Method::DELETE, "/tags/{tag}", Right::Administer),
    rule(Method::POST, "/keys", Right::Administer),
    rule(Method::GET, "/keys", Right::Administer),
    rule(Method::GET, "/keys/{id}", Right::Administer),
    rule(Method::PATCH, "/keys/{id}", Right::Administer),
    rule(Method::DELETE, "/keys/{id}", Right::Administer),
    rule(Method::POST, "/keys/{id}/rotate", Right::Administer),
    rule(Method::POST, "/users", Right::Administer),
    rule(Method::GET, "/users", Right::Administer),
    rule(Method::GET, "/users/{id}", Right::Administer),
    rule(Method::PATCH, "/users/{id}", Right::Administer),
    rule(Method::POST, "/domains", Right::Administer),
    rule(Method::GET, "/domains", Right::ReadLinks),
    rule(Method::GET, "/domains/{name}", Right::ReadLinks),
    rule(Method::PATCH, "/domains/{name}", Right::Administer),
    rule(Method::DELETE, "/domains/{name}", Right::Administer),
    rule(Method::POST, "/domains/{name}/verify", Right::Administer),
    rule(Method::GET, "/audit", Right::Administer),
    rule(Method::POST, "/webhooks", Right::Administer),
    rule(Method::GET, "/webhooks", Right::Administer),
    rule(Method::GET, "/webhooks/{id}", Right::Administer),
    rule(Method::PATCH, "/webhooks/{id}", Right::Administer),
    rule(Method::DELETE, "/webhooks/{id}", Right::Administer),
    rule(Method::POST, "/webhooks/{id}/rotate", Right::Administer),
    rule(Method::POST, "/webhooks/{id}/ping", Right::Administer),
    rule(Method::GET, "/webhooks/{id}/deliveries", Right::Administer),
    rule(Method::GET, "/reports", Right::Administer),
    rule(Method::PATCH, "/reports/{id}", Right::Administer),
    rule(Method::POST, "/tenants", Right::Operate),
    rule(Method::GET, "/tenants", Right::Operate),
    rule(Method::GET, "/analytics", Right::ReadLinks),
    rule(Method::GET, "/analytics/orphans", Right::ReadTenant),
    rule(Method::DELETE, "/analytics/orphans", Right::Administer),
    rule(Method::GET, "/analytics/orphans/visits", Right::ReadTenant),
    rule(Method::POST, "/track", Right::ChangeLinks),
    rule(Method::GET, "/events", Right::ReadLinks),
    rule(Method::GET, "/clicks/accounting", Right::Operate),
    rule(Method::GET, "/rest/v3/short-urls", Right::ReadLinks),
    rule(Method::POST, "/rest/v3/short-urls", Right::CreateLinks),
    rule(Method::GET, "/rest/v3/short-urls/{code}", Right::ReadLinks),
    rule(
        Method::PATCH,
        "/rest/v3/short-urls/{code}",
        Right::ChangeLinks,
    ),
    rule(
        Method::DELETE,
        "/rest/v3/short-urls/{code}",
        Right::ChangeLinks,
    ),
    rule(
        Method::GET,
        "/rest/v3/short-urls/{code}/redirect-rules",
        Right::ReadLinks,
    ),
    rule(
        Method::POST,
        "/rest/v3/short-urls/{code}/redirect-rules",
        Right::ChangeLinks,
    ),
    rule(
        Method::GET,
        "/rest/v3/short-urls/{code}/visits",
        Right::ReadLinks,
    ),
    rule(
        Method::DELETE,
        "/rest/v3/short-urls/{code}/visits",
        Right::ChangeLinks,
    ),
    rule(Method::GET, "/rest/v3/tags", Right::ReadTenant),
    rule(Method::PUT, "/rest/v3/tags", Right::Administer),
    rule(Method::DELETE, "/rest/v3/tags", Right::Administer),
    rule(Method::GET, "/rest/v3/tags/stats", Right::ReadTenant),
    rule(Method::GET, "/rest/v3/tags/{tag}/visits", Right::ReadTenant),
    rule(Method::GET, "/rest/v3/domains", Right::ReadLinks),
    rule(
        Method::PATCH,
        "/rest/v3/domains/redirects",
        Right::Administer,
    ),
    rule(
        Method::GET,
        "/rest/v3/domains/{domain}/visits",
        Right::ReadLinks,
    ),
    rule(Method::GET, "/rest/v3/visits", Right::ReadLinks),
    rule(Method::GET, "/rest/v3/visits/non-orphan", Right::ReadLinks),
    rule(Method::GET, "/rest/v3/visits/orphan", Right::ReadLinks),
    rule(Method::DELETE, "/rest/v3/visits/orphan", Right::Administer),
    rule(Method::GET, "/rest/v3/mercure-info", Right::ReadLinks),
];

/// The refusal of a request of `caller` to a route; `None` if it may pass. `path` is the route as the router has it, below
/// `/api/v1` or with `/rest/v3` in front.
pub(super) fn refusal(caller: &Caller, method: &Method, path: &str) -> Option<Response> {
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    let mut of_path = RULES.iter().filter(|rule| rule.path == path).peekable();
    if of_path.peek().is_none() {
        tracing::error!(
            path,
            "the route has no rule (http/auth/permission.rs): the request is refused"
        );
        return Some(Problem::new(Kind::Internal).into_response());
    }
    let allowed: Vec<&Rule> = of_path.collect();
    let Some(rule) = allowed.iter().find(|rule| rule.method == *method) else {
        return Some(method_not_allowed(&allowed));
    };
    if caller.has(rule.right) {
        return None;
    }
    let detail = match rule.right {
        Right::ReadLinks => "the key may not read links",
        Right::ReadTenant => "only a key that may read all links of the tenant may do this",
        Right::CreateLinks => "the key may not create links",
        Right::ChangeLinks => "the key may not change links",
        Right::Administer => "only an admin key that is bound to nothing may do this",
        Right::Operate => "only an admin key of the first tenant may do this",
    };
    let problem = Problem::new(Kind::Forbidden).with_detail(detail);
    Some(problem.into_response())
}

/// Answers a method without a rule, as the router answers one without a handler.
fn method_not_allowed(rules: &[&Rule]) -> Response {
    let names = rules.iter().flat_map(|rule| match rule.method {
        Method::GET => vec!["GET", "HEAD"],
        ref method => vec![method.as_str()],
    });
    let names = names.collect::<Vec<_>>().join(",");
    let mut response = Problem::new(Kind::MethodNotAllowed).into_response();
    if let Ok(allow) = HeaderValue::from_str(&names) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}
