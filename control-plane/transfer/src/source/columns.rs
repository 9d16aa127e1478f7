//! Maps the fields of other systems: a record becomes items of an import.
//!
//! Names of fields differ between systems, and between versions of one. So a field is looked up under all its names, of which only
//! letters and digits count, regardless of case.

use super::record::{Format, Item};
use super::times;
use serde_json::{Map, Value};
use std::collections::HashMap;
use url::Url;

/// Names of fields, in the order in which they are looked up.
const LONG_URL: &[&str] = &[
    "longurl",
    "target",
    "destinationurl",
    "destination",
    "originalurl",
    "url",
];
const CODE: &[&str] = &[
    "shortcode",
    "customslug",
    "slug",
    "keyword",
    "address",
    "backhalf",
    "code",
    "source",
];
const SHORT_URL: &[&str] = &[
    "customlink",
    "shorturl",
    "shortlink",
    "link",
    "bitlink",
    "id",
];
const TITLE: &[&str] = &["title", "description"];
const CREATED: &[&str] = &[
    "createdat",
    "datecreated",
    "created",
    "createddate",
    "creationdate",
    "timestamp",
    "date",
];
const VISITS: &[&str] = &[
    "importedvisits",
    "visitssummarytotal",
    "visits",
    "visitscount",
    "visitcount",
    "clicks",
    "hits",
    "engagements",
    "totalengagements",
    "totalclicks",
];
const VALID_SINCE: &[&str] = &["validsince", "metavalidsince"];
const VALID_UNTIL: &[&str] = &["validuntil", "metavaliduntil", "expirein", "expiresat"];
const MAX_VISITS: &[&str] = &["maxvisits", "metamaxvisits"];

/// The most places of a link: each becomes an item with all properties of the link.
pub(in super::super) const MAX_PLACES: usize = 100;

/// Limits of the API, in characters.
const MAX_TITLE: usize = 512;
const MAX_NOTES: usize = 4096;

/// The items of a record: one for each place of the link.
pub(super) fn items(record: &Map<String, Value>, format: Format) -> Vec<Result<Item, String>> {
    let fields = NamedFields::of(record);
    if fields.is_blank() {
        return Vec::new();
    }
    let places = match fields.places(format) {
        Ok(places) => places,
        Err(reason) => return vec![Err(reason)],
    };
    let at = |place| fields.item(format, place);
    places.into_iter().map(at).collect()
}

/// Domain and code of a link; `None` stands for the default domain, or a generated code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    domain: Option<String>,
    code: Option<String>,
}

/// Fields by their normalized names. Fields of nested objects have both names.
struct NamedFields<'r>(HashMap<String, &'r Value>);

impl<'r> NamedFields<'r> {
    fn of(record: &'r Map<String, Value>) -> Self {
        let mut named = HashMap::new();
        for (name, value) in record {
            let name = spelled(name);
            if let Value::Object(inner) = value {
                for (inner, value) in inner {
                    named.insert(format!("{name}{}", spelled(inner)), value);
                }
            }
            named.entry(name).or_insert(value);
        }
        Self(named)
    }

    /// True if all fields are empty.
    fn is_blank(&self) -> bool {
        self.0.values().all(|value| is_empty(value))
    }

