//! The reference of the settings in the book, generated from their declarations.

use crate::settings::written::Written;
use edgelink_wire::settings::{Range, Setting, SettingValue, Value, ValueKind};
use std::fmt::Write;

const BEGIN: &str = "<!-- generated: filter-settings -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn reference_when_generated_equals_the_page_of_the_book() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../control-plane/book/docs/reference/filter-settings.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("a begin");
    let (_, after) = rest.split_once(END).expect("an end");
    let mut table = "\n| field | default | range | what |\n|---|---|---|---|\n".to_owned();
    write_rows(&mut table, "", Written::fields());
    let generated = format!("{before}{BEGIN}{table}\n{END}{after}");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(path, generated).unwrap();
    } else {
        let is_generated = page == generated;
        assert!(
            is_generated,
            "the book is not as the settings are declared: run `make reference`"
        );
    }
}

fn write_rows(table: &mut String, path: &str, settings: Vec<Setting>) {
    for setting in settings {
        let name = format!("{path}{}", setting.name);
        if setting.kind != ValueKind::Section || setting.is_optional {
            let (default, range, doc) = (default(&setting), range(&setting), setting.doc.trim());
            writeln!(table, "| `{name}` | {default} | {range}| {doc} |").unwrap();
        }
        write_rows(table, &format!("{name}."), setting.fields);
    }
}

fn default(setting: &Setting) -> String {
    match &setting.default {
        _ if setting.range == Range::Required => "required".to_owned(),
        _ if setting.kind == ValueKind::Section => "off".to_owned(),
        None => "none".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => other.to_string(),
    }
}

fn range(setting: &Setting) -> String {
    match &setting.range {
        Range::Any | Range::Required => String::new(),
        Range::Numbers(range) => format!("{} to {} ", range.start(), range.end()),
        Range::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ") + " "
        }
        Range::Like(example) => format!("such as `{example}` "),
    }
}
