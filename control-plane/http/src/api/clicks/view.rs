//! Single clicks and orphan visits as the API shows them.

use edgelink_clicks::analytics::{RawClick, VisitorView, orphan_word};
use edgelink_model::timestamp;
use edgelink_service::asking::Conversions;
use edgelink_service::conversions::Conversion;
use edgelink_service::cursor;
use edgelink_wire::click_id::{self};
use serde::Serialize;
use utoipa::ToSchema;

/// A conversion as the API shows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Conversion)]
pub(crate) struct ConversionView {
    click_id: String,
    event_name: String,
    external_id: Option<String>,
    /// In the smallest unit of the currency.
    value: Option<u64>,
    currency: Option<String>,
    at: String,
}

/// A click, or an orphan visit. What is null is not known: edges do not read it, or the visitor did not send it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Click)]
pub(crate) struct ClickView<'a> {
    /// Its place, which is a cursor: the page behind it begins with the click before it.
    id: String,
    at: String,
    /// What was asked for; of orphan visits only.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// Domain and path; of orphan visits only.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(flatten)]
    #[schema(inline)]
    visitor: VisitorView<'a>,
    /// What the click has led to; not of orphan visits.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversions: Option<Vec<ConversionView>>,
}

/// The cursor after a click.
pub(super) fn id(click: &RawClick) -> String {
    cursor::format_created(click.place.at, click.place.number)
}

impl ConversionView {
    pub(crate) fn new(conversion: Conversion) -> Self {
        let has_value = !conversion.currency.is_empty();
        Self {
            click_id: click_id::to_text(conversion.click_id),
            event_name: conversion.event,
            external_id: conversion.external_id,
            value: has_value.then_some(conversion.value),
            currency: has_value.then_some(conversion.currency),
            at: timestamp::from_seconds(conversion.at),
        }
    }
}

impl<'a> ClickView<'a> {
    pub(crate) fn new(click: &'a RawClick, conversions: &Conversions) -> Self {
        let of_click = click.described.id.and_then(|id| conversions.get(&id));
        let views = of_click.into_iter().flatten().cloned();
        Self {
            id: id(click),
            at: timestamp::from_seconds(click.place.at),
            kind: click.orphan.map(orphan_word),
            url: click.orphan.map(|_| click.key.as_str()),
            visitor: VisitorView::new(&click.described),
            conversions: match click.orphan {
                Some(_) => None,
                None => Some(views.map(ConversionView::new).collect()),
            },
        }
    }

    /// The column names of [`ClickView::cells`].
    pub(super) fn heads(are_orphans: bool) -> Vec<&'static str> {
        let mut heads = vec!["id", "at"];
        if are_orphans {
            heads.extend(["type", "url"]);
        }
        heads.extend([
            "status",
            "rule",
            "country",
            "city",
            "device",
            "browser",
            "os",
            "bot",
            "referrer",
            "language",
            "utmSource",
            "utmMedium",
            "utmCampaign",
            "utmTerm",
            "utmContent",
            "userAgent",
            "clickId",
        ]);
        if !are_orphans {
            heads.push("conversions");
        }
        heads
    }

    /// The cells of a table; unknown ones are empty.
    pub(super) fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.id.clone(), self.at.clone()];
        if let (Some(kind), Some(url)) = (self.kind, self.url) {
            cells.extend([kind.to_owned(), harmless(url)]);
        }
        let visitor = &self.visitor;
        cells.extend([text(visitor.status), text(visitor.rule)]);
        let texts = [
            visitor.country,
            visitor.city,
            visitor.device,
            visitor.browser,
            visitor.os,
        ];
        cells.extend(texts.map(|text| harmless(text.unwrap_or_default())));
        cells.push(text(visitor.bot));
        let texts = [
            visitor.referrer,
            visitor.language,
            visitor.utm_source,
            visitor.utm_medium,
            visitor.utm_campaign,
            visitor.utm_term,
            visitor.utm_content,
            visitor.user_agent,
        ];
        cells.extend(texts.map(|text| harmless(text.unwrap_or_default())));
        cells.push(visitor.click_id.clone().unwrap_or_default());
        if let Some(conversions) = &self.conversions {
            cells.push(conversions.len().to_string());
        }
        cells
    }
}

/// An optional value as a cell; empty if it is unknown.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The characters with which a formula may begin. In some languages spreadsheets accept the full-width forms of the first four.
const FORMULA_STARTS: [char; 11] = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n'];

/// A text from a visitor as a cell: with a quote in front if a spreadsheet would take it for a formula.
fn harmless(text: &str) -> String {
    if text.starts_with(FORMULA_STARTS) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_clicks::analytics::{Described, RawPlace};
    use edgelink_wire::clicks::events::OrphanKind;

    fn click() -> RawClick {
        RawClick {
            place: RawPlace {
                at: 1_767_225_600,
                number: 7,
            },
            link_id: 1,
            key: "go.example/=a".to_owned(),
            orphan: Some(OrphanKind::Regular404),
            described: Described {
                status: 404,
                country: "DE".into(),
                referrer: "@evil.example".into(),
                visitor: Some(0x1234_5678_9abc_def0),
                id: Some([0xab; 16]),
                ..Described::default()
            },
        }
    }

    #[test]
    fn cell_when_it_begins_like_a_formula_is_quoted() {
        for text in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "＝1+1",
            "＋1",
            "－1",
            "＠SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
        ] {
            assert_eq!(harmless(text), format!("'{text}"));
        }
        assert_eq!(harmless("a=b"), "a=b");
        let click = click();
        let cells = ClickView::new(&click, &Conversions::new()).cells();
        assert!(cells.contains(&"'@evil.example".to_owned()), "{cells:?}");
        assert_eq!(cells.len(), ClickView::heads(true).len());
    }

    #[test]
    fn click_view_when_shown_omits_the_visitor_token() {
        let click = click();
        let view = serde_json::to_value(ClickView::new(&click, &Conversions::new())).unwrap();
        assert_eq!(view["type"], "regular_404");
        assert_eq!(view["at"], "2026-01-01T00:00:00Z");
        assert_eq!(view["country"], "DE");
        assert_eq!(view["city"], serde_json::Value::Null);
        assert_eq!(view["clickId"], click_id::to_text([0xab; 16]));
        let text = view.to_string();
        for token in ["1311768467463790320", "123456789abcdef0"] {
            assert!(!text.contains(token), "{text}");
        }
        let heads = ClickView::heads(true);
        let members = view.as_object().unwrap();
        assert!(
            heads.iter().all(|head| members.contains_key(*head)),
            "{text}"
        );
        assert_eq!(members.len(), heads.len());
    }
}
