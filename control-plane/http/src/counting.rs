//! Counts the visits that this process answers, with the attributes that it is configured to record.

use crate::app::App;
use crate::visit::Visit;
use edgelink_clicks::OwnClicks;
use edgelink_clicks::analytics::VisitorSecrets;
use edgelink_wire::clicks::attributes::{self, Attribute, MAX_HOST};
use edgelink_wire::clicks::events::{Attributes, Event, Kind, OrphanKind};
use edgelink_wire::redirect::Decision;
use edgelink_wire::rules::Visitor;
use edgelink_wire::{Domain, LinkKey, Outcome};

/// Counts a visit by its decision: a redirect is a click, an unknown code an orphan visit.
pub(super) fn count(app: &App, visit: &Visit<'_>, key: &LinkKey, decision: &Decision<'_>) {
    let clicks = &app.own_clicks;
    match (decision.outcome, &decision.sent_to) {
        (Outcome::Redirect, Some(sent_to)) => {
            let (key, id) = (key.to_string(), decision.click_id);
            let is_described = clicks.describes() && !visit.is_opt_out();
            if !is_described && id.is_none() {
                return clicks.count(&key);
            }
            let click = Event {
                rule: decision.rule,
                id,
                ..event(&key, visit, Kind::Redirect(sent_to.status))
            };
            describe(clicks, &app.visitors, (visit, click), |click| {
                clicks.describe(&key, click);
            });
        }
        (Outcome::NotFound, None) => {
            orphan(app, visit, &key.domain, OrphanKind::InvalidShortUrl);
        }
        _ => {}
    }
}

/// Counts a request that led to no link.
pub(super) fn orphan(app: &App, visit: &Visit<'_>, domain: &Domain, kind: OrphanKind) {
    let clicks = &app.own_clicks;
    if clicks.has_orphans() {
        let url = [domain.as_str(), visit.path()].concat();
        let visited = event(&url, visit, Kind::Orphan(kind));
        describe(clicks, &app.visitors, (visit, visited), |visited| {
            clicks.orphan(visited);
        });
    }
}

fn event<'e>(key: &'e str, visit: &Visit<'_>, kind: Kind) -> Event<&'e [u8]> {
    Event {
        key: key.as_bytes(),
        at: visit.now(),
        kind,
        rule: 0,
        attributes: Attributes::default(),
        visitor: None,
        id: None,
    }
}

