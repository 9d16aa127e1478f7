//! `PUT /links`: creates the link with an external id, or changes it.
//!
//! Who keeps links in step with another system sends each of them, whether it is known here or not, and as often as need be.

use super::body::JsonObject;
use super::create;
use super::draft::Draft;
use super::fields::Fields;
use super::properties::Properties;
use super::schema;
use super::view;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::checked::CheckedContent;
use crate::links::model::Link;
use crate::problem::{FieldError, Kind, Problem};
use crate::service::order::Order;
use crate::store::ChangeError;
use axum::extract::{Extension, State};
use axum::response::Response;
use serde_json::{Map, Value};
use std::sync::Arc;

/// How often the link is looked for, where others create, change and delete it meanwhile.
const MAX_ROUNDS: usize = 5;

/// Creates the link with an external id, or changes it.
///
/// Fields that are missing stay. A request that changes nothing makes no revision.
#[utoipa::path(
    put,
    path = "/links",
    operation_id = "putLink",
    tag = "links",
    request_body = schema::LinkUpsert,
    responses(
        (
            status = 201, description = "The link was created",
            body = view::LinkView<'static>,
            headers(
                ("ETag" = String, description = "The revision"),
                ("Location" = String, description = "The resource"),
            ),
        ),
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let upsert = Upsert::parse(&app, object, &caller).await?;
    for _ in 0..MAX_ROUNDS {
        let id = &upsert.external_id;
        let answer = match app
            .store
            .find_by_external_id(caller.tenant_id(), id)
            .await?
        {
            Some(link) => upsert.change(&app, &caller, link).await?,
            None => upsert.create(&app, &caller).await?,
        };
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
    Err(Problem::new(Kind::Overloaded).with_detail("others keep changing the link"))
}

/// What is wanted of the link.
struct Upsert {
    external_id: String,
    /// The link, if there is none yet.
    order: Order,
    /// Whether the request names a domain.
    is_on_domain: bool,
    /// The change, if there is one.
    properties: Arc<Properties>,
}

impl Upsert {
    async fn parse(
        app: &App,
        object: Map<String, Value>,
        caller: &Caller,
    ) -> Result<Self, Problem> {
        let is_on_domain = object.get("domain").is_some_and(|domain| !domain.is_null());
        let fields = Fields::new(object);
        let (order, properties) = create::read(fields, &app.links(caller), caller, None)?;
        if order.find_if_exists {
            return Err(Problem::of_field(
                "findIfExists",
                "does not go with an externalId",
            ));
        }
        let external_id = order.content.external_id.clone();
        Ok(Self {
            external_id: external_id
                .ok_or_else(|| Problem::of_field("externalId", "is required"))?,
            order: Draft::new(order, properties.new_password().cloned())
                .hash(&app.passwords, caller.claim())
                .await?,
            is_on_domain,
            properties: Arc::new(properties),
        })
    }

    /// Creates the link; `None` if another request did so meanwhile.
    async fn create(&self, app: &App, caller: &Caller) -> Result<Option<Response>, Problem> {
        let (made, awaited) = match create::carry_out(app, caller, self.order.clone()).await {
            Err(problem) if problem.kind() == Kind::ExternalIdTaken => return Ok(None),
            made => made?,
        };
        let answer = view::created(&made.link, &app.config.links);
        Ok(Some(awaited.attach_to(answer)))
    }

    /// Changes the link, if that changes anything; `None` if it has become another one meanwhile.
    async fn change(
        &self,
        app: &App,
        caller: &Caller,
        link: Link,
    ) -> Result<Option<Response>, Problem> {
        // That the caller may not see.
        caller
            .check(&link)
            .map_err(|_| Problem::external_id_taken())?;
        self.check_place(&link)?;
        let links = &app.config.links;
        if *self.properties.apply(CheckedContent::existing(&link))? == link.content {
            return Ok(Some(view::found(&link, links)));
        }
        let (id, properties) = (self.external_id.clone(), Arc::clone(&self.properties));
        let actor = caller.actor();
        let caller = caller.clone();
        let change = Box::new(move |link: &Link| {
            caller.check(link)?;
            if link.content.external_id.as_ref() != Some(&id) {
                return Err(ChangeError::Changed);
            }
            properties.apply(CheckedContent::existing(link))
        });
        let from = app.feed.end();
        let key = link.key();
        match app.store.update_link(&key, change, &actor).await? {
            Some(Ok(link)) => {
                let awaited = AwaitedChanges::new(from, [(link.key(), link.rev)]);
                Ok(Some(awaited.attach_to(view::found(&link, links))))
            }
            None | Some(Err(ChangeError::Changed)) => Ok(None),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Refuses a request that names another place than that of the link: only a move changes it.
    fn check_place(&self, link: &Link) -> Result<(), Problem> {
        let mut errors = Vec::new();
        let reason = "is not that of the link with this externalId";
        if self.is_on_domain && self.order.domain != link.domain {
            errors.push(FieldError::new("domain", reason));
        }
        if self
            .order
            .alias
            .as_ref()
            .is_some_and(|alias| *alias != link.code)
        {
            errors.push(FieldError::new("customSlug", reason));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(Problem::new(Kind::ExternalIdTaken).with_errors(errors)),
        }
    }
}
