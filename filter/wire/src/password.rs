//! Links with a password: an edge recognizes visitors who have entered it, without the password or its hash.
//!
//! A link carries an unlock key, which is derived from the hash of its password and so changes with it. The control plane checks a
//! password and gives the visitor a cookie for [`COOKIE_SECONDS`]: its expiry, and an HMAC-SHA256 (RFC 2104) of link key and
//! expiry under the unlock key. Edges check only the cookie. Read access to records is enough to forge cookies for them.

use crate::query;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Lifetime of the cookie of an unlocked link, in seconds.
pub const COOKIE_SECONDS: u64 = 3_600;

/// The longest password in bytes.
pub const MAX_PASSWORD_LENGTH: usize = 255;

/// The longest form with a password, in bytes: each byte of the password may be percent-encoded.
pub const MAX_FORM_LENGTH: usize = 1_024;

/// The media type of the form.
pub const FORM_MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// The path of the edge API under which a form is sent to the control plane; `{domain}/{code}` follows.
pub const UNLOCK_PATH: &str = "/edge/v1/unlock/";

/// The header of an unlock request with the address of the visitor.
pub const VISITOR_HEADER: &str = "x-edgelink-visitor";

/// The media type of the answer to an unlock request, the value of the cookie.
pub const COOKIE_MEDIA_TYPE: &str = "application/vnd.edgelink.cookie";

/// The longest value of the cookie: digits, a dot, and the code in hexadecimal digits.
pub const MAX_COOKIE_LENGTH: usize = 20 + 1 + 2 * 32;

/// The most cookies of the right name that are checked: a client may send any number.
const MAX_COOKIES: usize = 4;

const CONTEXT: &[u8] = b"edgelink-unlock";

/// The key with which cookies for a link are signed and verified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnlockKey(pub(crate) [u8; Self::LENGTH]);

impl std::fmt::Debug for UnlockKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnlockKey(..)")
    }
}

impl UnlockKey {
    /// The length of the key in bytes.
    pub const LENGTH: usize = 32;

    /// Derives the key of the link `key` (`{domain}/{code}`) from the hash of its password.
    #[must_use]
    pub fn new(password_hash: &str, key: &[u8]) -> Self {
        let secret = Sha256::digest(password_hash).into();
        let mac = mac(&secret, &[CONTEXT, key]);
        Self(mac.finalize().into_bytes().into())
    }

    /// The value of a cookie for the link `key` that is valid until `end`, unix seconds.
    #[must_use]
    pub fn cookie(&self, key: &[u8], end: u64) -> String {
        let end = end.to_string();
        let code = mac(&self.0, &[key, b"|", end.as_bytes()]);
        format!("{end}.{}", hex::encode(code.finalize().into_bytes()))
    }

    /// True if one of the cookies in a `Cookie` header unlocks the link `key` at `now`, unix seconds. Authentication codes are
    /// compared in constant time.
    #[must_use]
    pub fn is_opened_by(&self, cookies: &[u8], key: &[u8], now: u64) -> bool {
        let name = cookie_name(key);
        cookies
            .split(|byte| *byte == b';')
            .map(<[u8]>::trim_ascii)
            .filter_map(|cookie| cookie.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .take(MAX_COOKIES)
            .any(|value| self.accepts(value, key, now))
    }

    fn accepts(&self, cookie: &[u8], key: &[u8], now: u64) -> bool {
        let mut parts = cookie.splitn(2, |byte| *byte == b'.');
        let (Some(end), Some(code)) = (parts.next(), parts.next()) else {
            return false;
        };
        let is_number = end.len() <= 20 && end.iter().all(u8::is_ascii_digit);
        let seconds = std::str::from_utf8(end)
            .ok()
            .and_then(|end| end.parse().ok());
        let is_current = seconds.is_some_and(|end: u64| now < end);
        let mut bytes = [0; Self::LENGTH];
        let is_whole = hex::decode_to_slice(code, &mut bytes).is_ok();
        is_number
            && is_current
            && is_whole
            && mac(&self.0, &[key, b"|", end]).verify_slice(&bytes).is_ok()
    }
}

/// The HMAC of all parts, one after the other.
fn mac(key: &[u8; UnlockKey::LENGTH], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC pads shorter keys with zeros to the length of a block.
    let mut block = [0; 64];
    let (start, _) = block.split_at_mut(UnlockKey::LENGTH);
    start.copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac
}

/// The name of the cookie for the link `key`: links of several hosts and ports may share a browser's cookies.
#[must_use]
pub fn cookie_name(key: &[u8]) -> String {
    let hash = Sha256::digest(key);
    let [first, second, third, fourth, ..] = hash.0;
    format!("edgelink-{}", hex::encode([first, second, third, fourth]))
}

/// The value of `Set-Cookie` for the link `key`, whose code follows `prefix` in the path, as `/` or `/s/`. `Secure` if the visitor
/// uses TLS.
#[must_use]
pub fn set_cookie(key: &[u8], value: &str, prefix: &str, is_secure: bool) -> String {
    let name = cookie_name(key);
    let code = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let code = String::from_utf8_lossy(code);
    let secure = if is_secure { "; Secure" } else { "" };
    format!(
        "{name}={value}; Path={prefix}{code}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}"
    )
}

/// True if the value has the form of a cookie made by [`UnlockKey::cookie`].
#[must_use]
pub fn is_cookie(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'.';
    (1..=MAX_COOKIE_LENGTH).contains(&value.len()) && value.iter().all(is_part)
}

/// True if a `Content-Type` is the one of the form.
#[must_use]
pub fn is_form(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|byte| *byte == b';').next();
    let media_type = media_type.unwrap_or_default().trim_ascii();
    media_type.eq_ignore_ascii_case(FORM_MEDIA_TYPE.as_bytes())
}

