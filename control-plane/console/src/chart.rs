//! Charts of numbers over time, as SVG without styles: colours come from the page's `currentColor` and classes.

use crate::json;
use serde_json::Value;
use std::fmt::Write;

/// The size of the drawing in its own units. Coordinates are integers, because printing fractions needs much code. The page
/// scales the drawing.
const WIDTH: u64 = 6_400;
const HEIGHT: u64 = 2_000;
/// Margins around the line: for the numbers at the left, for the times below, and at the other sides.
const LEFT: u64 = 480;
const BOTTOM: u64 = 240;
const EDGE: u64 = 80;

/// The most points that are drawn; beyond that, neighbours are added up.
pub const MAX_POINTS: usize = 1_000;

/// A time in the form in which it is shown, and a number.
pub type Point = (String, u64);

/// Reads points from JSON: `[[time, number], ...]`.
///
/// # Errors
/// The reason why they are invalid.
pub fn read(json: &str) -> Result<Vec<Point>, String> {
    let Value::Array(list) = json::value(json)? else {
        return Err("points: must be a list".to_owned());
    };
    let point = |point: &Value| match point.as_array()?.as_slice() {
        [time, number] => Some((time.as_str()?.to_owned(), number.as_u64()?)),
        _ => None,
    };
    let points: Option<_> = list.iter().map(point).collect();
    points.ok_or_else(|| "points: must be pairs of a time and a whole number".to_owned())
}

/// Draws the points, evenly spaced, with an axis that begins at 0.
#[must_use]
pub fn draw(points: &[Point], title: &str) -> String {
    let points = merged(points);
    let top = rounded_up(points.iter().map(|(_, number)| *number).max().unwrap_or(0));
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="chart"><title>{}</title>"#,
        escaped(title)
    );
    push_grid(top, &mut svg);
    push_line(&points, top, &mut svg);
    push_times(&points, &mut svg);
    svg.push_str("</svg>");
    svg
}

/// At most [`MAX_POINTS`] points: beyond that, groups of neighbours are merged into one.
fn merged(points: &[Point]) -> Vec<Point> {
    let each = points.len().div_ceil(MAX_POINTS).max(1);
    let sum = |points: &[Point]| {
        points
            .iter()
            .fold(0u64, |sum, (_, number)| sum.saturating_add(*number))
    };
    let one = |points: &[Point]| points.first().map(|(time, _)| (time.clone(), sum(points)));
    points.chunks(each).filter_map(one).collect()
}

/// Rounds up to 1, 2, 4 or 8 times a power of ten, at least 4, so that the quarters are distinct.
fn rounded_up(number: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for factor in [1, 2, 4, 8] {
            let round = power.saturating_mul(factor);
            if round >= number.max(4) || round == u64::MAX {
                return round;
            }
        }
        power = power.saturating_mul(10);
    }
}

fn x(index: usize, count: usize) -> u64 {
    let width = WIDTH - LEFT - EDGE;
    match count {
        0 | 1 => LEFT + width / 2,
        _ => LEFT + width * index as u64 / (count as u64 - 1),
    }
}

fn y(number: u64, top: u64) -> u64 {
    let height = HEIGHT - BOTTOM - EDGE;
    let part = u128::from(height) * u128::from(number) / u128::from(top.max(1));
    EDGE + height - u64::try_from(part).unwrap_or(height).min(height)
}