    /// The first of these fields that has a value.
    fn get(&self, names: &[&str]) -> Option<&'r Value> {
        let mut values = names.iter().filter_map(|name| self.0.get(*name));
        values.find(|value| !is_empty(value)).copied()
    }

    /// The first of these fields that has a value, as trimmed text.
    fn text(&self, names: &[&str]) -> Option<String> {
        match self.get(names)? {
            Value::String(text) => Some(text.trim().to_owned()),
            other => Some(other.to_string()),
        }
    }

    fn flag(&self, name: &str) -> Option<bool> {
        let text = self.text(&[name])?;
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        }
    }

    fn places(&self, format: Format) -> Result<Vec<Place>, String> {
        if format == Format::Bitly
            && let Some(Value::Array(custom)) = self.get(&["custombitlinks"])
        {
            if custom.len() > MAX_PLACES {
                let found = custom.len();
                return Err(format!(
                    "custom_bitlinks are {found}, and may be {MAX_PLACES}"
                ));
            }
            let custom = custom.iter().filter_map(Value::as_str);
            return custom.map(place).collect();
        }
        let short = self.text(SHORT_URL).filter(|short| short.contains('/'));
        let code = self.text(CODE);
        let of_url = match short {
            Some(short) => place(&short),
            None => Ok(Place::default()),
        };
        let domain = self.text(&["domain"]);
        let of_url = match (&code, &domain) {
            // Both parts are known without the URL.
            (Some(_), Some(_)) => of_url.unwrap_or_default(),
            _ => of_url?,
        };
        // The APIs of Shlink and Kutt omit the domain if it is the default one.
        let is_default = matches!(format, Format::ShlinkApi | Format::Kutt);
        let domain = domain.or_else(|| of_url.domain.filter(|_| !is_default));
        let code = match code {
            // The older plugin of YOURLS has slashes around it.
            Some(code) if format == Format::Yourls => Some(code.trim_matches('/').to_owned()),
            code => code.or(of_url.code),
        };
        if code.is_none() && format != Format::Csv {
            return Err("has no short code".to_owned());
        }
        Ok(vec![Place { domain, code }])
    }

    fn item(&self, format: Format, place: Place) -> Result<Item, String> {
        let mut item = Item::default();
        self.guard(&mut item);
        let target = self.text(LONG_URL);
        item.set("longUrl", target.ok_or("has no long URL")?);
        item.set_some("customSlug", place.code);
        item.set_some("domain", place.domain);
        self.describe(&mut item);
        item.set_some("tags", self.tags());
        item.set_some("createdAt", self.time(CREATED)?);
        let visits = self.visits()?;
        item.set_some("importedVisits", visits);
        self.limit(&mut item, visits.unwrap_or(0))?;
        item.set_some("validSince", self.time(VALID_SINCE)?);
        item.set_some("validUntil", self.time(VALID_UNTIL)?);
        // Shlink forwards the query, as links do here; the others do not.
        let forwards = match format {
            Format::Yourls | Format::Kutt | Format::Bitly => Some(false),
            _ => self.flag("forwardquery"),
        };
        item.set_some("forwardQuery", forwards);
        item.set_some("archived", self.flag("archived").filter(|is| *is));
        item.set_some("redirectRules", self.get(&["redirectrules"]).cloned());
        if self.flag("banned") == Some(true) {
            item.set("state", "disabled");
        }
        Ok(item)
    }

    /// Sets title and notes. A title that is too long is moved to the notes.
    fn describe(&self, item: &mut Item) {
        item.set_some(
            "notes",
            self.text(&["notes", "note"])
                .map(|text| cut(&text, MAX_NOTES)),
        );
        let Some(title) = self.text(TITLE) else {
            return;
        };
        let letters = title.chars();
        let line: String = letters
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let short = cut(&line, MAX_TITLE);
        if short.len() < line.len() {
            item.notes.push(format!(
                "the title is cut to {MAX_TITLE} characters, and whole in the notes"
            ));
            let notes = item.fields.entry("notes");
            notes.or_insert_with(|| cut(&line, MAX_NOTES).into());
        }
        item.set("title", short);
    }

    /// The tags: a list, or a text separated by `|` or else by commas.
    fn tags(&self) -> Option<Vec<String>> {
        let tags: Vec<String> = match self.get(&["tags"])? {
            Value::Array(tags) => tags
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Value::String(text) => {
                let separator = if text.contains('|') { '|' } else { ',' };
                text.split(separator).map(str::to_owned).collect()
            }
            _ => return None,
        };
        let tags = tags.iter().map(|tag| tag.trim().to_owned());
        Some(tags.filter(|tag| !tag.is_empty()).collect())
    }

    fn time(&self, names: &[&str]) -> Result<Option<String>, String> {
        let Some(text) = self.text(names).filter(|text| !times::is_none(text)) else {
            return Ok(None);
        };
        let time = times::normalized(&text);
        time.map(Some)
            .ok_or_else(|| format!("{} is no time: {text}", names[0]))
    }

    fn visits(&self) -> Result<Option<u64>, String> {
        let Some(text) = self.text(VISITS) else {
            return Ok(None);
        };
        let visits = text.parse().map(Some);
        visits.map_err(|_| format!("visits are no number: {text}"))
    }

    /// Sets the remaining uses of a limited link, of which some are used already.
    fn limit(&self, item: &mut Item, used: u64) -> Result<(), String> {
        let Some(text) = self.text(MAX_VISITS) else {
            return Ok(());
        };
        let most: u64 = text
            .parse()
            .map_err(|_| format!("maxvisits is no number: {text}"))?;
        match most.checked_sub(used).filter(|left| *left > 0) {
            Some(left) => {
                item.set("maxVisits", left);
                if used > 0 {
                    let note = format!("{left} of {most} visits are left, which are its limit now");
                    item.notes.push(note);
                }
            }
            None => {
                item.set("state", "disabled");
                let note = format!("its limit of {most} visits is used up, so it is disabled");
                item.notes.push(note);
            }
        }
        Ok(())
    }

    /// Disables a link that had a password, which files do not contain: without one it would be open to everyone.
    fn guard(&self, item: &mut Item) {
        let had_one = |name| {
            let is_there = self.get(&[name]).is_some();
            self.flag(name).unwrap_or(is_there)
        };
        if had_one("password") || had_one("haspassword") {
            item.set("state", "disabled");
            let note = "its password is not kept, so it is disabled: set one, and enable it";
            item.notes.push(note.to_owned());
        }
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
}

/// Normalizes a name to its letters and digits in lower case.
fn spelled(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        // `NULL` is written by phpMyAdmin.
        Value::String(text) => text.trim().is_empty() || text == "NULL",
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Parses domain and code of a short URL, which may lack its scheme.
fn place(short: &str) -> Result<Place, String> {
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

/// The first `most` characters of a text.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
