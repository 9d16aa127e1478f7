//! Links that tests create by the API.

use crate::scenario::DOMAIN;
use serde_json::{Map, Value};
use std::ops::Deref;
use std::panic::Location;

/// A client of an API that creates links.
pub trait LinkApi {
    /// Answer of the API.
    type Answer;

    /// Sends a request to create a link.
    fn post_link(&self, link: &Value) -> impl Future<Output = Self::Answer> + Send;

    /// Reads the link of an answer with the status 201.
    ///
    /// # Errors
    /// Fails with a description of any other answer.
    fn created(answer: &Self::Answer) -> Result<Value, String>;
}

/// Builder of a link, which leads to `https://example.com/` unless another target is set.
#[derive(Debug)]
#[must_use]
pub struct LinkBuilder<'a, A> {
    api: &'a A,
    fields: Map<String, Value>,
}

impl<'a, A: LinkApi> LinkBuilder<'a, A> {
    /// Starts a link with that code; without one, the API generates it.
    pub fn new(api: &'a A, code: &str) -> Self {
        let fields = Map::new();
        let link = Self { api, fields }.to("https://example.com/");
        match code {
            "" => link,
            code => link.with("customSlug", code),
        }
    }

    /// Sets a field.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// Sets the target.
    pub fn to(self, url: &str) -> Self {
        self.with("longUrl", url)
    }

    /// Sets the domain.
    pub fn on(self, domain: &str) -> Self {
        self.with("domain", domain)
    }

    /// Sets the title.
    pub fn title(self, title: &str) -> Self {
        self.with("title", title)
    }

    /// Sets the tags.
    pub fn tags(self, tags: &[&str]) -> Self {
        self.with("tags", tags)
    }

    /// Sets the password.
    pub fn password(self, password: &str) -> Self {
        self.with("password", password)
    }

    /// Sets the number of visits it can be followed.
    pub fn max_visits(self, visits: u64) -> Self {
        self.with("maxVisits", visits)
    }

    /// Sets the status of redirects.
    pub fn redirect_status(self, status: u16) -> Self {
        self.with("redirectStatus", status)
    }

    /// Sets the start of the validity.
    pub fn valid_since(self, moment: &str) -> Self {
        self.with("validSince", moment)
    }

    /// Sets the end of the validity.
    pub fn valid_until(self, moment: &str) -> Self {
        self.with("validUntil", moment)
    }

    /// Sends the request to create it; the answer may be a refusal.
    pub async fn answer(self) -> A::Answer {
        self.api.post_link(&self.fields.into()).await
    }

    /// Creates the link.
    ///
    /// # Panics
    /// Panics with the caller's location unless the API answers 201.
    #[track_caller]
    pub fn create(self) -> impl Future<Output = CreatedLink<A::Answer>> {
        let caller = Location::caller();
        async move {
            let answer = self.answer().await;
            match A::created(&answer) {
                Ok(body) => CreatedLink { answer, body },
                Err(refusal) => panic!("{caller}: {refusal}"),
            }
        }
    }
}

/// A created link, which dereferences to its JSON.
#[derive(Debug)]
pub struct CreatedLink<A> {
    /// Answer of the API, with the entity tag if its type has headers.
    pub answer: A,
    /// Body of the answer.
    pub body: Value,
}

impl<A> CreatedLink<A> {
    fn text(&self, field: &str) -> &str {
        let value = self.body[field].as_str();
        value.unwrap_or_else(|| panic!("no '{field}' in {}", self.body))
    }

    /// The short code.
    #[must_use]
    pub fn code(&self) -> &str {
        self.text("shortCode")
    }

    /// Path of the short URL, such as `/abc` of `http://go.example/abc`.
    ///
    /// # Panics
    /// Panics if the short URL is not on [`DOMAIN`].
    #[must_use]
    pub fn path(&self) -> String {
        let url = self.text("shortUrl");
        let path = url
            .strip_prefix("http://")
            .and_then(|url| url.strip_prefix(DOMAIN));
        path.unwrap_or_else(|| panic!("{url} is not on {DOMAIN}"))
            .to_owned()
    }
}

impl<A> Deref for CreatedLink<A> {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.body
    }
}