/// The `Location` for a visitor who has entered the password: the `:path` to which the form was sent, or its first segment, the
/// code, if the rest has bytes that are invalid in a header.
#[must_use]
pub fn address_of_form(path: &[u8]) -> &[u8] {
    if path.iter().all(u8::is_ascii_graphic) {
        return path;
    }
    let ends = |byte: &u8| matches!(byte, b'/' | b'?');
    let code = path.iter().skip(1).position(ends);
    code.map_or(path, |length| path.split_at(1 + length).0)
}

/// The password in a form; `None` if it is missing or too long.
#[must_use]
pub fn password_of_form(form: &[u8]) -> Option<Vec<u8>> {
    let value = query::last_value(form, b"password")?;
    let password: Vec<u8> = query::decoded(value).collect();
    (1..=MAX_PASSWORD_LENGTH)
        .contains(&password.len())
        .then_some(password)
}

macro_rules! page {
    ($text:literal) => {
        concat!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"robots\" content=\"noindex\">\n<title>Password</title>\n",
            "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32em;margin:20vh auto;padding:0 1em}</style>\n",
            "</head>\n<body>\n<h1>Password</h1>\n<p>",
            $text,
            "</p>\n<form method=\"post\">\n<label>Password <input type=\"password\" name=\"password\" maxlength=\"255\" ",
            "autocomplete=\"off\" required autofocus></label>\n<button>Continue</button>\n</form>\n</body>\n</html>\n",
        )
    };
}

/// Declares the notices of the page above its form.
macro_rules! notices {
    ($($(#[$doc:meta])* $notice:ident: $status:literal, $text:literal;)+) => {
        /// The notice of the page above its form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Notice {
            $($(#[$doc])* $notice,)+
        }

        impl Notice {
            /// The status code of the page.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$notice => $status,)+
                }
            }

            /// The text of the notice.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$notice => $text,)+
                }
            }

            /// The page: without scripts, and without data of the visitor or the link. The form is posted to the URL of the page.
            #[must_use]
            pub fn page(self) -> &'static str {
                match self {
                    $(Self::$notice => page!($text),)+
                }
            }
        }
    };
}

notices! {
    /// A password is needed.
    Locked: 200, "This link needs a password.";
    /// The password was wrong.
    Wrong: 403, "That is not the password. Please try again.";
    /// There were too many attempts.
    Limited: 429, "There were too many tries. Please wait a little and try again.";
}

/// The headers of the page, besides `Cache-Control` and `Content-Type`. `form-action` is left out: browsers apply it to the
/// redirect that follows the form, which leads to another host.
pub const PAGE_HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("referrer-policy", REFERRER_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-robots-tag", "noindex"),
];

