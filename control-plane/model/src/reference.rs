//! Generated parts of the book, `book/docs/reference/NAME.md`, between `<!-- generated: NAME -->` and `<!-- end -->`. A test for
//! each checks that it is up to date, or writes it if `UPDATE_REFERENCE=1` is set (`make reference`).

use std::path::PathBuf;

/// Fails if the part `name` is not `expected`; writes it instead if `UPDATE_REFERENCE` is set.
pub fn assert_generated(name: &str, expected: &str) {
    let path = folder().join(format!("book/docs/reference/{name}.md"));
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&begin).expect("a marker of its beginning");
    let (part, after) = rest
        .split_once("<!-- end -->")
        .expect("a marker of its end");
    let part = part.trim_matches('\n');
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(
            &path,
            format!("{before}{begin}\n{expected}\n<!-- end -->{after}"),
        )
        .unwrap();
    } else {
        assert_eq!(
            part,
            expected.trim_end(),
            "{}: run `make reference`",
            path.display()
        );
    }
}

/// Fails if the file `name` is not `expected`; writes it instead if `UPDATE_REFERENCE` is set.
pub fn assert_file(name: &str, expected: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        let found = std::fs::read_to_string(&path).unwrap();
        assert_eq!(found, expected, "run `make reference`");
    }
}

/// The folder of the control plane.
fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
