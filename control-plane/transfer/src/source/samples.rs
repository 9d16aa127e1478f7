//! Files of all systems, as their documents and sources have them: recognised, read, and what of them is lost.

use super::*;
use serde_json::json;
use std::io::Write;

/// 2026-11-29.
const BEGAN: u64 = 1_796_000_000;

/// What is read of a file.
#[derive(Debug, PartialEq)]
struct Contents {
    format: Format,
    items: Vec<Value>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn read_as(bytes: &[u8], mapping: &Mapping) -> Result<Contents, SourceProblem> {
    let file = written(bytes);
    let (source, survey) = LinkFile::survey(file.path(), mapping)?;
    let mut records = source.records(0).unwrap();
    let (mut items, mut notes) = (Vec::new(), Vec::new());
    while let Some(record) = records.next().unwrap() {
        for item in source.items(&record, BEGAN) {
            match item {
                Ok(item) => {
                    items.push(Value::Object(item.fields));
                    notes.extend(item.notes);
                }
                Err(reason) => notes.push(format!("refused: {reason}")),
            }
        }
    }
    Ok(Contents {
        format: survey.format,
        items,
        notes,
        warnings: survey.warnings().collect(),
    })
}

fn read(text: &str) -> Contents {
    read_as(text.as_bytes(), &Mapping::default()).unwrap()
}

/// Of a file of the format, these items, and nothing is lost.
fn assert_whole(format: Format, text: &str, items: &Value) {
    let expected = Contents {
        format,
        items: items.as_array().unwrap().clone(),
        notes: Vec::new(),
        warnings: Vec::new(),
    };
    assert_eq!(read(text), expected, "{text}");
}

#[test]
fn shlink_file_when_of_its_web_client_or_api_is_whole() {
    assert_whole(
        Format::ShlinkCsv,
        "\"createdAt\",\"domain\",\"shortCode\",\"shortUrl\",\"longUrl\",\"title\",\"tags\",\"visits\"\n\
         \"2016-08-21T20:34:16+02:00\",\"s.test\",\"12C18\",\"https://s.test/12C18\",\"https://store.example/\",\"Welcome\",\"games|tech\",328\n",
        &json!([{
            "longUrl": "https://store.example/", "customSlug": "12C18", "domain": "s.test", "title": "Welcome",
            "tags": ["games", "tech"], "importedVisits": 328, "createdAt": "2016-08-21T20:34:16+02:00",
        }]),
    );
    assert_whole(
        Format::ShlinkCsv,
        "Long URL,Tags,Domain,Short code,Title\nhttps://shlink.example/,foo|bar,s.test,123,\n",
        &json!([{
            "longUrl": "https://shlink.example/", "customSlug": "123", "domain": "s.test", "tags": ["foo", "bar"],
        }]),
    );
    assert_whole(
        Format::ShlinkApi,
        r#"{"shortUrls":{"data":[{"shortUrl":"https://s.test/12C18","shortCode":"12C18","longUrl":"https://store.example/",
           "dateCreated":"2016-08-21T20:34:16+02:00","tags":["games"],"meta":{"validSince":"2017-01-21T00:00:00+02:00",
           "validUntil":null,"maxVisits":1000},"domain":null,"title":"Welcome","crawlable":true,"forwardQuery":false,
           "visitsSummary":{"total":0,"nonBots":0,"bots":0},"hasRedirectRules":false,
           "deviceLongUrls":{"android":null,"ios":"https://apps.example/","desktop":null}}],"pagination":{"currentPage":1}}}"#,
        &json!([{
            "longUrl": "https://store.example/", "customSlug": "12C18", "title": "Welcome", "tags": ["games"],
            "importedVisits": 0, "createdAt": "2016-08-21T20:34:16+02:00", "maxVisits": 1000, "crawlable": true,
            "validSince": "2017-01-21T00:00:00+02:00", "forwardQuery": false,
            "redirectRules": [{ "longUrl": "https://apps.example/", "conditions": [
                { "type": "device", "matchKey": null, "matchValue": "ios" },
            ] }],
        }]),
    );
}

