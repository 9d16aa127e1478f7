//! Links to request.

use edgelink_simulation::is_target;
use edgelink_tests::scenario::DOMAIN;
use edgelink_tests::stack::root;
use edgelink_wire::{CodeLength, CodeSpace, PermutationKey};
use std::path::{Path, PathBuf};

/// Code key of the control planes of tests.
const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Real targets, assigned to links in turn.
pub(crate) struct Targets(Vec<String>);

impl Targets {
    pub(crate) fn load() -> Self {
        let text = std::fs::read_to_string(Self::path()).expect("the URLs");
        let targets = text.lines().filter(|url| is_target(url));
        Self(targets.map(str::to_owned).collect())
    }

    pub(crate) fn path() -> PathBuf {
        root().join("tests/data/urls-kasztp.txt")
    }

    /// Target of the link at a position.
    pub(crate) fn of(&self, place: usize) -> &str {
        &self.0[place % self.0.len()]
    }

    /// Bytes of key and target of a link.
    pub(crate) fn size(&self, place: usize) -> usize {
        let key = DOMAIN.len() + 1 + usize::from(CodeLength::DEFAULT.get());
        key + self.of(place).len()
    }
}

/// Code of the link at a position, where codes are plain numbers.
pub(crate) fn code(place: usize) -> String {
    code_of(place as u64)
}

/// The code of a number, where codes are plain numbers.
pub(crate) fn code_of(number: u64) -> String {
    mint(&CodeSpace::new(CodeLength::DEFAULT, None), number)
}

/// Codes that no control plane of a test has issued: the ones of the highest numbers.
pub(crate) fn never_issued(count: u64) -> Vec<String> {
    let space = CodeSpace::new(CodeLength::DEFAULT, Some(PermutationKey::new(KEY)));
    let last = CodeLength::DEFAULT.count() - 1;
    (0..count)
        .map(|each| mint(&space, last - each * 1_000))
        .collect()
}

fn mint(space: &CodeSpace, number: u64) -> String {
    let code = space.mint(number).expect("a number of this length");
    code.to_string()
}

/// Writes a file with the paths of codes, one per line.
pub(crate) fn write_paths(
    folder: &Path,
    name: &str,
    codes: impl IntoIterator<Item = String>,
) -> PathBuf {
    let lines: String = codes.into_iter().map(|code| format!("/{code}\n")).collect();
    let path = folder.join(name);
    std::fs::write(&path, lines).expect("a file");
    path
}
