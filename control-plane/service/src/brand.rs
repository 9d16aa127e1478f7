//! The brand of a domain, which pages for its visitors show.

use super::fields::Reason;
use super::values;
use edgelink_console::qr::is_picture;
use serde_json::Value;
use url::Url;

/// The longest name in characters.
const MAX_NAME_LENGTH: usize = 100;

/// The longest URL of a logo in bytes.
const MAX_LOGO_URL_LENGTH: usize = 2_048;

/// The longest logo as a data URL, in bytes: it is part of each page.
const MAX_LOGO_LENGTH: usize = 16_384;

/// Parses the name of the brand.
pub(crate) fn name(value: &Value) -> Result<String, Reason> {
    let name = values::text(value)?;
    if values::is_line(name, MAX_NAME_LENGTH) {
        Ok(name.to_owned())
    } else {
        Err("must be 1 to 100 characters without control characters, or null".into())
    }
}

/// Parses the logo: the URL of a picture, or a data URL.
pub(crate) fn logo(value: &Value) -> Result<String, Reason> {
    let text = values::text(value)?;
    if is_picture(text) {
        return if text.len() <= MAX_LOGO_LENGTH {
            Ok(text.to_owned())
        } else {
            Err("must be at most 16384 bytes long as a data URL".into())
        };
    }
    let url = Url::parse(text).ok().filter(is_logo);
    let url = url.filter(|url| url.as_str().len() <= MAX_LOGO_URL_LENGTH);
    url.map(String::from).ok_or(Reason::Borrowed(
        "must be a URL of https of at most 2048 bytes, or a data URL of a picture (PNG, JPEG, WebP or SVG, in base64)",
    ))
}

/// True if pages may load the picture: its host becomes part of their content security policy.
fn is_logo(url: &Url) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let host = url.host_str().unwrap_or_default();
    let has_user = !url.username().is_empty() || url.password().is_some();
    url.scheme() == "https" && !has_user && !host.is_empty() && host.bytes().all(is_safe)
}

/// Parses the colour of the brand.
pub(crate) fn color(value: &Value) -> Result<String, Reason> {
    let text = values::text(value)?;
    let digits = text.strip_prefix('#').unwrap_or_default();
    if digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("must be a colour such as #1a2b3c".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logo_when_no_picture_or_https_url_is_refused() {
        let picture = |length: usize| {
            let start = "data:image/png;base64,";
            start.to_owned() + &"A".repeat(length - start.len())
        };
        for (text, is_taken) in [
            ("https://cdn.example/logo.png?v=1", true),
            ("https://[2001:db8::1]:8443/x", true),
            (&picture(MAX_LOGO_LENGTH), true),
            (&picture(MAX_LOGO_LENGTH + 1), false),
            ("http://cdn.example/logo.png", false),
            ("https://user:password@cdn.example/x", false),
            ("https://a;script-src/x", false),
            ("https://a,b/x", false),
            ("javascript:alert(1)", false),
            ("data:text/html;base64,AAAA", false),
            ("data:image/svg+xml,<svg onload=alert(1)>", false),
            (&format!("https://cdn.example/{}", "x".repeat(2_048)), false),
            ("/logo.png", false),
            ("", false),
        ] {
            assert_eq!(logo(&text.into()).is_ok(), is_taken, "{text}");
        }
    }

    #[test]
    fn colour_when_without_six_digits_is_refused() {
        assert_eq!(color(&"#1A2b3C".into()).as_deref(), Ok("#1a2b3c"));
        for text in ["", "#", "1a2b3c", "#1a2b3", "#1a2b3c4", "#+a2b3c", "red"] {
            assert!(color(&text.into()).is_err(), "{text}");
        }
    }
}
