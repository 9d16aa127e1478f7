//! The memory that reading takes: bounded by the largest record, regardless of the rest of the file.

use super::*;
use edgelink_model::allocations::bytes_of;
use proptest::prelude::*;
use record::MAX_ROW_BYTES;
use std::io::Write;

/// Memory for reading besides records: the head of the file, and buffers.
const BASE: u64 = 512 << 10;

/// Size of a test file: many times the longest record, except for rows, which are truncated at a third of it.
const FILE_BYTES: usize = 3 << 20;

/// Measurements of reading a file.
struct Measured {
    peak: u64,
    /// The bytes of the largest record, up to the limit of its format, or of a rest that is not a record.
    largest: u64,
    records: u64,
}

fn read(format: Format, text: &[u8]) -> Measured {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    let mapping = Mapping {
        format: Some(format),
        encoding: Some(encoding_rs::UTF_8),
        ..Mapping::default()
    };
    let ((largest, records), allocated) = bytes_of(|| {
        let (mut largest, mut end, mut count) = (0, 0, 0);
        let source = LinkFile::of(file.path(), &mapping).unwrap().unwrap();
        let Ok(mut records) = source.records(0) else {
            return (text.len() as u64, 0);
        };
        while let Ok(Some(record)) = records.next() {
            largest = largest.max(record.end - end);
            end = record.end;
            count += 1;
            drop(source.items(&record, 0));
        }
        (largest.max((text.len() as u64).saturating_sub(end)), count)
    });
    Measured {
        peak: u64::try_from(allocated.peak).unwrap(),
        largest: largest.min(longest(format) as u64),
        records,
    }
}

/// The longest record of a format: a line, or a row, as which any other file may be read.
fn longest(format: Format) -> usize {
    match format {
        Format::Edgelink => MAX_LINE_BYTES,
        _ => MAX_ROW_BYTES,
    }
}

/// The most bytes of memory per byte of a record: a number of one digit is a value of 32 bytes in a list that doubles its
/// capacity, and an empty field of a row has an end.
const TIMES: u64 = 64;

fn check(format: Format, text: &[u8]) -> Measured {
    let measured = read(format, text);
    let most = BASE + TIMES * measured.largest;
    let shown = String::from_utf8_lossy(&text[..text.len().min(80)]);
    assert!(
        measured.peak <= most,
        "{format:?} {shown}: {} bytes for records of {}",
        measured.peak,
        measured.largest
    );
    measured
}

/// A text of repeated units, as long as a file, between its begin and its end.
fn file(begin: &str, unit: &str, end: &str) -> Vec<u8> {
    let units = unit.repeat(FILE_BYTES / unit.len().max(1));
    [begin, units.as_str(), end].concat().into_bytes()
}

#[test]
fn file_when_it_repeats_a_unit_takes_bounded_memory() {
    for (format, begin, unit, end) in [
        (Format::Kutt, "[", "0,", "0]"),
        (Format::Kutt, "{\"data\":[", "{\"target\":\"x\"},", "{}]}"),
        (Format::Kutt, "{\"a\":[", "0,", "0]}"),
        (Format::Kutt, "{\"a\":\"", "x", "\"}"),
        (Format::Kutt, "{\"", "x", "\":1}"),
        (Format::Kutt, "", "[", ""),
        (Format::Kutt, "{\"a\":", "{\"a\":", ""),
        (
            Format::ShlinkApi,
            "{\"shortUrls\":{\"a\":[",
            "{},",
            "{}],\"data\":[]}}",
        ),
        (
            Format::Bitly,
            "{\"links\":{",
            "\"a\":{\"b\":[]},",
            "\"c\":1}}",
        ),
        (Format::Yourls, "INSERT INTO url VALUES (", ",", ")"),
        (Format::Yourls, "INSERT INTO url VALUES (", "a ", ")"),
        (Format::Yourls, "INSERT INTO url VALUES (", "'", ")"),
        (Format::Yourls, "INSERT INTO url (", "a,", "b) VALUES ('x')"),
        (
            Format::Yourls,
            "CREATE TABLE url (",
            "a,",
            "b); INSERT INTO url VALUES ('x')",
        ),
        (Format::Yourls, "INSERT INTO ", "a.", "url VALUES ()"),
        (Format::Csv, "", ",", ""),
        (Format::Csv, "longUrl\n\"", "x\n", ""),
        (Format::Csv, "longUrl\n", "x,", "\n"),
        (Format::Edgelink, "", "x", ""),
        (Format::Edgelink, "{\"longUrl\":[", "0,", "0]}"),
    ] {
        check(format, &file(begin, unit, end));
    }
}

#[test]
fn records_when_small_and_many_take_little_memory() {
    for (format, begin, unit, end) in [
        (
            Format::Kutt,
            "[",
            "{\"target\":\"https://e.com/\",\"address\":\"a\"},",
            "{}]",
        ),
        (
            Format::Kutt,
            "",
            "{\"target\":\"https://e.com/\",\"address\":\"a\"}\n",
            "",
        ),
        (
            Format::Yourls,
            "INSERT INTO url VALUES ('','','','','','')",
            ",('a','https://e.com/','','','',0)",
            ";",
        ),
        (Format::Csv, "longUrl,slug\n", "https://e.com/,a\n", ""),
        (Format::Edgelink, "", "https://e.com/\n", ""),
    ] {
        let measured = check(format, &file(begin, unit, end));
        assert!(measured.records as usize >= FILE_BYTES / unit.len());
        assert!(measured.largest < 100, "{format:?}: {}", measured.largest);
    }
}

/// Parts of files of a format, from which hostile ones are built.
fn parts(format: Format) -> &'static [&'static str] {
    const JSON: &[&str] = &[
        "[",
        "]",
        "{",
        "}",
        "\"",
        ",",
        ":",
        "0",
        "\\",
        " ",
        "\"a\":",
        "\"data\":",
        "\"shortUrls\":",
        "\"links\":",
        "{\"a\":1}",
        "null",
    ];
    const SQL: &[&str] = &[
        "INSERT INTO url VALUES ",
        "CREATE TABLE url ",
        "(",
        ")",
        ",",
        "'",
        "`",
        "\"",
        "a",
        "0x61",
        "--",
        "/*",
        "*/",
        ";",
        "\\",
        "\n",
        ".",
        "_x ",
    ];
    const ROWS: &[&str] = &[",", ";", "\t", "\"", "\n", "\r", "a", "longUrl", "\\"];
    match format {
        Format::Edgelink => &["\n", "x", "{", "\"", "[0,", ":", "\r"],
        Format::Yourls | Format::Polr | Format::ChhotoUrl => SQL,
        Format::ShlinkCsv | Format::Csv => ROWS,
        _ => JSON,
    }
}

/// A file of random parts that repeats some of them.
fn hostile() -> impl Strategy<Value = (Format, Vec<u8>)> {
    let formats = proptest::sample::select(Format::ALL.to_vec());
    formats.prop_flat_map(|format| {
        let texts = |count| {
            let part = proptest::sample::select(parts(format));
            proptest::collection::vec(part, count).prop_map(|parts| parts.concat())
        };
        (Just(format), texts(0..8), texts(1..5), texts(0..8))
            .prop_map(|(format, begin, unit, end)| (format, file(&begin, &unit, &end)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn file_when_hostile_takes_memory_of_its_largest_record((format, text) in hostile()) {
        check(format, &text);
    }
}
