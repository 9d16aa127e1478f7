//! A browser without script: it keeps the cookie, and sends forms with what their pages hold.

use crate::helpers::{Answer, Running, send};
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use url::form_urlencoded::Serializer;

pub(super) struct Browser<'s> {
    pub(super) server: &'s Running,
    pub(super) cookie: String,
}

/// No key is cached, so that every change is seen at once.
pub(super) async fn start() -> Running {
    Running::with(&[("EDGELINK_AUTH_KEY_CACHE_MS", "0")]).await
}

/// The page with the form for a new link.
pub(super) const CREATE: &str = "/console/create";

/// The body of a form.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields).finish()
}

impl<'s> Browser<'s> {
    /// A browser that has seen the page with the login.
    pub(super) async fn new(server: &'s Running) -> Self {
        let mut browser = Self {
            server,
            cookie: String::new(),
        };
        browser.get("/console/login").await;
        browser
    }

    /// One that has logged in by that key.
    pub(super) async fn by_key(server: &'s Running, key: &str) -> Self {
        let mut browser = Self::new(server).await;
        let answer = browser.post("/console/login", &[("key", key)]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    /// One that the admin has logged in with.
    pub(super) async fn admin(server: &'s Running) -> Self {
        Self::by_key(server, &server.admin_key).await
    }

    /// One that a new user with that role has logged in with.
    pub(super) async fn of_role(server: &'s Running, role: &str) -> Self {
        let user = json!({ "name": role, "role": role, "password": "correct horse" });
        let made = send(server.api(Method::POST, "/users").json(&user)).await;
        made.expect(201);
        let mut browser = Self::new(server).await;
        let answer = browser.log_in(role, "correct horse").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser
    }

    pub(super) async fn log_in(&mut self, user: &str, password: &str) -> Answer {
        let fields = [("user", user), ("password", password)];
        self.post("/console/login", &fields).await
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.server.plain(method, path);
        request.header("cookie", &self.cookie)
    }

    async fn answer(&mut self, request: RequestBuilder) -> Answer {
        let answer = send(request).await;
        if let Some((cookie, _)) = answer.header("set-cookie").split_once(';') {
            cookie.clone_into(&mut self.cookie);
        }
        check(&answer);
        answer
    }

    pub(super) async fn get(&mut self, path: &str) -> Answer {
        self.answer(self.request(Method::GET, path)).await
    }

    /// The text of a page.
    pub(super) async fn page(&mut self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text().to_owned()
    }

    /// What the forms of this browser have: it is on each page.
    pub(super) async fn form_token(&mut self) -> String {
        let answer = self.get("/console/login").await;
        let (_, rest) = answer.text().split_once("name=\"csrf\" value=\"").unwrap();
        rest[..64].to_owned()
    }

    /// Sends a form.
    pub(super) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.form_token().await;
        let fields = [&[("csrf", token.as_str())], fields].concat();
        self.post_raw(path, form(&fields)).await
    }

    /// Sends a form as it is.
    pub(super) async fn post_raw(&mut self, path: &str, body: String) -> Answer {
        let request = self.request(Method::POST, path);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.answer(request.body(body)).await
    }

    /// Sends a form that leads to another page; where to.
    pub(super) async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.post(path, fields).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        answer.header("location").to_owned()
    }
}

/// What is true of each answer of the console.
#[track_caller]
pub(super) fn check(answer: &Answer) {
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self' 'wasm-unsafe-eval';"));
    assert!(!policy.contains("unsafe-inline"));
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("referrer-policy"), "same-origin");
    assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin");
    assert!(!answer.header("cache-control").is_empty());
    let is_page = answer.header("content-type") == "text/html; charset=utf-8";
    assert!(
        is_page || answer.body.is_empty(),
        "{}",
        answer.header("content-type")
    );
    if is_page {
        let text = answer.text();
        for part in [
            "<html lang=\"en\">",
            "<main id=\"content\"",
            "class=\"skip\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            !text.contains(" style=") && !text.contains(" onclick="),
            "{text}"
        );
        // The only script is the one in the head, in a file.
        let (head, body) = text.split_once("</head>").unwrap();
        assert_eq!(
            head.matches("<script").count(),
            head.matches("<script type=\"module\" src=\"/console/assets/")
                .count()
        );
        assert!(!body.contains("<script"), "{text}");
    }
}

/// Whether the problem at a field of a page is what it is to be.
#[track_caller]
pub(super) fn problem_at<'p>(page: &'p str, field: &str) -> &'p str {
    let start = format!("id=\"{field}-problem\" role=\"alert\">");
    let (_, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no field {field}: {page}"));
    rest.split_once('<').unwrap().0
}

/// The value of a hidden field of a page.
#[track_caller]
pub(super) fn hidden(page: &str, field: &str) -> String {
    let start = format!("type=\"hidden\" name=\"{field}\" value=\"");
    let (_, rest) = page
        .split_once(&start)
        .unwrap_or_else(|| panic!("no field {field}: {page}"));
    let value = rest.split_once('"').unwrap().0;
    value.replace("&#34;", "\"").replace("&#38;", "&")
}
