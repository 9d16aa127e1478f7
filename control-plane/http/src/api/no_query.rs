//! Refuses parameters on routes that have none. Routes with parameters read them, and refuse all others themselves.

use crate::auth;
use axum::extract::Request;
use edgelink_service::fields::Fields;
use edgelink_service::problem::Problem;
use http::Method;
use std::collections::HashMap;
use std::sync::Arc;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

/// The methods without parameters, by the paths that have them.
#[derive(Default)]
pub(super) struct Bare(HashMap<String, Vec<Method>>);

impl Bare {
    /// Collects the methods without parameters from the document of the routes.
    pub(super) fn of(document: &OpenApi) -> Arc<Self> {
        let paths = document.paths.paths.iter();
        let bare = paths.map(|(path, item)| (path.clone(), methods_without(item)));
        Arc::new(Self(bare.collect()))
    }

    /// Refuses a request with parameters to a route that has none.
    pub(super) fn check(&self, request: &Request) -> Result<(), Problem> {
        let route = auth::route(request);
        if route.is_some_and(|path| self.has(&path, request.method())) {
            Fields::of_query(request.uri().query())?.finish()?;
        }
        Ok(())
    }

    fn has(&self, path: &str, method: &Method) -> bool {
        let method = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        self.0
            .get(path)
            .is_some_and(|methods| methods.contains(method))
    }
}

fn methods_without(item: &PathItem) -> Vec<Method> {
    let operations = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    let is_bare = |operation: &Operation| {
        let mut parameters = operation.parameters.iter().flatten();
        parameters.all(|parameter| match parameter {
            RefOr::T(parameter) => parameter.parameter_in != ParameterIn::Query,
            RefOr::Ref(_) => false,
        })
    };
    let bare = operations
        .into_iter()
        .filter(|(_, operation)| operation.as_ref().is_some_and(is_bare));
    bare.map(|(method, _)| method).collect()
}