/// The `Referrer-Policy` of the page, and of redirects of links with a password.
pub const REFERRER_POLICY: &str = "no-referrer";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &[u8] = b"go.example:8080/a";
    const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA";

    fn key() -> UnlockKey {
        UnlockKey::new(HASH, KEY)
    }

    fn header(value: &str) -> String {
        format!("a=b; {}={value}; c=d", cookie_name(KEY))
    }

    #[test]
    fn cookie_when_not_expired_opens_its_link() {
        let cookie = key().cookie(KEY, 100);
        assert!(is_cookie(cookie.as_bytes()));
        let opens = |now| key().is_opened_by(header(&cookie).as_bytes(), KEY, now);
        assert!(opens(0) && opens(99));
        assert!(!opens(100) && !opens(u64::MAX));
        let longest = key().cookie(KEY, u64::MAX);
        assert_eq!(longest.len(), MAX_COOKIE_LENGTH);
        assert!(key().is_opened_by(header(&longest).as_bytes(), KEY, 100));
    }

    #[test]
    fn cookie_when_forged_or_of_another_link_opens_nothing() {
        let good = key().cookie(KEY, 100);
        let (_, code) = good.split_once('.').unwrap();
        let other_link = key().cookie(b"go.example:8080/b", 100);
        let other_password = UnlockKey::new("$argon2id$other", KEY).cookie(KEY, 100);
        for value in [
            String::new(),
            ".".to_owned(),
            good.replace("100", "101"),
            good.replace("100", "0100"),
            good.replace("100", "+100"),
            format!("100.{}", &code[1..]),
            format!("100.{code}00"),
            format!("100.{}", "0".repeat(64)),
            format!("100.{}", "z".repeat(64)),
            other_link,
            other_password,
            UnlockKey::new(HASH, b"go.example:8080/b").cookie(KEY, 100),
        ] {
            assert!(
                !key().is_opened_by(header(&value).as_bytes(), KEY, 5),
                "{value}"
            );
        }
        let named_otherwise = format!("x{}={good}", cookie_name(KEY));
        assert!(!key().is_opened_by(named_otherwise.as_bytes(), KEY, 5));
    }

    #[test]
    fn cookie_when_behind_too_many_of_its_name_is_ignored() {
        let good = key().cookie(KEY, 100);
        let bad = format!("{}=1.2;", cookie_name(KEY));
        let opens = |bad: &str| {
            let cookies = format!("{bad}{}={good}", cookie_name(KEY));
            key().is_opened_by(cookies.as_bytes(), KEY, 5)
        };
        assert!(opens(&bad.repeat(MAX_COOKIES - 1)));
        assert!(!opens(&bad.repeat(MAX_COOKIES)));
    }

    #[test]
    fn cookie_when_set_is_bound_to_path_of_its_link() {
        let plain = set_cookie(KEY, "1.2", "/", false);
        let expected = format!(
            "{}=1.2; Path=/a; Max-Age=3600; HttpOnly; SameSite=Lax",
            cookie_name(KEY)
        );
        assert_eq!(plain, expected);
        assert_eq!(
            set_cookie(KEY, "1.2", "/", true),
            format!("{expected}; Secure")
        );
        let below = set_cookie(KEY, "1.2", "/s/", false);
        assert_eq!(below, expected.replace("Path=/a", "Path=/s/a"));
    }

    #[test]
    fn password_when_read_from_form_is_decoded() {
        let longest = "x".repeat(MAX_PASSWORD_LENGTH);
        for (form, password) in [
            ("password=secret", Some("secret")),
            ("a=b&password=a+b%20c%26%C3%A9", Some("a b c&\u{e9}")),
            ("password=", None),
            ("password", None),
            ("", None),
            ("Password=x", None),
            (&format!("password={longest}"), Some(longest.as_str())),
            (&format!("password={longest}x"), None),
        ] {
            let found = password_of_form(form.as_bytes());
            assert_eq!(found.as_deref(), password.map(str::as_bytes), "{form}");
        }
        let form = format!("password={}", "%C3".repeat(MAX_PASSWORD_LENGTH));
        assert!(form.len() <= MAX_FORM_LENGTH);
    }

    #[test]
    fn form_when_media_type_is_urlencoded_is_recognized() {
        for form in [
            "application/x-www-form-urlencoded",
            "Application/X-WWW-Form-Urlencoded ;charset=utf-8",
        ] {
            assert!(is_form(form.as_bytes()), "{form}");
        }
        for other in ["", ";", "text/plain", "application/x-www-form-urlencoded2"] {
            assert!(!is_form(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn form_when_address_is_unsafe_in_header_leads_to_link() {
        for (path, location) in [
            (&b"/a"[..], &b"/a"[..]),
            (b"/a/b?c=d/e", b"/a/b?c=d/e"),
            (b"/a?\xff/b", b"/a"),
            (b"/a/\xc3\xa4?b", b"/a"),
            (b"/a/b?c d", b"/a"),
        ] {
            assert_eq!(address_of_form(path), location, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn password_page_when_rendered_has_form_and_no_script() {
        for notice in [Notice::Locked, Notice::Wrong, Notice::Limited] {
            let page = notice.page();
            assert!(page.contains("<form method=\"post\">") && !page.contains("<script"));
        }
    }

    proptest! {
        #[test]
        fn cookie_when_bytes_are_arbitrary_opens_nothing(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let named = [cookie_name(KEY).as_bytes(), b"=", &bytes].concat();
            prop_assert!(!key().is_opened_by(&bytes, KEY, 5));
            prop_assert!(!key().is_opened_by(&named, KEY, 5));
            let _ = password_of_form(&bytes);
        }
    }
}