#[test]
fn rules_when_a_file_of_shlink_names_but_lacks_them_are_lost() {
    let found = read(
        r#"[{"shortCode":"a","longUrl":"https://e.example/","dateCreated":"2016-08-21T20:34:16Z","meta":{},"hasRedirectRules":true}]"#,
    );
    assert_eq!(found.warnings, ["hasRedirectRules is not kept of 1 links"]);
}

#[test]
fn file_when_of_yourls_is_whole() {
    let link = |created_at: Option<&str>| {
        let mut link = json!({ "longUrl": "https://ozh.example/", "customSlug": "ozh", "importedVisits": 12, "forwardQuery": false });
        if let Some(created_at) = created_at {
            link["createdAt"] = json!(created_at);
            link["title"] = json!("ozh.org");
        }
        json!([link])
    };
    let created = Some("2024-01-15T10:00:00Z");
    let columns = "keyword,url,title,timestamp,ip,clicks\n";
    let row = "\"ozh\",\"https://ozh.example/\",\"ozh.org\",\"2024-01-15 10:00:00\",\"127.0.0.1\",\"12\"\n";
    assert_whole(Format::Yourls, &format!("{columns}{row}"), &link(created));
    assert_whole(Format::Yourls, row, &link(created));
    assert_whole(
        Format::Yourls,
        "source,target,hits\r\n/ozh/,https://ozh.example/,12\r\n",
        &link(None),
    );
    let dump = "INSERT INTO `yourls_url` (`keyword`, `url`, `title`, `timestamp`, `ip`, `clicks`) VALUES\n\
        ('ozh', 'https://ozh.example/', 'ozh.org', '2024-01-15 10:00:00', '127.0.0.1', 12);\n";
    assert_whole(Format::Yourls, dump, &link(created));
    let found = read_as(format!("\u{feff}{dump}").as_bytes(), &Mapping::default()).unwrap();
    assert_eq!(found.items.len(), 1, "the mark is no part of the statement");
    let answer = r#"{"links":{"link_1":{"shorturl":"https://sho.test/ozh","url":"https://ozh.example/","title":"ozh.org",
        "timestamp":"2024-01-15 10:00:00","ip":"127.0.0.1","clicks":"12"}},"stats":{"total_links":"1"},"statusCode":200}"#;
    let mut expected = link(created);
    expected[0]["domain"] = json!("sho.test");
    assert_whole(Format::Yourls, answer, &expected);
}

#[test]
fn file_when_of_kutt_is_whole() {
    assert_whole(
        Format::Kutt,
        r#"{"total":1,"limit":10,"skip":0,"data":[{"address":"abc123","banned":true,"created_at":"2024-01-15T10:00:00.000Z",
           "id":"b39d1f2f","updated_at":"2024-01-15T10:00:00.000Z","password":false,"description":"D","expire_in":null,
           "target":"https://example.com/","visit_count":3,"domain":null,"link":"https://kutt.test/abc123",
           "utm_source":"news","utm_medium":null}]}"#,
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "abc123", "title": "D", "importedVisits": 3, "state": "disabled",
            "createdAt": "2024-01-15T10:00:00Z", "forwardQuery": false, "utmSource": "news",
        }]),
    );
}

#[test]
fn link_of_bitly_when_it_has_own_back_halves_keeps_all_its_codes() {
    let link = |code: &str, domain: &str| {
        json!({
            "longUrl": "https://example.com/", "customSlug": code, "domain": domain, "title": "Example", "tags": ["a", "b"],
            "createdAt": "2022-02-02T15:53:02Z", "forwardQuery": false,
        })
    };
    let links = json!([
        link("3abcDEF", "bit.ly"),
        link("my-name", "bit.ly"),
        link("sale", "go.example")
    ]);
    assert_whole(
        Format::Bitly,
        r#"{"links":[{"references":{"group":"https://api.example/"},"link":"https://bit.ly/3abcDEF","id":"bit.ly/3abcDEF",
           "long_url":"https://example.com/","title":"Example","archived":false,"created_at":"2022-02-02T15:53:02+0000",
           "created_by":"user","client_id":"x","custom_bitlinks":["https://bit.ly/my-name","https://go.example/sale"],
           "tags":["a","b"],"launchpad_ids":[],"campaign_ids":[],"deeplinks":[],"is_deleted":false}],
           "pagination":{"prev":"","next":"","size":50,"page":1,"total":1}}"#,
        &links,
    );
    assert_whole(
        Format::Bitly,
        "Link,Custom Link,Destination URL,Title,Tags,Created at\n\
         https://bit.ly/3abcDEF,https://bit.ly/my-name,https://example.com/,Example,\"a,b\",2022-02-02T15:53:02+0000\n",
        &json!([links[0], links[1]]),
    );
}

