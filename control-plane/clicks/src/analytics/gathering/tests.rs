use super::*;
use crate::analytics::model::{Agent, Click, Described, Device};
use edgelink_model::counts::OTHER;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

type Counts = BTreeMap<(DocKey, Attribute, String), Tally>;

/// A click of few kinds, most of whose properties follow from a number.
fn click((hour, link, count, kind): (u64, u64, u64, u8)) -> Click {
    let text = |texts: &[&str]| -> Arc<str> { texts[usize::from(kind) % texts.len()].into() };
    let long = "x".repeat(MAX_VALUE + 1 + usize::from(kind % 2));
    let described = Described {
        status: [301, 302, 0][usize::from(kind % 3)],
        rule: kind % 2,
        country: text(&["DE", "", "FR"]),
        city: text(&["a", "DE", "b", "c"]),
        user_agent: text(&["one", "two"]),
        agent: Arc::new(Agent {
            device: [Device::Mobile, Device::Unknown][usize::from(kind % 2)],
            browser: text(&["Firefox", "Chrome"]),
            os: text(&["Linux", ""]),
            is_bot: kind % 5 == 0,
        }),
        referrer: text(&["302", "a.example"]),
        language: text(&["de", "1"]),
        utm: [
            text(&[&long, "short"]),
            "".into(),
            text(&["m"]),
            "".into(),
            "".into(),
        ],
        visitor: (kind % 4 > 0).then(|| u64::from(kind)),
        id: None,
    };
    Click {
        at: hour * HOUR_SECONDS + u64::from(kind),
        count: if count == 1 { 1 } else { count },
        link_id: link,
        tenant_id: (link % 3) as u32,
        domain_id: (link % 2) as u32,
        key: format!("d{}.example/{link}", link % 2).into(),
        tags: [vec![], vec!["a".to_owned(), "302".to_owned()]][(link % 2) as usize]
            .clone()
            .into(),
        described: (count == 1).then(|| Box::new(described)),
    }
}

fn scopes(click: &Click) -> Vec<DocKey> {
    let time = (click.at / HOUR_SECONDS) as u32;
    let (tenant, domain) = (click.tenant_id, click.domain_id);
    let mut scopes = vec![
        (DocKind::Domain, domain_scope(tenant, domain)),
        (DocKind::Tenant, tenant.into()),
    ];
    if click.has_link() {
        scopes.push((DocKind::Link, click.link_id));
    }
    let key = |(kind, scope_id)| DocKey {
        kind,
        time,
        scope_id,
    };
    scopes.into_iter().map(key).collect()
}

/// The values of a click, one by one.
fn values(click: &Click, kind: DocKind) -> Vec<(Attribute, String)> {
    let mut values = Vec::new();
    if let Some(it) = &click.described {
        let rule = if it.rule > 0 {
            it.rule.to_string()
        } else {
            String::new()
        };
        let status = if it.status > 0 {
            it.status.to_string()
        } else {
            String::new()
        };
        values.extend([
            (Attribute::Country, it.country.to_string()),
            (Attribute::City, it.city.to_string()),
            (Attribute::Device, it.agent.device.as_str().to_owned()),
            (Attribute::Browser, it.agent.browser.to_string()),
            (Attribute::Os, it.agent.os.to_string()),
            (Attribute::Referrer, it.referrer.to_string()),
            (Attribute::Language, it.language.to_string()),
            (Attribute::UtmSource, cut(&it.utm[0], MAX_VALUE).to_owned()),
            (Attribute::UtmCampaign, it.utm[2].to_string()),
            (Attribute::Rule, rule),
            (Attribute::Status, status),
        ]);
        values.retain(|(_, value)| !value.is_empty());
    }
    if kind != DocKind::Link {
        values.push((Attribute::Link, click.key.to_string()));
        if click.tags.is_empty() {
            values.push((Attribute::Tag, String::new()));
        } else {
            values.extend(click.tags.iter().map(|tag| (Attribute::Tag, tag.clone())));
        }
    }
    if kind == DocKind::Tenant {
        values.push((Attribute::Domain, host(&click.key).to_owned()));
    }
    values
}

