//! Permissions: the one place that decides which caller may do what.
//!
//! Each route of the admin API has a rule here, with the right that it needs; a route without a rule refuses all requests. The
//! objects of a right (which links, which domains) follow from the [`Scope`] of the caller: use cases check it, and anything
//! outside of it does not exist for the caller.

use axum::response::{IntoResponse, Response};
pub use edgelink_service::caller::{Caller, Right};
use edgelink_service::problem::{Kind, Problem};
use http::{HeaderValue, Method, header};

/// The right that a request to a route needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// Method of the request. A `GET` rule holds for `HEAD` as well.
    pub method: Method,
    /// The path as the router has it: below `/api/v1`, or with `/rest/v3` in front.
    pub path: &'static str,
    /// Right without which the caller is refused.
    pub right: Right,
}

const fn rule(method: Method, path: &'static str, right: Right) -> AccessRule {
    AccessRule {
        method,
        path,
        right,
    }
}

/// The rules of all routes.
pub const RULES: &[AccessRule] = &[
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
    rule(
        Method::GET,
        "/rest/v3/short-urls/shorten",
        Right::CreateLinks,
    ),
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
            "route has no rule in http/auth/permission.rs; refusing the request"
        );
        return Some(Problem::new(Kind::Internal).into_response());
    }
    let allowed: Vec<&AccessRule> = of_path.collect();
    let Some(rule) = allowed.iter().find(|rule| rule.method == *method) else {
        return Some(method_not_allowed(&allowed));
    };
    caller
        .require(rule.right)
        .err()
        .map(IntoResponse::into_response)
}

/// Answers a method without a rule, as the router answers one without a handler.
fn method_not_allowed(rules: &[&AccessRule]) -> Response {
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