#[test]
fn file_when_of_dub_keeps_its_targeting_and_names_what_is_lost() {
    let found = read(
        r#"[{"id":"link_1","domain":"dub.example","key":"try","url":"https://app.example/","trackConversion":true,"externalId":"e1",
           "archived":false,"expiresAt":"2030-01-01T00:00:00.000Z","expiredUrl":"https://app.example/over","password":"geheim",
           "proxy":true,"title":"T","description":"D","image":null,"video":null,"rewrite":false,"doIndex":false,
           "ios":"https://apps.example/","android":null,"geo":{"DE":"https://app.example/de"},"publicStats":false,
           "tags":[{"id":"tag_1","name":"news","color":"red"}],"folderId":"fold_1","comments":"C","shortLink":"https://dub.example/try",
           "utm_source":"news","clicks":42,"leads":0,"sales":0,"saleAmount":0,"createdAt":"2024-01-15T10:00:00.000Z"},
          {"domain":"dub.example","key":"_root","url":"https://app.example/","shortLink":"https://dub.example"},
          {"domain":"dub.example","key":"off","url":"https://app.example/","shortLink":"https://dub.example/off",
           "disabledAt":"2024-01-15T10:00:00.000Z"}]"#,
    );
    let rule = |kind: &str, value: &str, target: &str| json!({ "longUrl": target, "conditions": [{ "type": kind, "matchKey": null, "matchValue": value }] });
    let expected = json!([
        {
            "longUrl": "https://app.example/", "customSlug": "try", "domain": "dub.example", "title": "T", "notes": "C\n\nD",
            "tags": ["news"], "importedVisits": 42, "createdAt": "2024-01-15T10:00:00Z", "externalId": "e1",
            "validUntil": "2030-01-01T00:00:00Z", "expiredUrl": "https://app.example/over", "password": "geheim",
            "utmSource": "news", "trackConversions": true, "crawlable": false,
            "redirectRules": [
                rule("device", "ios", "https://apps.example/"),
                rule("geolocation-country-code", "DE", "https://app.example/de"),
            ],
        },
        { "longUrl": "https://app.example/", "customSlug": "off", "domain": "dub.example", "state": "disabled" },
    ]);
    assert_eq!(Value::from(found.items), expected);
    assert_eq!(
        found.notes,
        ["refused: is the root of its domain: set rootUrl of the domain"]
    );
    let mut lost = found.warnings;
    lost.sort();
    assert_eq!(
        lost,
        [
            "folderId is not kept of 1 links",
            "proxy is not kept of 1 links"
        ]
    );
    assert_whole(
        Format::Dub,
        "Short link,Destination URL,Clicks,Created at,Tags\n\
         https://dub.example/try,https://app.example/,42,2024-01-15T10:00:00.000Z,\"news, product\"\n",
        &json!([{
            "longUrl": "https://app.example/", "customSlug": "try", "domain": "dub.example", "importedVisits": 42,
            "createdAt": "2024-01-15T10:00:00Z", "tags": ["news", "product"],
        }]),
    );
}

