//! QR codes as SVG, with selectable colours, margin, error correction level and logo.

use crate::json::Object;
use qrcodegen::{QrCode, QrCodeEcc};
use std::fmt::Write;

/// The widest margin, in modules; readers want four.
pub const MAX_MARGIN: u8 = 16;

/// The longest logo: bytes of its data URL.
pub const MAX_LOGO_LENGTH: usize = 350_000;

/// Minimum difference in brightness between background and modules, of 255, by the formula of the W3C's "Techniques for
/// Accessibility Evaluation": codes with less contrast cannot be scanned reliably.
pub const MIN_DIFFERENCE: u32 = 125;

/// Options of drawing a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The colour of the modules, `#rrggbb`.
    dark: String,
    /// The colour behind them, `#rrggbb`.
    light: String,
    /// The margin in modules, up to [`MAX_MARGIN`].
    margin: u8,
    /// The error correction level, the part that may be damaged: `L` 7 per cent, `M` 15, `Q` 25, `H` 30. With a logo it is `H`,
    /// because the logo covers modules.
    level: String,
    /// A picture in the middle, as a data URL; empty for none.
    logo: String,
}

impl Options {
    /// Reads options from JSON; missing ones have their defaults.
    ///
    /// # Errors
    /// The invalid option.
    pub fn read(json: &str) -> Result<Self, String> {
        let object = Object::read(json)?;
        object.only(&["dark", "light", "margin", "level", "logo"])?;
        let options = Self {
            dark: object.text_or("dark", "#000000")?.to_owned(),
            light: object.text_or("light", "#ffffff")?.to_owned(),
            margin: u8::try_from(object.number("margin", 4)?).unwrap_or(u8::MAX),
            level: object.text_or("level", "M")?.to_owned(),
            logo: object.text("logo")?.to_owned(),
        };
        options.check().map(|()| options)
    }

    fn check(&self) -> Result<(), String> {
        let dark = brightness(&self.dark).ok_or("dark: must be a colour such as #1a2b3c")?;
        let light = brightness(&self.light).ok_or("light: must be a colour such as #ffffff")?;
        if light < dark + MIN_DIFFERENCE {
            return Err("dark: must be much darker than the background".to_owned());
        }
        if self.margin > MAX_MARGIN {
            return Err(format!("margin: must be 0 to {MAX_MARGIN} modules"));
        }
        if self.ecc().is_none() {
            return Err("level: must be L, M, Q or H".to_owned());
        }
        if self.logo.is_empty() || is_picture(&self.logo) {
            Ok(())
        } else {
            Err("logo: must be a picture (PNG, JPEG, WebP or SVG) of at most 256 kB".to_owned())
        }
    }

    fn ecc(&self) -> Option<QrCodeEcc> {
        match self.level.as_str() {
            _ if !self.logo.is_empty() => Some(QrCodeEcc::High),
            "L" => Some(QrCodeEcc::Low),
            "M" => Some(QrCodeEcc::Medium),
            "Q" => Some(QrCodeEcc::Quartile),
            "H" => Some(QrCodeEcc::High),
            _ => None,
        }
    }

    /// Draws the code of a text.
    ///
    /// # Errors
    /// The text is too long.
    pub fn draw(&self, text: &str) -> Result<String, String> {
        let ecc = self.ecc().unwrap_or(QrCodeEcc::Medium);
        let code = QrCode::encode_text(text, ecc)
            .map_err(|_| "the text is too long for a QR code of this level".to_owned())?;
        let margin = i32::from(self.margin);
        let size = code.size() + 2 * margin;
        let (dark, light) = (&self.dark, &self.light);
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" shape-rendering="crispEdges" role="img"><rect width="{size}" height="{size}" fill="{light}"/><path fill="{dark}" d=""#
        );
        push_modules(&code, margin, &mut svg);
        svg.push_str(r#""/>"#);
        if !self.logo.is_empty() {
            self.push_logo(&code, &mut svg);
        }
        svg.push_str("</svg>");
        Ok(svg)
    }

    /// Draws the logo on a patch of the background: a fifth of the code in width, so a twenty-fifth of its modules, while level `H`
    /// tolerates a loss of 30 per cent.
    fn push_logo(&self, code: &QrCode, svg: &mut String) {
        let width = (code.size() / 5) | 1;
        let start = (code.size() - width) / 2 + i32::from(self.margin);
        let (patch, patch_start) = (width + 2, start - 1);
        let (light, logo) = (&self.light, crate::chart::escaped(&self.logo));
        let _ = write!(
            svg,
            r#"<rect x="{patch_start}" y="{patch_start}" width="{patch}" height="{patch}" fill="{light}"/><image x="{start}" y="{start}" width="{width}" height="{width}" href="{logo}"/>"#
        );
    }
}

