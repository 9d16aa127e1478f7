//! Rows of other systems as items of an import.

use super::format::FormatRules;
use super::meaning::{ColumnMap, Meaning, spelled};
use super::record::Item;
use edgelink_model::text::cut;
use edgelink_model::timestamp::lenient as times;
use edgelink_service::values::{MAX_NOTES_LENGTH, MAX_TITLE_LENGTH};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use url::Url;

/// The most places of a link: each becomes an item with all properties of the link.
pub(in super::super) const MAX_PLACES: usize = 100;

/// The reading of rows of a system.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowReading<'m> {
    pub(super) rules: &'static FormatRules,
    pub(super) columns: &'m ColumnMap,
    /// True if dates of creation and counts of visits are left out.
    pub(super) is_without_history: bool,
    /// The time of the import: a link is not created after it.
    pub(super) now: OffsetDateTime,
}

impl<'m> RowReading<'m> {
    /// The items of a row: one for each place of the link, and none if all fields are empty.
    pub(super) fn items(&self, row: &Map<String, Value>) -> Vec<Result<Item, String>> {
        let fields = self.fields(row);
        if fields.is_blank() {
            return Vec::new();
        }
        match fields.places() {
            Ok(places) => {
                let item = |(index, place)| {
                    let mut item = fields.item(place)?;
                    if index > 0 {
                        // They are those of all places together.
                        item.fields.remove("importedVisits");
                    }
                    Ok(item)
                };
                places.into_iter().enumerate().map(item).collect()
            }
            Err(reason) => vec![Err(reason)],
        }
    }

    /// The fields of a row with their meanings.
    pub(super) fn fields<'r>(&'r self, row: &'r Map<String, Value>) -> RowFields<'r> {
        let mut list = Vec::new();
        for (name, value) in row {
            let known = self.field(name.clone(), value);
            match value {
                Value::Object(inner) if !known.meaning.is_some_and(Meaning::is_of_objects) => {
                    let field = |(inner, value)| self.field(format!("{name}.{inner}"), value);
                    list.extend(inner.iter().map(field));
                }
                _ => list.push(known),
            }
        }
        // Stable: the first of several fields with one name stays the first.
        list.sort_by_key(|field| field.rank);
        RowFields {
            reading: self,
            list,
        }
    }

    fn field<'r>(&self, name: String, value: &'r Value) -> RowField<'r> {
        let spelled = spelled(&name);
        let by_hand = self.columns.get(&spelled).map(|meaning| (0, meaning));
        let known = by_hand.or_else(|| self.rules.meaning(&spelled));
        RowField {
            name,
            value,
            rank: known.map_or(usize::MAX, |(rank, _)| rank),
            meaning: known.map(|(_, meaning)| meaning),
        }
    }
}

/// A field of a row; of a nested object, with the name of both.
#[derive(Debug)]
pub(super) struct RowField<'r> {
    pub(super) name: String,
    pub(super) value: &'r Value,
    rank: usize,
    pub(super) meaning: Option<Meaning>,
}

/// The fields of a row, in the order in which they are looked at for a meaning.
#[derive(Debug)]
pub(super) struct RowFields<'r> {
    reading: &'r RowReading<'r>,
    list: Vec<RowField<'r>>,
}

/// Domain and code of a link; `None` stands for the default domain, or a generated code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    domain: Option<String>,
    code: Option<String>,
}

impl RowField<'_> {
    /// True if the field has no value.
    pub(super) fn is_empty(&self) -> bool {
        is_empty(self.value)
    }

    /// True if the value says that there is nothing: a flag that is not set, or zero.
    pub(super) fn is_off(&self) -> bool {
        flag(&self.text()) == Some(false)
    }

    /// The value as trimmed text.
    pub(super) fn text(&self) -> String {
        match self.value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        }
    }

    fn flag(&self) -> Result<bool, String> {
        let text = self.text();
        flag(&text).ok_or_else(|| format!("{} is neither true nor false: {text}", self.name))
    }

    fn number(&self) -> Result<u64, String> {
        let text = self.text();
        whole_number(&text).ok_or_else(|| format!("{} is no number: {text}", self.name))
    }

    /// The state that the value stands for.
    pub(super) fn state(&self) -> Option<SourceState> {
        SourceState::of_word(&self.text())
    }
}

/// The state of a link in another system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceState {
    Active,
    Archived,
    Disabled,
}

impl SourceState {
    fn of_word(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "archived" | "hidden" => Some(Self::Archived),
            "active" | "enabled" | "live" | "published" | "ok" => Some(Self::Active),
            "disabled" | "inactive" | "banned" | "blocked" | "paused" | "suspended" | "deleted"
            | "expired" | "spam" => Some(Self::Disabled),
            other if flag(other)? => Some(Self::Active),
            _ => Some(Self::Disabled),
        }
    }
}

