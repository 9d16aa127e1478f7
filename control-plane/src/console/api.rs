//! The API as pages use it: its own routes, in this process.

use super::jobs::Imports;
use crate::feed::AwaitedChanges;
use crate::http::api::routes_of_callers;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::transfer::Here;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use edgelink_wire::Domain;
use edgelink_wire::settings::SettingValue;
use http::{HeaderName, HeaderValue, Method, header};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

/// The state of all pages.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) app: Arc<App>,
    pub(super) imports: Arc<Imports>,
    api: Router,
}

/// What the API has answered with success.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `Null` where there is no body.
    pub(crate) body: Value,
    /// The revision of the link.
    pub(super) entity_tag: Option<HeaderValue>,
    /// What the feed has to carry before the page is sent.
    awaited: Option<AwaitedChanges>,
}

impl Console {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self {
            api: routes_of_callers().with_state(app.clone()),
            app: app.clone(),
            imports: Arc::default(),
        }
    }

    /// The API for work that goes on behind pages.
    pub(super) fn local(&self, caller: &Caller) -> Here {
        let (api, caller) = (self.api.clone(), caller.clone());
        Arc::new(move |request| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller.clone());
            let api = api.clone();
            Box::pin(async move {
                let Ok(response) = api.oneshot(request).await;
                let (head, body) = response.into_parts();
                // Where the body ends early, it is no JSON, and refused as such.
                let body = body.collect().await;
                let bytes = body.map(http_body_util::Collected::to_bytes);
                (head.status, bytes.unwrap_or_default())
            })
        })
    }

    /// What of the installation decides whether a link is valid, as JSON for the checks of the script.
    pub(super) fn settings(&self, caller: &Caller) -> String {
        let (table, tenant_id) = (self.app.domains.current(), caller.tenant_id());
        let made = table.made_by(tenant_id);
        let made = made.filter(|domain| table.check(domain, tenant_id).is_ok());
        let hosts = self.app.config.links.blocked_hosts.iter();
        let hosts: Vec<Value> = hosts.filter_map(|host| host.written("")).collect();
        let links = self.app.links.of_tenant(caller);
        let default = caller.default_domain(links.default_domain());
        let mut configured: Vec<&Domain> = table.configured().iter().collect();
        // The script takes the first one for the default.
        configured.sort_by_key(|domain| *domain != default);
        let names = |domains: Vec<&Domain>| -> Vec<String> {
            domains
                .into_iter()
                .map(|domain| domain.as_str().to_owned())
                .collect()
        };
        let settings = json!({
            "domains": names(configured), "madeDomains": names(made.collect()),
            "blockedHosts": hosts,
        });
        settings.to_string()
    }

    /// Asks for what is at a path of the API, which begins behind `/api/v1`.
    pub(super) async fn get(&self, caller: &Caller, path: &str) -> Result<Answer, Problem> {
        self.ask(caller, Method::GET, path, None, None).await
    }

    /// The answer to a question as it is: one that is sent while it comes about.
    pub(super) async fn stream(&self, caller: &Caller, path: &str) -> Result<Response, Problem> {
        let request = request(caller, Method::GET, path)?;
        let Ok(response) = self.api.clone().oneshot(request).await;
        Ok(response)
    }

    /// The same as a type.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        path: &str,
    ) -> Result<T, Problem> {
        self.get(caller, path).await?.read()
    }

    /// Sends JSON to a path of the API.
    pub(crate) async fn send(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Problem> {
        self.ask(caller, method, path, Some(body), None).await
    }

    /// Sends a request to the API, with a header: `If-Match` with the revision that the link still has to have, or
    /// `Idempotency-Key`.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        method: Method,
        path: &str,
        body: Option<&Value>,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<Answer, Problem> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let length = HeaderValue::from(text.len());
        let mut request = request(caller, method, path)?;
        *request.body_mut() = Body::from(text);
        let headers = request.headers_mut();
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            headers.insert(header::CONTENT_LENGTH, length);
        }
        headers.extend(header);
        let Ok(response) = self.api.clone().oneshot(request).await;
        Answer::of(response).await
    }
}

/// A request without a body.
fn request(caller: &Caller, method: Method, path: &str) -> Result<Request, Problem> {
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method;
    let uri = format!("/api/v1{path}").parse();
    *request.uri_mut() = uri.map_err(|_| Problem::new(Kind::NotFound))?;
    request.extensions_mut().insert(caller.clone());
    Ok(request)
}

impl Answer {
    async fn of(mut response: Response) -> Result<Self, Problem> {
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Err(problem);
        }
        let internal = || Problem::new(Kind::Internal);
        if !response.status().is_success() {
            let status = response.status().as_u16();
            tracing::error!(
                status,
                "the API has refused a request of the console without a problem"
            );
            return Err(internal());
        }
        let awaited = response.extensions_mut().remove::<AwaitedChanges>();
        let entity_tag = response.headers().get(header::ETAG).cloned();
        let bytes = response.into_body().collect().await;
        let bytes = bytes.map_err(|_| internal())?.to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).map_err(|_| internal())?
        };
        Ok(Self {
            body,
            entity_tag,
            awaited,
        })
    }

    /// The body as a type.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        typed(self.body)
    }

    /// The body as a type, where the answer is needed further.
    pub(super) fn as_type<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        typed(self.body.clone())
    }

    /// Makes a page wait until edges know of the change.
    pub(crate) fn before(&self, response: Response) -> Response {
        match self.awaited.clone() {
            Some(awaited) => awaited.attach_to(response),
            None => response,
        }
    }
}

fn typed<T: DeserializeOwned>(body: Value) -> Result<T, Problem> {
    serde_json::from_value(body).map_err(|error| {
        tracing::error!(%error, "the console does not understand the API");
        Problem::new(Kind::Internal)
    })
}

/// A text as a part of a path, or as a value of a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The address of the next page of a list with these filters, if there is one.
pub(super) fn next_page<'a>(
    page: &str,
    filters: impl IntoIterator<Item = (&'a str, &'a str)>,
    cursor: &'a Option<String>,
) -> Option<String> {
    let cursor = ("cursor", cursor.as_deref()?);
    Some(format!(
        "{page}{}",
        query(filters.into_iter().chain([cursor]))
    ))
}

/// The parameters that are not empty, as a list of the service reads them.
pub(super) fn parameters<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    query(pairs).trim_start_matches('?').to_owned()
}

/// A query of the parameters that are not empty, with its question mark.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = pairs.map(|(name, value)| format!("{name}={}", encoded(value)));
    let query = pairs.collect::<Vec<_>>().join("&");
    if query.is_empty() {
        query
    } else {
        format!("?{query}")
    }
}
