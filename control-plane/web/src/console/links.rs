//! The list of links: search, filters, order, and pages by cursor.

use super::api::{Console, parameters, query};
use super::fields::{Field, Fields, stays};
use super::form::{Form, Query};
use super::layout::{self, Layout, Tab};
use super::shown_link::ShownLink;
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use edgelink_service::caller::Right;
use edgelink_service::domains::DomainList;
use edgelink_service::problem::Problem;
use http::StatusCode;

/// The parameters of the list, which are named as in the API.
const FILTERS: [&str; 5] = ["searchTerm", "tags", "domain", "state", "orderBy"];

#[derive(Template)]
#[template(path = "console/links.html")]
struct LinksPage {
    layout: Layout,
    filters: Fields,
    is_filtered: bool,
    links: Vec<ShownLink>,
    /// The next page, and the first one if this is another.
    next: Option<String>,
    first: Option<String>,
    may_change: bool,
    may_create: bool,
    /// The query of this page, to which a bulk change returns.
    back: String,
}

/// `GET /console/links`.
pub(super) async fn page(
    State(console): State<Console>,
    me: SignedIn,
    Query(asked): Query,
) -> Result<Response, Problem> {
    let cursor = asked.get("cursor");
    let filters = FILTERS.map(|name| (name, asked.get(name).trim()));
    let of_page = [("cursor", cursor), ("limit", "50")];
    let of_page = parameters(filters.into_iter().chain(of_page));
    let links = &console.app.links;
    let listed = async {
        let list = links.read_list(me.caller(), Some(&of_page)).await?;
        links.list(me.caller(), &list).await
    };
    let (links, next, problem) = match listed.await {
        Ok(page) => {
            let show = |link| ShownLink::new(link, None, &console.app.config.links);
            (page.items.into_iter().map(show).collect(), page.next, None)
        }
        Err(problem) if stays(&problem) => (Vec::new(), None, Some(problem)),
        Err(problem) => return Err(problem),
    };
    let own = |cursor: &str| {
        let query = query(filters.into_iter().chain([("cursor", cursor)]));
        format!("/console/links{query}")
    };
    let mut fields = filter_fields(&console, &me, &asked).await?;
    if let Some(problem) = &problem {
        fields = fields.with(problem);
    }
    let page = LinksPage {
        layout: Layout::new(&me, Some(Tab::Links), t::LINKS).with_notice(&asked),
        is_filtered: filters
            .iter()
            .any(|(name, value)| *name != "orderBy" && !value.is_empty()),
        filters: fields,
        next: next.as_deref().map(own),
        first: (!cursor.is_empty()).then(|| own("")),
        links,
        may_change: me.has(Right::ChangeLinks),
        may_create: Tab::Create.is_for(&me),
        back: own(cursor),
    };
    let status = problem.map_or(StatusCode::OK, |problem| problem.status());
    Ok(layout::send(status, &page))
}

async fn filter_fields(console: &Console, me: &SignedIn, asked: &Form) -> Result<Fields, Problem> {
    let fields = vec![
        Field::new("searchTerm", t::SEARCH).hint(t::SEARCH_HINT),
        Field::new("tags", t::TAG),
        domain_field(console, me, t::ALL_DOMAINS).await?,
        Field::choice("state", t::STATE, &t::LISTED_STATES),
        Field::choice("orderBy", t::ORDER, &t::ORDERS),
    ];
    Ok(Fields::new(fields).filled(asked))
}

/// A field for a domain: a choice of the domains that the user may see, and `none`, or a line if there are too many for a choice.
pub(super) async fn domain_field(
    console: &Console,
    me: &SignedIn,
    none: &str,
) -> Result<Field, Problem> {
    let line = Field::new("domain", t::DOMAIN);
    if !Tab::Domains.is_for(me) {
        return Ok(line.hint(t::DOMAIN_HINT));
    }
    let list = DomainList::read(Some("limit=100"))?;
    let listed = console.app.domain_service.list(me.caller(), list).await?;
    if listed.next.is_some() {
        return Ok(line);
    }
    let names = listed.items.iter().map(|seen| seen.domain.as_str());
    let mut choices = vec![("", none)];
    choices.extend(names.map(|name| (name, name)));
    Ok(Field::choice("domain", t::DOMAIN, &choices))
}