impl<'r> RowFields<'r> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &RowField<'r>> {
        self.list.iter()
    }

    /// True if all fields are empty.
    pub(super) fn is_blank(&self) -> bool {
        self.list.iter().all(RowField::is_empty)
    }

    /// The fields with a value that have this meaning.
    fn all(&self, meaning: Meaning) -> impl Iterator<Item = &RowField<'r>> {
        let fields = self.list.iter();
        fields.filter(move |field| field.meaning == Some(meaning) && !field.is_empty())
    }

    fn get(&self, meaning: Meaning) -> Option<&RowField<'r>> {
        self.all(meaning).next()
    }

    fn text(&self, meaning: Meaning) -> Option<String> {
        self.get(meaning).map(RowField::text)
    }

    /// True if the row names rules that it does not have.
    pub(super) fn lacks_rules(&self) -> bool {
        let has_rules = self
            .get(Meaning::HasRules)
            .is_some_and(|field| !field.is_off());
        has_rules && self.get(Meaning::Rules).is_none()
    }

    /// True if the row names its code.
    pub(super) fn has_code(&self) -> bool {
        let named = [Meaning::Code, Meaning::ShortUrl, Meaning::ShortUrls];
        named.iter().any(|meaning| self.get(*meaning).is_some())
    }

    /// The domains of the link, as the row names them.
    pub(super) fn domains(&self) -> impl Iterator<Item = String> {
        let places = self.places().unwrap_or_default();
        places.into_iter().filter_map(|place| place.domain)
    }

    fn places(&self) -> Result<Vec<Place>, String> {
        let rules = self.reading.rules;
        let domain = self.text(Meaning::Domain);
        let code = self.text(Meaning::Code);
        let of_url = match self.text(Meaning::ShortUrl) {
            Some(short) => place(&short),
            None => Ok(Place::default()),
        };
        let of_url = match (&code, &domain) {
            // Both parts are known without the URL.
            (Some(_), Some(_)) => of_url.unwrap_or_default(),
            _ => of_url?,
        };
        let of_url_domain = of_url.domain.filter(|_| !rules.omits_default_domain);
        let own = Place {
            domain: domain.or(of_url_domain),
            // A plugin of YOURLS, and paths of Short.io, have slashes around it.
            code: code
                .map(|code| code.trim_matches('/').to_owned())
                .or(of_url.code),
        };
        let mut places = Vec::new();
        if own.code.is_some() || !rules.names_codes {
            places.push(own);
        }
        if let Some(field) = self.get(Meaning::ShortUrls) {
            let others = field.value.as_array().map_or(&[][..], Vec::as_slice);
            if others.len() > MAX_PLACES {
                let (name, found) = (&field.name, others.len());
                return Err(format!("{name} are {found}, and may be {MAX_PLACES}"));
            }
            let one = field.value.as_str().into_iter();
            for other in others.iter().filter_map(Value::as_str).chain(one) {
                let other = place(other.trim())?;
                if !places.contains(&other) {
                    places.push(other);
                }
            }
        }
        if places.is_empty() {
            return Err("has no short code".to_owned());
        }
        let is_root = |place: &Place| rules.root.is_some() && place.code.as_deref() == rules.root;
        if places.iter().any(is_root) {
            return Err("is the root of its domain: set rootUrl of the domain".to_owned());
        }
        Ok(places)
    }

    fn item(&self, place: Place) -> Result<Item, String> {
        let mut item = Item::default();
        let target = self.text(Meaning::Target);
        item.set("longUrl", target.ok_or("has no long URL")?);
        item.set_some("customSlug", place.code);
        item.set_some("domain", place.domain);
        self.describe(&mut item);
        item.set_some("tags", self.tags());
        let visits = self.add_history(&mut item);
        self.limit(&mut item, visits)?;
        item.set_some("validSince", self.time(Meaning::ValidSince)?);
        item.set_some("validUntil", self.time(Meaning::ValidUntil)?);
        self.add_state(&mut item)?;
        self.add_others(&mut item)?;
        self.add_rules(&mut item)?;
        Ok(item)
    }

    /// Sets title and notes. A title that is too long is whole in the notes.
    fn describe(&self, item: &mut Item) {
        let mut notes: Vec<String> = self.all(Meaning::Notes).map(RowField::text).collect();
        let description = self.text(Meaning::Description);
        let title = match self.text(Meaning::Title) {
            Some(title) => {
                notes.extend(description);
                Some(title)
            }
            None => description,
        };
        if let Some(title) = title {
            let letters = title.chars();
            let line: String = letters
                .map(|letter| if letter.is_control() { ' ' } else { letter })
                .collect();
            let short = cut(&line, MAX_TITLE_LENGTH).to_owned();
            if short.len() < line.len() {
                item.notes.push(format!(
                    "the title is cut to {MAX_TITLE_LENGTH} characters, and whole in the notes"
                ));
                notes.insert(0, line);
            }
            item.set("title", short);
        }
        let notes = notes.join("\n\n");
        if !notes.is_empty() {
            let short = cut(&notes, MAX_NOTES_LENGTH).to_owned();
            if short.len() < notes.len() {
                item.notes.push(format!(
                    "the notes are cut to {MAX_NOTES_LENGTH} characters"
                ));
            }
            item.set("notes", short);
        }
    }

    /// The tags: a list of texts or of objects with a name, or a text separated by `|` or else by commas.
    fn tags(&self) -> Option<Vec<String>> {
        let field = self.get(Meaning::Tags)?;
        let tags: Vec<String> = match field.value {
            Value::Array(tags) => {
                let name = |tag: &Value| {
                    let tag = tag.get("name").or(tag.get("tag")).unwrap_or(tag);
                    tag.as_str().map(str::to_owned)
                };
                tags.iter().filter_map(name).collect()
            }
            _ => {
                let text = field.text();
                let separator = if text.contains('|') { '|' } else { ',' };
                text.split(separator).map(str::to_owned).collect()
            }
        };
        let mut kept: Vec<String> = Vec::new();
        for tag in tags.iter().map(|tag| tag.trim()) {
            if !tag.is_empty() && !kept.iter().any(|other| other == tag) {
                kept.push(tag.to_owned());
            }
        }
        Some(kept)
    }

    /// Sets when the link was created and how often it was visited, and returns the latter. What cannot be read of it is left
    /// out, with a note: it is only shown.
    fn add_history(&self, item: &mut Item) -> u64 {
        let visits = self.get(Meaning::Visits).map(|field| {
            let text = field.text();
            whole_number(&text).ok_or_else(|| format!("{} is not kept: {text}", field.name))
        });
        let visits = visits.transpose();
        let count = visits.as_ref().ok().copied().flatten();
        if self.reading.is_without_history {
            return count.unwrap_or(0);
        }
        match visits {
            Ok(visits) => item.set_some("importedVisits", visits),
            Err(note) => item.notes.push(note),
        }
        if let Some(field) = self.get(Meaning::CreatedAt) {
            let text = field.text();
            match times::parsed(&text) {
                // The link is created with the import then, which is meant to be no later.
                Some(time) if time > self.reading.now => item
                    .notes
                    .push(format!("{} is ahead of now: {text}", field.name)),
                Some(time) => item.set_some("createdAt", times::shown(time)),
                None if times::is_none(&text) => {}
                None => item
                    .notes
                    .push(format!("{} is not kept: {text}", field.name)),
            }
        }
        count.unwrap_or(0)
    }

    fn time(&self, meaning: Meaning) -> Result<Option<String>, String> {
        let Some(field) = self.get(meaning) else {
            return Ok(None);
        };
        let text = field.text();
        if times::is_none(&text) {
            return Ok(None);
        }
        let time = times::parsed(&text).and_then(times::shown);
        let time = time.ok_or_else(|| format!("{} is no time: {text}", field.name));
        time.map(Some)
    }

    /// Sets the remaining uses of a limited link, of which some are used already. 0 stands for no limit.
    fn limit(&self, item: &mut Item, used: u64) -> Result<(), String> {
        let Some(field) = self.get(Meaning::MaxVisits) else {
            return Ok(());
        };
        let most = field.number()?;
        if most == 0 {
            return Ok(());
        }
        match most.checked_sub(used).filter(|left| *left > 0) {
            Some(left) => {
                item.set("maxVisits", left);
                if used > 0 {
                    let note = format!("{left} of {most} visits are left, which are its limit now");
                    item.notes.push(note);
                }
            }
            None => item.disable(format!(
                "its limit of {most} visits is used up, so it is disabled"
            )),
        }
        Ok(())
    }

    /// Disables or archives the link as it was there, and sets its password. A link whose password is not in the file is disabled
    /// too: without one it would be open to everyone.
    fn add_state(&self, item: &mut Item) -> Result<(), String> {
        for field in self.all(Meaning::State) {
            match field.state() {
                Some(SourceState::Active) => {}
                Some(SourceState::Archived) => item.set("archived", true),
                Some(SourceState::Disabled) => item.set("state", "disabled"),
                None => {
                    let (name, text) = (&field.name, field.text());
                    return Err(format!("{name} is not understood: {text}"));
                }
            }
        }
        for field in self.all(Meaning::Disabled) {
            if field.flag()? {
                item.set("state", "disabled");
            }
        }
        for field in self.all(Meaning::Archived) {
            if field.flag()? {
                item.set("archived", true);
            }
        }
        if self.get(Meaning::DisabledSince).is_some() {
            item.set("state", "disabled");
        }
        if let Some(password) = self.text(Meaning::PlainPassword) {
            item.set("password", password);
            return Ok(());
        }
        let mut passwords = self.all(Meaning::Password);
        if passwords.any(|field| flag(&field.text()).unwrap_or(true)) {
            let note = "its password is not kept, so it is disabled: set one, and enable it";
            item.disable(note.to_owned());
        }
        Ok(())
    }

    /// Sets the fields that are here what they were there.
    fn add_others(&self, item: &mut Item) -> Result<(), String> {
        if let Some(forwards) = self.reading.rules.forwards_query {
            item.set("forwardQuery", forwards);
        }
        // The first of several fields with one meaning is the last one to be set.
        for field in self.list.iter().rev().filter(|field| !field.is_empty()) {
            match field.meaning {
                Some(Meaning::Text(name)) => item.set(name, field.text()),
                Some(Meaning::Flag(name)) => item.set(name, field.flag()?),
                Some(Meaning::NotFlag(name)) => item.set(name, !field.flag()?),
                Some(Meaning::Number(name)) => item.set(name, field.number()?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets rules: its own, and targets by system and by country.
    fn add_rules(&self, item: &mut Item) -> Result<(), String> {
        let mut rules = Vec::new();
        if let Some(field) = self.get(Meaning::Rules) {
            let own = match field.value {
                // As text in a column.
                Value::String(text) => serde_json::from_str(text).ok(),
                other => Some(other.clone()),
            };
            match own {
                Some(Value::Array(own)) => rules.extend(own),
                _ => return Err(format!("{} are not a list of rules", field.name)),
            }
        }
        let rule = |kind: &str, value: &str, target: &str| {
            json!({
                "longUrl": target,
                "conditions": [{ "type": kind, "matchKey": null, "matchValue": value }],
            })
        };
        for field in self.list.iter().filter(|field| !field.is_empty()) {
            match (field.meaning, field.value) {
                (Some(Meaning::TargetOn(system)), _) => {
                    rules.push(rule("device", system, &field.text()));
                }
                (Some(Meaning::TargetsByCountry), Value::Object(targets)) => {
                    let targets = targets.iter();
                    let targets = targets.filter_map(|(country, target)| {
                        Some(rule("geolocation-country-code", country, target.as_str()?))
                    });
                    rules.extend(targets);
                }
                (Some(Meaning::TargetsByCountry), _) => {
                    return Err(format!("{} are not targets by country", field.name));
                }
                _ => {}
            }
        }
        if !rules.is_empty() {
            item.set("redirectRules", rules);
        }
        Ok(())
    }
}

impl Item {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }

    fn set_some(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn disable(&mut self, note: String) {
        self.set("state", "disabled");
        self.notes.push(note);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        // Databases write `NULL` or `\N` into CSV for no value.
        Value::String(text) => matches!(text.trim(), "" | "NULL" | "\\N"),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Some(true),
        "false" | "f" | "0" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

/// A number without a fraction, which spreadsheets write with one.
fn whole_number(text: &str) -> Option<u64> {
    let digits = text
        .split_once('.')
        .map_or(Some(text), |(whole, fraction)| {
            let is_none = fraction.bytes().all(|digit| digit == b'0');
            is_none.then_some(whole)
        });
    digits?.parse().ok()
}

/// Parses domain and code of a short URL, which may lack its scheme. What has no slash is a code.
fn place(short: &str) -> Result<Place, String> {
    if !short.contains('/') {
        return Ok(Place {
            domain: None,
            code: Some(short.to_owned()),
        });
    }
    let wrong = || format!("{short} is not a short URL");
    let absolute = if short.contains("://") {
        short.to_owned()
    } else {
        format!("https://{short}")
    };
    let url = Url::parse(&absolute).map_err(|_| wrong())?;
    let host = url.host_str().ok_or_else(wrong)?;
    let port = url.port().map(|port| format!(":{port}"));
    let code = url.path().trim_start_matches('/');
    let code = percent_encoding::percent_decode_str(code)
        .decode_utf8()
        .map_err(|_| wrong())?;
    if code.is_empty() {
        return Err(wrong());
    }
    Ok(Place {
        domain: Some(format!("{host}{}", port.unwrap_or_default())),
        code: Some(code.into_owned()),
    })
}