#[test]
fn file_when_of_other_systems_is_whole() {
    assert_whole(
        Format::Sink,
        r#"{"version":"1.0","exportedAt":"2025-01-15T10:00:00.000Z","count":1,"links":[{"id":"abc123xyz0","url":"https://example.com/",
           "slug":"my-link","comment":"note","createdAt":1736935200,"updatedAt":1736935200,"expiration":1767225599,
           "apple":"https://apps.example/","redirectWithQuery":true,"tags":["a"]}]}"#,
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "my-link", "notes": "note", "createdAt": "2025-01-15T10:00:00Z",
            "validUntil": "2025-12-31T23:59:59Z", "tags": ["a"], "forwardQuery": true,
            "redirectRules": [{ "longUrl": "https://apps.example/", "conditions": [
                { "type": "device", "matchKey": null, "matchValue": "ios" },
            ] }],
        }]),
    );
    let chhoto = json!([{
        "longUrl": "https://example.com/", "customSlug": "admiring-turing", "importedVisits": 3, "forwardQuery": false,
    }]);
    assert_whole(
        Format::ChhotoUrl,
        r#"[{"shortlink":"admiring-turing","longlink":"https://example.com/","hits":3,"expiry_time":0,"notes":""}]"#,
        &chhoto,
    );
    assert_whole(
        Format::ChhotoUrl,
        "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE urls (id INTEGER PRIMARY KEY, short_url TEXT NOT NULL, long_url TEXT NOT NULL,\
         hits INTEGER NOT NULL, expiry_time INTEGER NOT NULL DEFAULT 0, notes TEXT);\n\
         INSERT INTO urls VALUES(1,'admiring-turing','https://example.com/',3,0,'');\nCOMMIT;\n",
        &chhoto,
    );
    assert_whole(
        Format::Rebrandly,
        r#"[{"id":"8f10","title":"Example","slashtag":"burn10M","destination":"https://example.com/","shortUrl":"rebrand.test/burn10M",
           "domain":{"id":"8f10","ref":"/domains/8f10","fullName":"rebrand.test"},"createdAt":"2016-07-13T10:54:12.000Z",
           "updatedAt":"2016-07-13T10:54:12.000Z","status":"active","clicks":7,"forwardParameters":false,"https":false,"favourite":false}]"#,
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "burn10M", "domain": "rebrand.test", "title": "Example",
            "importedVisits": 7, "createdAt": "2016-07-13T10:54:12Z", "forwardQuery": false,
        }]),
    );
    assert_whole(
        Format::ShortIo,
        r#"{"count":1,"links":[{"idString":"lnk_abc","id":"lnk_abc","path":"RYydyQ","lcpath":"ryydyq","originalURL":"https://example.com/",
           "shortURL":"https://x.test/RYydyQ","secureShortURL":"https://x.test/RYydyQ","title":"Example","tags":["a"],
           "createdAt":"2024-01-15T10:00:00.000Z","updatedAt":"2024-01-15T10:00:00.000Z","expiresAt":1893456000000,"expiredURL":null,
           "clicksLimit":null,"archived":false,"cloaking":false,"skipQS":true,"iphoneURL":null,"redirectType":308,"DomainId":1,
           "OwnerId":1,"FolderId":null,"hasPassword":false,"source":"website"}],"nextPageToken":null}"#,
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "RYydyQ", "domain": "x.test", "title": "Example", "tags": ["a"],
            "createdAt": "2024-01-15T10:00:00Z", "validUntil": "2030-01-01T00:00:00Z", "forwardQuery": false, "redirectStatus": 308,
        }]),
    );
    assert_whole(
        Format::TinyUrl,
        r#"{"data":[{"domain":"tinyurl.test","alias":"example-alias","deleted":false,"archived":true,"tags":["tag1"],
           "analytics":{"enabled":true,"public":false},"tiny_url":"https://tinyurl.test/example-alias",
           "created_at":"2022-11-24T19:41:23+00:00","expires_at":null,"url":"https://example.com/"}],"code":0,"errors":[]}"#,
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "example-alias", "domain": "tinyurl.test", "tags": ["tag1"],
            "createdAt": "2022-11-24T19:41:23Z", "archived": true,
        }]),
    );
    assert_whole(
        Format::Polr,
        "\"id\",\"short_url\",\"long_url\",\"ip\",\"creator\",\"clicks\",\"secret_key\",\"is_disabled\",\"is_custom\",\"created_at\",\
         \"updated_at\",\"long_url_hash\",\"is_api\"\n\
         \"1\",\"abc\",\"https://example.com/\",\"127.0.0.1\",\"admin\",\"3\",\"\",\"1\",\"1\",\"2017-01-15 10:00:00\",\
         \"2017-01-15 10:00:00\",\"a1b2c3d4\",\"0\"\n",
        &json!([{
            "longUrl": "https://example.com/", "customSlug": "abc", "importedVisits": 3, "createdAt": "2017-01-15T10:00:00Z",
            "state": "disabled", "forwardQuery": false,
        }]),
    );
    assert_whole(
        Format::TinyCc,
        "\"url\";\"short_id\";\"note\"\n\"https://example.com/doodles\";\"37s\";\"Funny stuff\"\n",
        &json!([{ "longUrl": "https://example.com/doodles", "customSlug": "37s", "notes": "Funny stuff" }]),
    );
    assert_whole(
        Format::TinyCc,
        r#"{"error":{"code":0,"message":""},"urls":[{"hash":"h","long_url":"https://example.com","short_url":"m.tiny.test/h",
           "total_clicks":0,"unique_clicks":0,"last_visit":null,"email_stats":false,"protected":false,"ping":false,"archived":false,
           "note":"","expiration_date":null,"max_clicks":0,"tags":[],"links":{"qr_small":"x","qr_big":"x"}}],"page":{"results_count":1}}"#,
        &json!([{ "longUrl": "https://example.com", "customSlug": "h", "domain": "m.tiny.test", "importedVisits": 0 }]),
    );
    assert_whole(
        Format::Linkly,
        r#"{"links":[{"id":1,"name":"Example","url":"https://example.com","full_url":"https://linkly.test/2etNS","domain":"linkly.test",
           "slug":"/2etNS","clicks_today":0,"clicks_thirty_days":5,"clicks_total":100,"sparkline":[],"enabled":false,"deleted":false}],
           "page_number":1}"#,
        &json!([{
            "longUrl": "https://example.com", "customSlug": "2etNS", "domain": "linkly.test", "title": "Example",
            "importedVisits": 100, "state": "disabled", "forwardQuery": false,
        }]),
    );
    assert_whole(
        Format::Edgelink,
        "https://example.com/1\nhttps://example.com/2\n",
        &json!([{ "longUrl": "https://example.com/1" }, { "longUrl": "https://example.com/2" }]),
    );
}

