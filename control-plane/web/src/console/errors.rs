//! Error pages.

use super::layout::{self, Layout};
use super::signed_in::SignedIn;
use super::strings as t;
use askama::Template;
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::{Kind, Problem};
use http::header;

#[derive(Template)]
#[template(path = "console/error.html")]
struct ErrorPage {
    layout: Layout,
    status: u16,
    text: &'static str,
    detail: String,
}

/// Turns an answer that is a problem into a page; other answers stay.
pub(super) fn translate(mut response: Response, signed_in: Option<&SignedIn>) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    let status = response.status();
    let (title, text) = t::error(status.as_u16());
    // An error in a form does not depend on roles.
    let is_form = t::FORM_PROBLEMS.contains(&problem.text());
    let text = if is_form { "" } else { text };
    let layout = match signed_in {
        Some(signed_in) => Layout::new(signed_in, None, title),
        None => Layout::public(title, None),
    };
    let page = ErrorPage {
        layout,
        status: status.as_u16(),
        text,
        detail: describe(&problem),
    };
    let page = layout::send(status, &page);
    // The rest of the answer stays, such as the fields of rate limits.
    for (name, value) in page.headers() {
        response.headers_mut().insert(name, value.clone());
    }
    let of_body = [header::CONTENT_LENGTH, header::WWW_AUTHENTICATE];
    for name in of_body {
        response.headers_mut().remove(name);
    }
    *response.body_mut() = page.into_body();
    response
}

/// The text of a problem, with the errors of fields that no form shows.
pub(crate) fn describe(problem: &Problem) -> String {
    let errors = problem.errors().iter();
    let errors = errors.map(|error| format!("{}: {}", error.field, error.reason));
    std::iter::once(problem.text().to_owned())
        .chain(errors)
        .collect::<Vec<_>>()
        .join("; ")
}

/// For a page that does not exist.
pub(super) async fn nothing_here() -> Response {
    Problem::new(Kind::NotFound).into_response()
}

/// For a method that a page does not have.
pub(super) async fn method_not_allowed() -> Response {
    Problem::new(Kind::MethodNotAllowed).into_response()
}
