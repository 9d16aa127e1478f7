//! The list of links as console pages.

use super::{HOSTS, TAGS};
use crate::rows::replica::{Replica, admin_key};
use edgelink_tests::scenario::DOMAIN;
use reqwest::redirect::Policy;
use reqwest::{Client, header};
use std::path::Path;

/// Number of pages after the first one, requested in turn.
const NEXT_PAGES: usize = 50;

/// A kind of page.
pub(super) struct Page {
    pub(super) name: &'static str,
    /// Path of the n-th request.
    pub(super) path: fn(u64) -> String,
}

/// All kinds but the pages after the first one, whose addresses are in the page before.
pub(super) const PAGES: [Page; 6] = [
    Page {
        name: "console, first page",
        path: |_| "/console/links".to_owned(),
    },
    Page {
        name: "console, search, host of the target",
        path: |n| format!("/console/links?searchTerm=host{}.example", n * 31 % HOSTS),
    },
    Page {
        name: "console, search, two words of a title",
        path: |n| format!("/console/links?searchTerm=title+{}", n * 37 % 9973),
    },
    Page {
        name: "console, a tag",
        path: |n| format!("/console/links?tags=t{}", n * 31 % TAGS),
    },
    Page {
        name: "console, a tag of many links",
        path: |n| format!("/console/links?tags=large{}&state=active", n % 10),
    },
    Page {
        name: "console, by code",
        path: |_| format!("/console/links?orderBy=shortCode-asc&domain={DOMAIN}"),
    },
];

/// Name of the pages after the first one.
pub(super) const NEXT: &str = "console, next pages";

/// A browser that has logged in.
pub(super) struct Browser {
    client: Client,
    console: String,
    /// The header with its cookie.
    pub(super) cookie: String,
}

impl Browser {
    /// Logs in with the admin key.
    pub(super) async fn log_in(replica: &Replica, folder: &Path) -> Self {
        let client = Client::builder().redirect(Policy::none()).build();
        let mut browser = Self {
            client: client.expect("a client"),
            console: format!("http://{}", replica.address()),
            cookie: String::new(),
        };
        let page = browser.get("/console/login").await;
        let token = between(&page, "name=\"csrf\" value=\"", "\"");
        let request = browser
            .client
            .post(format!("{}/console/login", browser.console));
        let request = request
            .header("cookie", &browser.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("csrf={token}&key={}", admin_key(folder)));
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 303);
        browser.cookie = cookie(&answer).expect("a session");
        browser
    }

    /// Fetches a page.
    async fn get(&mut self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.console));
        let request = request.header("cookie", &self.cookie);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        if let Some(cookie) = cookie(&answer) {
            self.cookie = cookie;
        }
        answer.text().await.expect("a page")
    }

    /// Paths of the pages after the first one, each linked from the one before.
    pub(super) async fn next_pages(&mut self) -> Vec<String> {
        let mut paths = vec!["/console/links".to_owned()];
        while paths.len() <= NEXT_PAGES {
            let page = self.get(&paths[paths.len() - 1]).await;
            let next = between(&page, "rel=\"next\" href=\"", "\"");
            paths.push(next.replace("&#38;", "&"));
        }
        paths.split_off(1)
    }
}

fn cookie(answer: &reqwest::Response) -> Option<String> {
    let cookie = answer.headers().get(header::SET_COOKIE)?.to_str().ok()?;
    let (cookie, _) = cookie.split_once(';')?;
    Some(cookie.to_owned())
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let rest = text.split_once(start);
    let found = rest.and_then(|(_, rest)| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {start} in {text}")).0
}
