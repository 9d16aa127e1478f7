//! Splits a JSON array that arrives in pieces into its elements, so that a large one is never held as a whole.

use edgelink_service::problem::{Kind, Problem};

/// State of the splitter between two pieces. It only finds the end of an element; a JSON parser checks its content.
#[derive(Debug)]
pub(super) struct Items {
    place: Place,
    element: Vec<u8>,
    depth: u32,
    string: StringState,
    max_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeArray,
    /// After `[`: an element or the end.
    First,
    /// After a comma: an element.
    Next,
    Inside,
    AfterArray,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringState {
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

impl Items {
    /// A splitter for elements of at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            place: Place::BeforeArray,
            element: Vec::new(),
            depth: 0,
            string: StringState::Outside,
            max_bytes,
        }
    }

    /// Reads the next piece, and passes each element that ends in it to `sink`.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for byte in bytes {
            if self.step(*byte)? {
                sink(&self.element)?;
                self.element.clear();
            }
        }
        Ok(())
    }

    /// Checks that the body ends after the array.
    pub(super) fn finish(&self) -> Result<(), Problem> {
        match self.place {
            Place::AfterArray => Ok(()),
            _ => Err(malformed("the body ended before the array did")),
        }
    }

    /// Reads a byte; returns true if an element has ended before it.
    fn step(&mut self, byte: u8) -> Result<bool, Problem> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self.place {
            Place::Inside => return self.step_inside(byte),
            _ if is_space => {}
            Place::BeforeArray if byte == b'[' => self.place = Place::First,
            Place::BeforeArray => return Err(malformed("the body must be a JSON array")),
            Place::First if byte == b']' => self.place = Place::AfterArray,
            Place::First | Place::Next => {
                self.place = Place::Inside;
                return self.step_inside(byte);
            }
            Place::AfterArray => return Err(malformed("something follows the array")),
        }
        Ok(false)
    }

    fn step_inside(&mut self, byte: u8) -> Result<bool, Problem> {
        if self.string == StringState::Outside && self.depth == 0 && matches!(byte, b',' | b']') {
            self.place = if byte == b',' {
                Place::Next
            } else {
                Place::AfterArray
            };
            return Ok(true);
        }
        if self.element.len() == self.max_bytes {
            let max = self.max_bytes;
            return Err(Problem::new(Kind::BodyTooLarge)
                .with_detail(format!("one link may have at most {max} bytes")));
        }
        self.element.push(byte);
        self.nest(byte)?;
        Ok(false)
    }

    fn nest(&mut self, byte: u8) -> Result<(), Problem> {
        self.string = match (self.string, byte) {
            (StringState::Escaped, _) => StringState::Inside,
            (StringState::Inside, b'\\') => StringState::Escaped,
            (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Outside, b'"') => StringState::Inside,
            (same, _) => same,
        };
        if self.string == StringState::Outside {
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    let closed = self.depth.checked_sub(1);
                    self.depth = closed.ok_or_else(|| malformed("a bracket closes nothing"))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn malformed(detail: &'static str) -> Problem {
    Problem::new(Kind::InvalidBody).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn elements(pieces: &[&[u8]], max_bytes: usize) -> Result<Vec<String>, Kind> {
        let mut items = Items::new(max_bytes);
        let mut found = Vec::new();
        let kind = |problem: Problem| problem.kind();
        for piece in pieces {
            let sink = |element: &[u8]| {
                found.push(String::from_utf8(element.to_vec()).unwrap());
                Ok(())
            };
            items.feed(piece, sink).map_err(kind)?;
        }
        items.finish().map_err(kind)?;
        Ok(found)
    }

    #[test]
    fn elements_when_nested_are_cut_at_outer_commas_alone() {
        let body = br#" [ {"a":[1,2],"b":"],\"{"} ,"x\\", 3 , [ [ ] ] ] "#;
        let found = elements(&[body], 100).unwrap();
        let found: Vec<&str> = found.iter().map(|element| element.trim()).collect();
        assert_eq!(
            found,
            [r#"{"a":[1,2],"b":"],\"{"}"#, r#""x\\""#, "3", "[ [ ] ]"]
        );
        assert!(elements(&[b"[]"], 100).unwrap().is_empty());
    }

    #[test]
    fn body_when_not_an_array_is_refused() {
        for body in [
            "", " ", "{}", "[", "[1", "[1,", "[1]]", "[1] 2", "[}", "[\"", "nul",
        ] {
            assert_eq!(
                elements(&[body.as_bytes()], 100),
                Err(Kind::InvalidBody),
                "{body}"
            );
        }
    }

    #[test]
    fn element_when_larger_than_allowed_is_refused() {
        assert!(elements(&[b"[12345,1]"], 5).is_ok());
        assert_eq!(elements(&[b"[123456]"], 5), Err(Kind::BodyTooLarge));
    }

    proptest! {
        #[test]
        fn body_when_cut_into_pieces_yields_equal_elements(
            texts in proptest::collection::vec("\\PC{0,12}", 0..6),
            at in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let values: Vec<Value> = texts
                .iter()
                .map(|text| serde_json::json!({ "t": text, "n": [text, 1] }))
                .collect();
            let body = serde_json::to_vec(&values).unwrap();
            let mut cuts: Vec<usize> = at.into_iter().filter(|at| *at < body.len()).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]).collect();
            let found: Vec<Value> = elements(&pieces, 1000)
                .unwrap()
                .iter()
                .map(|element| serde_json::from_str(element).unwrap())
                .collect();
            prop_assert_eq!(found, values);
        }

        #[test]
        fn body_when_bytes_are_arbitrary_never_panics(body in "[\\[\\]{},\"\\\\a1 ]{0,40}") {
            let _ = elements(&[body.as_bytes()], 10);
        }
    }
}