/// Draws horizontal lines at each quarter, with their numbers.
fn push_grid(top: u64, svg: &mut String) {
    svg.push_str(r#"<g class="chart-grid" stroke="currentColor" stroke-opacity="0.2" stroke-width="10" fill="currentColor" font-size="110" text-anchor="end">"#);
    for quarter in 0..=4 {
        let number = top / 4 * quarter + top % 4 * quarter / 4;
        let (y, right) = (y(number, top), WIDTH - EDGE);
        let _ = write!(
            svg,
            r#"<path d="M{LEFT} {y}H{right}"/><text x="{}" y="{}" stroke="none">{}</text>"#,
            LEFT - 60,
            y + 40,
            short(number),
        );
    }
    svg.push_str("</g>");
}

fn push_line(points: &[Point], top: u64, svg: &mut String) {
    let (Some(_), bottom) = (points.first(), y(0, top)) else {
        return;
    };
    let count = points.len();
    let mut line = String::new();
    for (index, (_, number)) in points.iter().enumerate() {
        let _ = write!(line, "L{} {}", x(index, count), y(*number, top));
    }
    let (first, last) = (x(0, count), x(count - 1, count));
    let _ = write!(
        svg,
        r#"<path class="chart-area" fill="currentColor" fill-opacity="0.12" d="M{first} {bottom}{line}L{last} {bottom}Z"/>"#
    );
    // A single point would not be visible: a short line with round ends shows it as a dot.
    let line = line.strip_prefix('L').unwrap_or_default();
    let dot = if count == 1 { "h1" } else { "" };
    let _ = write!(
        svg,
        r#"<path class="chart-line" fill="none" stroke="currentColor" stroke-width="20" stroke-linecap="round" stroke-linejoin="round" d="M{line}{dot}"/>"#
    );
}

/// Writes the first and the last time.
fn push_times(points: &[Point], svg: &mut String) {
    let ends = [
        (points.first(), LEFT, "start"),
        (points.last(), WIDTH - EDGE, "end"),
    ];
    let shown = if points.len() > 1 { 2 } else { 1 };
    for (point, x, anchor) in ends.into_iter().take(shown) {
        if let Some((time, _)) = point {
            let _ = write!(
                svg,
                r#"<text class="chart-time" fill="currentColor" font-size="110" x="{x}" y="{}" text-anchor="{anchor}">{}</text>"#,
                HEIGHT - 60,
                escaped(&shown_time(time)),
            );
        }
    }
}

/// Shortens an RFC 3339 time for display; any other text is unchanged.
fn shown_time(time: &str) -> String {
    let short = time
        .get(..16)
        .filter(|_| time.as_bytes().get(10) == Some(&b'T'));
    match short.map(|short| short.strip_suffix("T00:00").unwrap_or(short)) {
        Some(short) => short.replacen('T', " ", 1),
        None => time.to_owned(),
    }
}

/// Abbreviates a number: `1500` is `1.5k`.
fn short(number: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let unit = units.into_iter().find(|(size, _)| number >= *size);
    unit.map_or_else(
        || number.to_string(),
        |(size, name)| {
            let (whole, tenth) = (number / size, number % size * 10 / size);
            match tenth {
                0 => format!("{whole}{name}"),
                _ => format!("{whole}.{tenth}{name}"),
            }
        },
    )
}

/// Escapes a text for XML, where control characters are not permitted at all.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(time: &str, number: u64) -> Point {
        (time.to_owned(), number)
    }

    #[test]
    fn chart_line_when_drawn_spans_first_to_last_point() {
        let points = read(r#"[["2026-11-22T00:00:00Z",0],["2026-11-22T01:00:00Z",4]]"#).unwrap();
        let svg = draw(&points, "Clicks");
        assert!(svg.contains(r#"d="M480 1760L6320 80""#), "{svg}");
        assert!(
            svg.contains(">2026-11-22<") && svg.contains(">2026-11-22 01:00<"),
            "{svg}"
        );
        assert!(svg.contains("<title>Clicks</title>"));
    }

    #[test]
    fn chart_when_points_are_none_or_one_is_drawn() {
        assert!(!draw(&[], "").contains("chart-line"));
        assert!(draw(&[point("x", 3)], "").contains("h1"));
    }

    #[test]
    fn chart_when_points_are_many_adds_them_up() {
        let points: Vec<Point> = (0..2_500)
            .map(|index| point(&index.to_string(), 1))
            .collect();
        let merged = merged(&points);
        assert_eq!(merged.len(), 834);
        assert_eq!(merged[0], point("0", 3));
        assert_eq!(merged.iter().map(|(_, number)| number).sum::<u64>(), 2_500);
    }

    #[test]
    fn axis_when_scaled_ends_at_a_round_number() {
        for (number, top) in [
            (0, 4),
            (4, 4),
            (5, 8),
            (9, 10),
            (81, 100),
            (150, 200),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(rounded_up(number), top);
        }
        assert_eq!(short(1_550), "1.5k");
        assert_eq!(short(2_000_000), "2M");
    }

    #[test]
    fn points_when_malformed_are_refused() {
        assert!(read("").is_err());
        for json in ["7", "[1]", r#"[["a"]]"#, r#"[["a",-1]]"#] {
            assert!(read(json).unwrap_err().starts_with("points: "), "{json}");
        }
    }

    proptest! {
        #[test]
        fn chart_when_texts_are_arbitrary_escapes_them(title in "\\PC{0,20}|[<>&\"'\\x00-\\x1f]{0,9}", numbers in prop::collection::vec(any::<u64>(), 0..9)) {
            let points: Vec<Point> = numbers.into_iter().map(|number| point(&title, number)).collect();
            let svg = draw(&points, &title);
            prop_assert_eq!(svg.matches("<title>").count(), 1);
            prop_assert!(!svg.contains(char::is_control));
            let tags = svg.matches('<').count();
            prop_assert_eq!(tags, svg.matches('>').count());
        }
    }
}