/// Draws each run of dark modules in a row as a rectangle of a path.
fn push_modules(code: &QrCode, margin: i32, svg: &mut String) {
    for y in 0..code.size() {
        let mut x = 0;
        while x < code.size() {
            let run = (x..code.size())
                .take_while(|x| code.get_module(*x, y))
                .count();
            let run = i32::try_from(run).unwrap_or_default();
            if run > 0 {
                let _ = write!(svg, "M{} {}h{run}v1h-{run}z", x + margin, y + margin);
            }
            x += run.max(1);
        }
    }
}

/// The brightness of a colour `#rrggbb`, of 255; `None` if the text is not a colour.
fn brightness(colour: &str) -> Option<u32> {
    let digits = colour
        .strip_prefix('#')
        .filter(|digits| digits.len() == 6)?;
    // Otherwise a sign would be accepted.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    let channel = |shift: u32| number >> shift & 0xff;
    Some((299 * channel(16) + 587 * channel(8) + 114 * channel(0)) / 1_000)
}

/// True if a text is a data URL of a picture of at most [`MAX_LOGO_LENGTH`] bytes.
#[must_use]
pub fn is_picture(url: &str) -> bool {
    let kinds = ["png", "jpeg", "webp", "svg+xml"];
    let data = url
        .strip_prefix("data:image/")
        .and_then(|rest| rest.split_once(";base64,"));
    data.is_some_and(|(kind, data)| {
        url.len() <= MAX_LOGO_LENGTH
            && kinds.contains(&kind)
            && !data.is_empty()
            && data
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://go.example/abc";

    fn options(json: &str) -> Options {
        Options::read(json).unwrap()
    }

    /// The modules of the drawing, from its path.
    fn modules(svg: &str) -> Vec<(i32, i32)> {
        let (_, path) = svg.split_once(" d=\"").unwrap();
        let (path, _) = path.split_once('"').unwrap();
        let runs = path.split('M').filter(|run| !run.is_empty());
        let run = |run: &str| {
            let (at, width) = run.split_once('h').unwrap();
            let (x, y) = at.split_once(' ').unwrap();
            let (width, _) = width.split_once('v').unwrap();
            let [x, y, width] = [x, y, width].map(|number| number.parse::<i32>().unwrap());
            (x..x + width).map(move |x| (x, y))
        };
        runs.flat_map(run).collect()
    }

    #[test]
    fn qr_code_when_drawn_has_the_modules_of_its_text() {
        let svg = options(r#"{"margin":2,"level":"Q"}"#).draw(URL).unwrap();
        let code = QrCode::encode_text(URL, QrCodeEcc::Quartile).unwrap();
        let all = (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y)));
        let dark = all.filter(|(x, y)| code.get_module(*x, *y));
        let dark: Vec<_> = dark.map(|(x, y)| (x + 2, y + 2)).collect();
        assert_eq!(modules(&svg), dark);
        let size = code.size() + 4;
        assert!(svg.contains(&format!(r#"viewBox="0 0 {size} {size}""#)));
    }

    #[test]
    fn qr_code_when_it_has_a_logo_raises_its_level() {
        let logo = "data:image/png;base64,iVBORw0KGgo=";
        let with = options(&format!(r#"{{"level":"L","logo":"{logo}"}}"#))
            .draw(URL)
            .unwrap();
        let without = options(r#"{"level":"H"}"#).draw(URL).unwrap();
        assert_eq!(modules(&with), modules(&without));
        assert!(with.contains(&format!(r#"href="{logo}""#)));
    }

    #[test]
    fn qr_option_when_wrong_is_refused_by_name() {
        let long = format!(
            r#"{{"logo":"data:image/png;base64,{}"}}"#,
            "a".repeat(MAX_LOGO_LENGTH)
        );
        for (json, named) in [
            (r#"{"dark":"red"}"#, "dark: must be a colour"),
            (r##"{"light":"#+fffff"}"##, "light: must be a colour"),
            (r##"{"dark":"#ffffff"}"##, "dark: must be much darker"),
            (r##"{"dark":"#999999"}"##, "dark: must be much darker"),
            (
                r##"{"dark":"#ffffff","light":"#000000"}"##,
                "dark: must be much darker",
            ),
            (r#"{"margin":17}"#, "margin: must be 0 to 16"),
            (r#"{"level":"X"}"#, "level: must be"),
            (
                r#"{"logo":"https://a.example/x.png"}"#,
                "logo: must be a picture",
            ),
            (
                r#"{"logo":"data:image/png;base64,\"/><script>"}"#,
                "logo: must be a picture",
            ),
            (
                r#"{"logo":"data:text/html;base64,aaaa"}"#,
                "logo: must be a picture",
            ),
            (long.as_str(), "logo: must be a picture"),
            (r#"{"size":7}"#, "size: is not known"),
        ] {
            let refused = Options::read(json).unwrap_err();
            assert!(refused.starts_with(named), "{json}: {refused}");
        }
    }

    #[test]
    fn qr_text_when_too_long_for_any_code_is_refused() {
        let longest = "x".repeat(2_953);
        assert!(options(r#"{"level":"L"}"#).draw(&longest).is_ok());
        assert!(
            options(r#"{"level":"L"}"#)
                .draw(&format!("{longest}x"))
                .is_err()
        );
    }
}