#[test]
fn column_when_not_understood_is_named_once_with_its_count() {
    let text = "shortCode,longUrl,state,redirectStatus,externalId,expiration,colour\n\
        a,https://example.com/c,disabled,301,ext-7,2020-01-01T00:00:00Z,red\n\
        b,https://example.com/d,frozen,,,,\n\
        c,https://example.com/e,active,,,,blue\n";
    let found = read(text);
    let expected = json!([
        {
            "longUrl": "https://example.com/c", "customSlug": "a", "state": "disabled", "redirectStatus": 301,
            "externalId": "ext-7", "validUntil": "2020-01-01T00:00:00Z",
        },
        { "longUrl": "https://example.com/e", "customSlug": "c" },
    ]);
    assert_eq!(Value::from(found.items), expected);
    assert_eq!(found.notes, ["refused: state is not understood: frozen"]);
    let lost = [
        "colour is not understood, and not kept, of 2 links",
        "state is not understood: frozen; 1 links are refused",
    ];
    assert_eq!(found.warnings, lost);
    let mut mapping = Mapping::default();
    mapping.columns.add("Colour=notes").unwrap();
    mapping.columns.add("state=-").unwrap();
    let found = read_as(text.as_bytes(), &mapping).unwrap();
    assert_eq!(found.items[0]["notes"], "red");
    assert_eq!(found.items.len(), 3);
    assert!(found.warnings.is_empty(), "{found:?}");
}

