//! Text of a file: bytes of the encodings that exports come in, as UTF-8.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use encoding_rs_io::{DecodeReaderBytes, DecodeReaderBytesBuilder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Number of bytes that are examined at once.
const PIECE_BYTES: usize = 65_536;

/// The text of a file, without its byte order mark. Bytes of a file in UTF-8 are passed on as they are, so that a record that
/// is not UTF-8 can be refused alone.
#[derive(Debug)]
pub(super) struct DecodedText(BufReader<DecodeReaderBytes<File, Vec<u8>>>);

impl DecodedText {
    /// Opens a file in an encoding.
    pub(super) fn open(path: &Path, encoding: &'static Encoding) -> io::Result<Self> {
        let decoder = DecodeReaderBytesBuilder::new()
            // Named, it would not be passed on, but replaced where it is wrong.
            .encoding((encoding != UTF_8).then_some(encoding))
            .utf8_passthru(true)
            .strip_bom(true)
            .build(File::open(path)?);
        Ok(Self(BufReader::new(decoder)))
    }
}

impl Read for DecodedText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl BufRead for DecodedText {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}

/// Detects the encoding of a file by its byte order mark, or else by its bytes: UTF-16 has a zero byte in each ASCII character,
/// and a file with more wrong than right sequences of UTF-8 is taken for Windows-1252, of which Latin-1 is a part.
pub(super) fn encoding_of(path: &Path) -> io::Result<&'static Encoding> {
    let mut file = File::open(path)?;
    let mut piece = Vec::new();
    let (mut is_first, mut right, mut wrong) = (true, 0_u64, 0_u64);
    loop {
        let read = (&mut file)
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut piece)?;
        if is_first && let Some(encoding) = of_first(&piece) {
            return Ok(encoding);
        }
        is_first = false;
        let mut cut_off = 0;
        let mut end = 0;
        for chunk in piece.utf8_chunks() {
            end += chunk.valid().len() + chunk.invalid().len();
            let wide = chunk.valid().chars().filter(|letter| !letter.is_ascii());
            right += wide.count() as u64;
            match chunk.invalid() {
                [] => {}
                // Its rest may be in the next piece.
                start if end == piece.len() && read > 0 => cut_off = start.len(),
                _ => wrong += 1,
            }
        }
        if read == 0 {
            break;
        }
        piece.drain(..piece.len() - cut_off);
    }
    Ok(if wrong > right { WINDOWS_1252 } else { UTF_8 })
}

/// The encoding that the first bytes of a file show.
fn of_first(head: &[u8]) -> Option<&'static Encoding> {
    if let Some((encoding, _)) = Encoding::for_bom(head) {
        return Some(encoding);
    }
    match head {
        [first, 0, second, 0, ..] if *first != 0 && *second != 0 => Some(UTF_16LE),
        [0, first, 0, second, ..] if *first != 0 && *second != 0 => Some(UTF_16BE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> (&'static str, Vec<u8>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let encoding = encoding_of(file.path()).unwrap();
        let mut text = Vec::new();
        let mut reader = DecodedText::open(file.path(), encoding).unwrap();
        reader.read_to_end(&mut text).unwrap();
        (encoding.name(), text)
    }

    fn utf_16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn file_when_in_any_encoding_becomes_utf_8() {
        let text = "código,\u{1f98a}\n";
        for (name, bytes) in [
            ("UTF-8", text.as_bytes().to_vec()),
            ("UTF-8", format!("\u{feff}{text}").into_bytes()),
            (
                "UTF-16LE",
                utf_16(&format!("\u{feff}{text}"), u16::to_le_bytes),
            ),
            (
                "UTF-16BE",
                utf_16(&format!("\u{feff}{text}"), u16::to_be_bytes),
            ),
            ("UTF-16LE", utf_16(text, u16::to_le_bytes)),
            ("UTF-16BE", utf_16(text, u16::to_be_bytes)),
        ] {
            assert_eq!(read(&bytes), (name, text.as_bytes().to_vec()));
        }
        let latin = read(b"c\xf3digo,\x80");
        assert_eq!(latin, ("windows-1252", "código,€".as_bytes().to_vec()));
        assert_eq!(read(b""), ("UTF-8", Vec::new()));
    }

    #[test]
    fn file_of_utf_8_when_a_part_is_wrong_is_passed_on() {
        let bytes = "é\u{fc}".bytes().chain(*b"\xff\n").collect::<Vec<_>>();
        assert_eq!(read(&bytes), ("UTF-8", bytes));
    }

    #[test]
    fn letter_when_it_lies_on_the_border_of_two_pieces_is_right() {
        for before in PIECE_BYTES - 3..=PIECE_BYTES {
            let text = format!("{}\u{1f98a}", "x".repeat(before));
            assert_eq!(read(text.as_bytes()), ("UTF-8", text.into_bytes()));
        }
    }
}