/// Completes an event with the configured attributes, unless the visitor has opted out of them.
fn describe(
    clicks: &OwnClicks,
    visitors: &VisitorSecrets,
    (visit, mut event): (&Visit<'_>, Event<&[u8]>),
    take: impl FnOnce(&Event<&[u8]>),
) {
    if visit.is_opt_out() {
        event.rule = 0;
        return take(&event);
    }
    if !clicks.wants(Attribute::Rule) {
        event.rule = 0;
    }
    let (mut host, mut room) = ([0; MAX_HOST], Vec::new());
    let user_agent = visit.user_agent();
    if let Some(address) = visit.address().filter(|_| clicks.wants(Attribute::Visitor)) {
        event.visitor = visitors.token(event.at, address, user_agent);
    }
    let country = wanted(clicks, Attribute::Country, visit.country());
    let country = attributes::country(country);
    let own = event.key.split(|byte| *byte == b'/').next();
    let referrer = wanted(clicks, Attribute::Referrer, visit.referrer());
    let referrer = attributes::referrer(referrer, own.unwrap_or_default(), &mut host);
    let query = wanted(clicks, Attribute::Utm, visit.query());
    let utm = attributes::utm(query, &mut room);
    let language = wanted(clicks, Attribute::Language, visit.accept_language());
    let attributes = Attributes {
        country: country.as_ref().map_or(&[][..], |country| &country[..]),
        city: wanted(clicks, Attribute::City, visit.city()),
        user_agent: wanted(clicks, Attribute::UserAgent, user_agent),
        referrer: referrer.unwrap_or_default(),
        language: attributes::language(language),
        utm: utm.map(|range| room.get(range).unwrap_or_default()),
    };
    take(&Event {
        attributes,
        ..event
    });
}

fn wanted<'v>(clicks: &OwnClicks, attribute: Attribute, value: &'v [u8]) -> &'v [u8] {
    if clicks.wants(attribute) { value } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_address::PeerIp;
    use edgelink_settings::config::{Config, StoreConfig};
    use edgelink_wire::RedirectStatus;
    use edgelink_wire::clicks::visitor_token;
    use http::{Extensions, HeaderMap, Uri};

    const ALL: &str = "country,city,userAgent,referrer,language,utm,rule,visitor";

    fn config(attributes: &str) -> Config {
        let variables = [
            ("EDGELINK_CLICKS_ATTRIBUTES", attributes),
            ("EDGELINK_LINKS_COUNTRY_HEADER", "x-country"),
            ("EDGELINK_LINKS_CITY_HEADER", "x-city"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Config::load(None, &variables.into_iter().collect()).expect("a configuration")
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = [
            ("x-country", "de"),
            ("x-city", "Köln"),
            ("user-agent", "curl/8"),
            ("referer", "https://News.example/a"),
            ("accept-language", "de-DE,en"),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in all.iter().chain(pairs) {
            let value = http::HeaderValue::from_bytes(value.as_bytes());
            headers.insert(*name, value.expect("a value"));
        }
        headers
    }

    /// The event of a visit, as it would be reported.
    async fn described(
        attributes: &str,
        more: &[(&'static str, &'static str)],
    ) -> (Event<Vec<u8>>, Option<u64>) {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("links.db").display());
        let store = edgelink_store::open_store(&StoreConfig::at(&url))
            .await
            .expect("a store");
        let visitors = VisitorSecrets::new(store.clicks().clone());
        let (config, headers) = (config(attributes), headers(more));
        let uri: Uri = "/x?utm_source=a&utm_term=b%20c".parse().expect("a URI");
        let mut extensions = Extensions::new();
        extensions.insert(PeerIp([192, 0, 2, 1].into()));
        let visit = Visit::new(&config, &uri, &headers, &extensions);
        let keys = visitors.later_than(0, visit.now()).await.expect("a secret");
        let secret = keys.at(visit.now()).expect("a secret");
        let token = visitor_token(&secret.secret, [192, 0, 2, 1].into(), b"curl/8");
        let click = Event {
            rule: 3,
            ..event(
                "go.example/x",
                &visit,
                Kind::Redirect(RedirectStatus::Found),
            )
        };
        let mut taken = None;
        let clicks = OwnClicks::new(&config.clicks);
        describe(&clicks, &visitors, (&visit, click), |event| {
            taken = Some(owned(event));
        });
        (taken.expect("an event"), Some(token))
    }

    fn owned(event: &Event<&[u8]>) -> Event<Vec<u8>> {
        let attributes = &event.attributes;
        Event {
            key: event.key.to_vec(),
            at: event.at,
            kind: event.kind,
            rule: event.rule,
            attributes: Attributes {
                country: attributes.country.to_vec(),
                city: attributes.city.to_vec(),
                user_agent: attributes.user_agent.to_vec(),
                referrer: attributes.referrer.to_vec(),
                language: attributes.language.to_vec(),
                utm: attributes.utm.map(<[u8]>::to_vec),
            },
            visitor: event.visitor,
            id: event.id,
        }
    }

    #[tokio::test]
    async fn click_when_attributes_are_configured_has_them() {
        let (event, token) = described(ALL, &[]).await;
        let expected = Attributes {
            country: b"DE".to_vec(),
            city: "Köln".into(),
            user_agent: b"curl/8".to_vec(),
            referrer: b"news.example".to_vec(),
            language: b"de-DE".to_vec(),
            utm: ["a", "", "", "b c", ""].map(Into::into),
        };
        assert_eq!(event.attributes, expected);
        assert_eq!((event.rule, event.visitor), (3, token));
        let (event, _) = described("language", &[]).await;
        let language = b"de-DE".to_vec();
        assert_eq!(
            event.attributes,
            Attributes {
                language,
                ..Attributes::default()
            }
        );
        assert_eq!((event.rule, event.visitor), (0, None));
    }

    #[tokio::test]
    async fn visitor_when_not_to_be_tracked_is_not_described() {
        for header in [("dnt", "1"), ("sec-gpc", "1")] {
            let (event, _) = described(ALL, &[header]).await;
            assert_eq!(event.attributes, Attributes::default());
            assert_eq!((event.rule, event.visitor), (0, None));
        }
        let (event, token) = described(ALL, &[("dnt", "0")]).await;
        assert_eq!(event.visitor, token);
    }

    #[test]
    fn request_when_prefetched_or_head_is_not_counted() {
        use crate::visit::is_counted;
        use http::Method;
        for (method, expected) in [
            (Method::GET, true),
            (Method::POST, true),
            (Method::HEAD, false),
            (Method::OPTIONS, false),
            (Method::TRACE, false),
        ] {
            assert_eq!(is_counted(&method, &headers(&[])), expected, "{method}");
        }
        let prefetch = headers(&[("sec-purpose", "prefetch")]);
        assert!(!is_counted(&Method::GET, &prefetch));
    }
}