#[test]
fn file_when_no_column_has_the_codes_is_refused() {
    let text = "url,short_name\nhttps://example.com/1,abc\n";
    let problem = read_as(text.as_bytes(), &Mapping::default()).unwrap_err();
    assert!(
        matches!(&problem, SourceProblem::NoCodes(columns) if columns == &["short_name"]),
        "{problem}"
    );
    let mapped = |column: &str| {
        let mut mapping = Mapping::default();
        mapping.columns.add(column).unwrap();
        read_as(text.as_bytes(), &mapping).unwrap()
    };
    assert_eq!(
        mapped("short_name=customSlug").items[0]["customSlug"],
        "abc"
    );
    let new = mapped("short_name=-");
    assert_eq!(new.items, [json!({ "longUrl": "https://example.com/1" })]);
    assert_eq!(new.warnings, ["1 links have no code, and get new ones"]);
}

#[test]
fn file_when_of_another_format_is_refused_with_a_guess() {
    let kutt = r#"[{"address":"a","target":"https://e.example/","visit_count":1}]"#;
    let refused = |text: &str, format: Option<Format>| {
        let mapping = Mapping {
            format,
            ..Mapping::default()
        };
        read_as(text.as_bytes(), &mapping).unwrap_err().to_string()
    };
    let reason = refused("short,long\na,b\n", None);
    assert!(reason.contains("not recognised"), "{reason}");
    let reason = refused(
        "keyword,url\na,https://e.example/\n",
        Some(Format::Edgelink),
    );
    assert!(reason.contains("it looks like yourls"), "{reason}");
    let reason = refused("keyword,url\na,https://e.example/\n", Some(Format::Kutt));
    assert!(reason.contains("it looks like yourls"), "{reason}");
    let reason = refused("a,b\n1,2\n", Some(Format::Kutt));
    assert_eq!(reason, "it is not of the format kutt");
    for text in ["", "\n\n", "longUrl,shortCode\n", "longUrl,shortCode\n,\n"] {
        assert_eq!(
            refused(text, Some(Format::Csv)),
            "there is no link in it",
            "{text:?}"
        );
    }
    assert_eq!(read(kutt).format, Format::Kutt);
    let reason = refused("[{\"address\":\"a\"", Some(Format::Kutt));
    assert!(reason.starts_with("it is malformed: "), "{reason}");
    let reason = refused("{", None);
    assert!(reason.contains("not recognised"), "{reason}");
}

#[test]
fn history_when_unreadable_or_ahead_is_left_out_with_a_note() {
    let text = "shortCode,longUrl,createdAt,clicks\n\
        a,https://example.com/0,3/14/2024 9:15,1\n\
        b,https://example.com/1,,12.0\n\
        c,https://example.com/2,2027-01-01 00:00:00,many\n\
        d,https://example.com/3,0000-00-00 00:00:00,\\N\n";
    let found = read(text);
    let visits: Vec<&Value> = found
        .items
        .iter()
        .map(|item| &item["importedVisits"])
        .collect();
    assert_eq!(visits, [&json!(1), &json!(12), &Value::Null, &Value::Null]);
    assert!(found.items.iter().all(|item| item["createdAt"].is_null()));
    let notes = [
        "createdAt is not kept: 3/14/2024 9:15",
        "clicks is not kept: many",
        "createdAt is ahead of now: 2027-01-01 00:00:00",
    ];
    assert_eq!(found.notes, notes);
    let without = Mapping {
        is_without_history: true,
        ..Mapping::default()
    };
    let found = read_as(text.as_bytes(), &without).unwrap();
    assert!(found.notes.is_empty(), "{found:?}");
}

#[test]
fn file_when_in_another_encoding_is_read() {
    let text = "keyword,url,title\na,https://example.com/,Übersicht\n";
    let utf_16: Vec<u8> = format!("\u{feff}{text}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let latin: Vec<u8> = text
        .chars()
        .map(|letter| u8::try_from(u32::from(letter)).unwrap())
        .collect();
    for bytes in [utf_16, latin, format!("\u{feff}{text}").into_bytes()] {
        let found = read_as(&bytes, &Mapping::default()).unwrap();
        assert_eq!(found.items[0]["title"], "Übersicht");
    }
}