fn counted(clicks: &[Click]) -> (Counts, BTreeMap<DocKey, (Tally, Vec<u64>)>) {
    let (mut counts, mut sums) = (Counts::new(), BTreeMap::<_, (Tally, Vec<u64>)>::new());
    for click in clicks {
        let described = click.described.as_deref();
        let is_bot = described.is_some_and(|it| it.agent.is_bot);
        let tally = Tally::of_clicks(click.count, is_bot);
        for scope in scopes(click) {
            for (by, value) in values(click, scope.kind) {
                counts.entry((scope, by, value)).or_default().add(tally);
            }
            let (sum, visitors) = sums.entry(scope).or_default();
            sum.add(tally);
            visitors.extend(described.and_then(|it| it.visitor).filter(|_| !is_bot));
        }
    }
    for (_, visitors) in sums.values_mut() {
        visitors.sort_unstable();
    }
    (counts, sums)
}

fn any_clicks() -> impl Strategy<Value = Vec<Click>> {
    let click = (500_000..500_003_u64, 0..9_u64, 1..3_u64, 0..20_u8).prop_map(click);
    prop::collection::vec(click, 0..80)
}

proptest! {
    #[test]
    fn click_when_gathered_counts_once_in_each_scope(clicks in any_clicks()) {
        let chunk = Chunk::of(Vec::new(), &clicks, Vec::new());
        let gathered = gather(&chunk, usize::MAX);
        let (counts, sums) = counted(&clicks);
        let mut found = Counts::new();
        let mut found_sums = BTreeMap::new();
        for (key, added) in gathered.docs {
            for (by, values) in Attribute::ALL.into_iter().zip(added.values) {
                prop_assert!(values.is_sorted_by_key(|(value, _)| *value));
                for (value, tally) in values {
                    let before = found.insert((key, by, value.to_owned()), tally);
                    prop_assert_eq!(before, None);
                }
            }
            let mut visitors = added.visitors;
            visitors.sort_unstable();
            prop_assert_eq!(found_sums.insert(key, (added.sum, visitors)), None);
        }
        prop_assert_eq!(&found, &counts);
        prop_assert_eq!(&found_sums, &sums);
        let totals: BTreeMap<u64, Tally> = gathered.totals.into_iter().collect();
        let mut expected = BTreeMap::<u64, Tally>::new();
        for (key, (sum, _)) in sums.iter().filter(|(key, _)| key.kind == DocKind::Link) {
            expected.entry(key.scope_id).or_default().add(*sum);
        }
        prop_assert_eq!(totals, expected);
    }

    #[test]
    fn clicks_when_read_from_columns_are_equal(clicks in any_clicks()) {
        let chunk = Chunk::of(Vec::new(), &clicks, Vec::new());
        let read = chunk.clicks();
        prop_assert_eq!(read.len(), clicks.len());
        for (read, click) in read.iter().zip(&clicks) {
            prop_assert_eq!(&read.described, &click.described);
            prop_assert_eq!((&read.key, &read.tags), (&click.key, &click.tags));
            prop_assert_eq!((read.at, read.count, read.link_id), (click.at, click.count, click.link_id));
        }
    }
}

#[test]
fn values_when_too_many_keep_the_most_clicked() {
    let clicks: Vec<Click> = (0..9)
        .map(|link| click((500_000, 3 * link + 1, 2, 0)))
        .collect();
    let chunk = Chunk::of(Vec::new(), &clicks, Vec::new());
    let gathered = gather(&chunk, 3);
    let tenant = gathered
        .docs
        .iter()
        .find(|(key, _)| key.kind == DocKind::Tenant);
    let links = &tenant.unwrap().1.values[Attribute::Link as usize];
    assert_eq!(links.len(), 4);
    assert_eq!(
        links[0],
        (
            OTHER,
            Tally {
                clicks: 12,
                bots: 0
            }
        )
    );
}
