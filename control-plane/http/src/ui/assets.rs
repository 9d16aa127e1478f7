//! Assets of pages: styles, and the script with its module, embedded by `build.rs`.
//!
//! Their path has a hash over all of them, so that browsers cache them for good and never mix versions. A path with another
//! hash, requested by a page of another version during an upgrade, gets the file of this version, uncached.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use edgelink_service::problem::{Kind, Problem};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// A file, plain and compressed with gzip.
struct Asset {
    name: &'static str,
    bytes: &'static [u8],
    gzip: &'static [u8],
}

/// All files, ordered by name.
const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The script, and the module that it needs.
const SCRIPT: [&str; 3] = ["console.js", "console_module.js", "console_module_bg.wasm"];

const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// The hash over all files, in 16 hexadecimal digits.
static HASH: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = Sha256::new();
    for asset in ASSETS {
        hasher.update(asset.name.len().to_le_bytes());
        hasher.update(asset.name);
        hasher.update(asset.bytes.len().to_le_bytes());
        hasher.update(asset.bytes);
    }
    hex::encode(&hasher.finalize()[..8])
});

/// Path of the files for the console.
const CONSOLE: &str = "/console/assets";

/// Path of the files for visitors' pages: edges route it here, unlike the console.
const PUBLIC: &str = "/+/assets";

/// The routes of the files.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route(&format!("{CONSOLE}/{{hash}}/{{name}}"), get(serve))
}

/// The routes of the files for visitors' pages.
pub fn public_routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route(&format!("{PUBLIC}/{{hash}}/{{name}}"), get(serve))
}

/// The address of a file, which changes with any of them.
pub fn url(name: &str) -> String {
    format!("{CONSOLE}/{}/{name}", *HASH)
}

/// The address of a file for visitors' pages.
pub(crate) fn public_url(name: &str) -> String {
    format!("{PUBLIC}/{}/{name}", *HASH)
}

/// The address of the script; `None` if this binary was built without its module, and pages work without it.
pub fn script() -> Option<String> {
    SCRIPT
        .iter()
        .all(|name| find(name).is_some())
        .then(|| url("console.js"))
}

fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

async fn serve(Path((hash, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let Some(asset) = find(&name) else {
        return Problem::new(Kind::NotFound).into_response();
    };
    let cache_control = if hash == *HASH { IMMUTABLE } else { NO_CACHE };
    let tag = format!("\"{}\"", *HASH);
    let is_known = has_tag(&headers, &tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        content(asset, accepts_gzip(&headers))
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, cache_control);
    headers.insert(header::VARY, header::ACCEPT_ENCODING.into());
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn content(asset: &Asset, is_compressed: bool) -> Response {
    let bytes = if is_compressed {
        asset.gzip
    } else {
        asset.bytes
    };
    let mut response = Bytes::from_static(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type(asset.name));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, GZIP);
    }
    response
}

fn content_type(name: &str) -> HeaderValue {
    HeaderValue::from_static(match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "wasm")) => "application/wasm",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    })
}

/// True if `If-None-Match` matches the tag by weak comparison (RFC 9110, section 13.1.2).
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut tags = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    tags.any(|one| {
        let one = one.trim();
        one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag
    })
}

/// True if the client accepts gzip; a weight of 0 means that it does not (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").unwrap_or_default();
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn gzip_when_client_accepts_it_is_sent() {
        for (value, accepts) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1, GZIP;q=0.5", true),
            ("br, gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let headers = headers(header::ACCEPT_ENCODING, value);
            assert_eq!(accepts_gzip(&headers), accepts, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn entity_tag_when_in_a_list_is_found() {
        for (value, is_found) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            let headers = headers(header::IF_NONE_MATCH, value);
            assert_eq!(has_tag(&headers, "\"a\""), is_found, "{value}");
        }
    }
}
