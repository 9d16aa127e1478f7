use super::listener::{MAX_WAITING, show};
use super::*;
use crate::analytics::Described;
use edgelink_model::tenancy::Scope;
use edgelink_wire::Domain;

fn filter() -> ListenerFilter {
    ListenerFilter {
        scope: Scope::tenant(1),
        link_id: None,
        domain: None,
        tags: Vec::new(),
    }
}

fn click() -> Click {
    Click {
        at: 1_767_225_600,
        count: 1,
        link_id: 7,
        tenant_id: 1,
        domain_id: 3,
        key: "go.example/abc".into(),
        tags: ["summer".to_owned()].into(),
        described: Some(Box::new(Described {
            status: 302,
            country: "DE".into(),
            visitor: Some(1),
            ..Described::default()
        })),
    }
}

#[test]
fn click_when_outside_the_filter_skips_the_listener() {
    let domain = |name: &str| Domain::parse(name).unwrap();
    let wants = |change: &dyn Fn(&mut ListenerFilter)| {
        let mut filter = filter();
        change(&mut filter);
        ClickListener::new(filter).0.wants(&click(), Some(5))
    };
    assert!(wants(&|_| {}));
    assert!(wants(&|filter| filter.link_id = Some(7)));
    assert!(!wants(&|filter| filter.link_id = Some(8)));
    assert!(wants(&|filter| filter.domain = Some(domain("go.example"))));
    assert!(!wants(&|filter| filter.domain = Some(domain("o.example"))));
    assert!(wants(
        &|filter| filter.tags = vec!["a".into(), "summer".into()]
    ));
    assert!(!wants(&|filter| filter.tags = vec!["a".into()]));
    assert!(!wants(&|filter| filter.scope.tenant_id = 2));
    assert!(wants(&|filter| filter.scope.owner_id = Some(5)));
    assert!(!wants(&|filter| filter.scope.owner_id = Some(6)));
    assert!(!wants(&|filter| filter.scope.tags = vec!["a".into()]));
    assert!(!wants(
        &|filter| filter.scope.domains = vec![domain("o.example")]
    ));
}

#[tokio::test]
async fn listener_when_slow_receives_the_number_of_losses() {
    let live = Live::new(None);
    let mut subscription = live.add(filter()).unwrap();
    let clicks = vec![click(); MAX_WAITING + 3];
    live.deliver(&clicks, &Default::default());
    assert_eq!(subscription.next().await, Some(LiveEvent::Lost(3)));
    for _ in 0..MAX_WAITING {
        let event = subscription.next().await;
        assert!(matches!(event, Some(LiveEvent::Click(_))), "{event:?}");
    }
    live.note_gap();
    assert_eq!(subscription.next().await, Some(LiveEvent::Lost(0)));
    live.shutdown();
    assert_eq!(subscription.next().await, None);
}

#[tokio::test]
async fn listener_when_too_many_exist_is_refused() {
    let live = Live::new(None);
    let mut all: Vec<Subscription> = Vec::new();
    for _ in 0..MAX_LISTENERS {
        all.push(live.add(filter()).unwrap());
    }
    assert!(live.add(filter()).is_err());
    all.pop();
    assert!(live.add(filter()).is_ok());
}

#[test]
fn event_when_shown_omits_address_and_token() {
    let view: serde_json::Value = serde_json::from_str(&show(&click())).unwrap();
    assert_eq!(view["shortCode"], "abc");
    assert_eq!(view["country"], "DE");
    assert_eq!(view["status"], 302);
    let members: Vec<&String> = view.as_object().unwrap().keys().collect();
    assert!(
        !members
            .iter()
            .any(|name| name.contains("visitor") || name.contains("token"))
    );
}
