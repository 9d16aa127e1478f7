//! The list of requests over HTTP/1.1 by which requests are smuggled: from RFC 9112 (sections 2.2, 5, 6, 7 and 11.2), and the classes
//! that were published since (CL.TE, TE.CL, TE.TE, CL.0, TE.0, 0.CL, obs-fold, bare LF and CR, chunk extensions, hop-by-hop headers).

/// The request that must never be answered; the bytes that come behind it would be the value of its last header.
pub(super) const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: go.example\r\nX: ";

/// A request over HTTP/1.1. In its texts `{s}` is [`SMUGGLED`], `{n}` its length, `{x}` the same in hexadecimal.
pub(super) struct Raw {
    pub(super) name: &'static str,
    pub(super) head: &'static str,
    pub(super) body: &'static str,
}

const fn raw(name: &'static str, head: &'static str, body: &'static str) -> Raw {
    Raw { name, head, body }
}

impl Raw {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let text = format!("{}\r\n\r\n{}", self.head, self.body);
        let text = if self.head.ends_with("\n\n") {
            format!("{}{}", self.head, self.body)
        } else {
            text
        };
        let (length, hexadecimal) = (SMUGGLED.len(), format!("{:x}", SMUGGLED.len()));
        let text = text.replace("{n}", &length.to_string());
        text.replace("{x}", &hexadecimal)
            .replace("{s}", SMUGGLED)
            .into_bytes()
    }
}

/// A body of one chunk that ends, and what comes behind it.
const CHUNKED: &str = "0\r\n\r\n{s}";
/// A chunk that holds it.
const IN_CHUNK: &str = "{x}\r\n{s}\r\n0\r\n\r\n";

macro_rules! post {
    ($rest:literal) => {
        concat!("POST /known HTTP/1.1\r\nHost: go.example\r\n", $rest)
    };
}

/// Lengths that contradict each other: what counts for nginx must count for Envoy.
pub(super) const LENGTHS: &[Raw] = &[
    raw(
        "CL.TE",
        post!("Content-Length: 92\r\nTransfer-Encoding: chunked"),
        CHUNKED,
    ),
    raw(
        "CL.TE, TE first",
        post!("Transfer-Encoding: chunked\r\nContent-Length: 92"),
        CHUNKED,
    ),
    raw(
        "TE.CL",
        post!("Content-Length: 4\r\nTransfer-Encoding: chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE.CL, TE first",
        post!("Transfer-Encoding: chunked\r\nContent-Length: 4"),
        IN_CHUNK,
    ),
    raw(
        "CL 0 and TE",
        post!("Content-Length: 0\r\nTransfer-Encoding: chunked"),
        IN_CHUNK,
    ),
    raw(
        "CL.0 by GET",
        "GET /known HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "CL.0 by HEAD",
        "HEAD /known HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "CL.0 by OPTIONS",
        "OPTIONS /known HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "CL.0 by DELETE",
        "DELETE /known HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "CL.0 by POST to a page",
        "POST / HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "CL.0 by POST to a file",
        "POST /+/x.css HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "TE.0 by GET",
        "GET /known HTTP/1.1\r\nHost: go.example\r\nTransfer-Encoding: chunked",
        IN_CHUNK,
    ),
    raw(
        "TE.0 by OPTIONS",
        "OPTIONS /known HTTP/1.1\r\nHost: go.example\r\nTransfer-Encoding: chunked",
        IN_CHUNK,
    ),
    raw(
        "CL twice, alike",
        post!("Content-Length: {n}\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "CL twice, 0 first",
        post!("Content-Length: 0\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "CL twice, 0 last",
        post!("Content-Length: {n}\r\nContent-Length: 0"),
        "{s}",
    ),
    raw("CL as a list", post!("Content-Length: {n}, {n}"), "{s}"),
    raw(
        "CL as a list with 0",
        post!("Content-Length: 0, {n}"),
        "{s}",
    ),
    raw("CL with a plus", post!("Content-Length: +{n}"), "{s}"),
    raw("CL with a minus", post!("Content-Length: -1"), "{s}"),
    raw("CL in hexadecimal", post!("Content-Length: 0x{x}"), "{s}"),
    raw(
        "CL with a space inside",
        post!("Content-Length: 0 {n}"),
        "{s}",
    ),
    raw(
        "CL with zeros in front",
        post!("Content-Length: 000{n}"),
        "{s}",
    ),
    raw(
        "CL beyond 64 bits",
        post!("Content-Length: 18446744073709551616"),
        "{s}",
    ),
    raw("CL as a fraction", post!("Content-Length: {n}.0"), "{s}"),
    raw("CL that is empty", post!("Content-Length: "), ""),
    raw(
        "0.CL: CL behind a space",
        post!("Content-Length : {n}\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw("CL behind a tab", post!("Content-Length:\t{n}"), "{s}"),
    raw(
        "CL behind a vertical tab",
        post!("Content-Length: \x0b{n}"),
        "{s}",
    ),
    raw(
        "CL with an underscore",
        post!("Content_Length: 0\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "CL that Connection names",
        post!("Connection: close, Content-Length\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "100-continue",
        post!("Expect: 100-continue\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "100-continue in disguise",
        post!("Expect: y 100-continue\r\nContent-Length: {n}"),
        "{s}",
    ),
];

/// Names and values of `Transfer-Encoding` that one server takes for it, and another one does not.
pub(super) const CODINGS: &[Raw] = &[
    raw(
        "TE.TE: chunked and identity",
        post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
        IN_CHUNK,
    ),
    raw(
        "TE.TE: identity and chunked",
        post!("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE.TE: twice",
        post!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE.TE: cow",
        post!("Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE list",
        post!("Transfer-Encoding: chunked, identity\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE list, chunked last",
        post!("Transfer-Encoding: gzip, chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE identity",
        post!("Transfer-Encoding: identity\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE xchunked",
        post!("Transfer-Encoding: xchunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE in quotes",
        post!("Transfer-Encoding: \"chunked\"\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE in capitals",
        post!("TRANSFER-ENCODING: CHUNKED"),
        IN_CHUNK,
    ),
    raw(
        "TE without a space",
        post!("Transfer-Encoding:chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE behind a space",
        post!("Transfer-Encoding : chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE behind a tab",
        post!("Transfer-Encoding:\tchunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with a space at the line's start",
        post!(" Transfer-Encoding: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE behind a vertical tab",
        post!("Transfer-Encoding: \x0bchunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE before a form feed",
        post!("Transfer-Encoding: chunked\x0c\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with NUL",
        post!("Transfer-Encoding: chunked\0\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with NUL in its name",
        post!("Transfer-Encoding\0: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with an underscore",
        post!("Transfer_Encoding: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE behind a bare LF",
        post!("X: x\nTransfer-Encoding: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE behind a bare CR",
        post!("X: x\rTransfer-Encoding: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE over two lines",
        post!("Transfer-Encoding\r\n: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE in obs-fold",
        post!("X: x\r\n Transfer-Encoding: chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with its value in obs-fold",
        post!("Transfer-Encoding:\r\n chunked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE with half a value in obs-fold",
        post!("Transfer-Encoding: chun\r\n ked\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "CL with its value in obs-fold",
        post!("Content-Length:\r\n {n}\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE before two CR",
        post!("Transfer-Encoding: chunked\r\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "TE in HTTP/1.0",
        "POST /known HTTP/1.0\r\nHost: go.example\r\nTransfer-Encoding: chunked\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "TE that Connection names",
        post!("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked"),
        IN_CHUNK,
    ),
    raw(
        "TE and Upgrade",
        post!(
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nTransfer-Encoding: chunked"
        ),
        IN_CHUNK,
    ),
];

/// Chunks that servers count differently, and lines that end differently.
pub(super) const CHUNKS_AND_LINES: &[Raw] = &[
    raw(
        "a chunk with a bare LF",
        post!("Transfer-Encoding: chunked"),
        "{x}\n{s}\n0\n\n",
    ),
    raw(
        "a chunk's size in hexadecimal twice",
        post!("Transfer-Encoding: chunked"),
        "0x{x}\r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk's size with a sign",
        post!("Transfer-Encoding: chunked"),
        "-1\r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk's size beyond 64 bits",
        post!("Transfer-Encoding: chunked"),
        "10000000000000000\r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk's size with a space",
        post!("Transfer-Encoding: chunked"),
        "{x} \r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk with an extension",
        post!("Transfer-Encoding: chunked"),
        "{x};a=b\r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "an extension with a bare LF",
        post!("Transfer-Encoding: chunked"),
        "{x};a\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "an extension with a bare CR",
        post!("Transfer-Encoding: chunked"),
        "{x};a\r{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk longer than its size",
        post!("Transfer-Encoding: chunked"),
        "1\r\n{s}\r\n0\r\n\r\n",
    ),
    raw(
        "a chunk without its end",
        post!("Transfer-Encoding: chunked"),
        "{x}\r\n{s}XX0\r\n\r\n",
    ),
    raw(
        "a length in trailers",
        post!("Transfer-Encoding: chunked"),
        "{x}\r\n{s}\r\n0\r\nContent-Length: 5\r\nHost: evil.example\r\n\r\n",
    ),
    raw(
        "a bare LF at each line",
        "POST /known HTTP/1.1\nHost: go.example\nContent-Length: {n}\n\n",
        "{s}",
    ),
    raw(
        "a bare CR at a line",
        "POST /known HTTP/1.1\r\nHost: go.example\rContent-Length: 0\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "obs-fold of the first header",
        "POST /known HTTP/1.1\r\n Host: go.example\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "two hosts",
        "POST /known HTTP/1.1\r\nHost: go.example\r\nHost: evil.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "another host in the target",
        "POST http://evil.example/known HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "two versions",
        "POST /known HTTP/1.1 HTTP/1.1\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "a later version",
        "POST /known HTTP/1.9\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw(
        "HTTP/2 by its name",
        "POST /known HTTP/2.0\r\nHost: go.example\r\nContent-Length: {n}",
        "{s}",
    ),
    raw("HTTP/0.9", "GET /known", ""),
    raw(
        "a request in a target",
        "GET /known?HTTP/1.1%0d%0aHost:%20go.example%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: go.example",
        "",
    ),
    raw(
        "a header without a name",
        post!(": x\r\nContent-Length: {n}"),
        "{s}",
    ),
    raw(
        "a header without a colon",
        post!("Transfer-Encoding\r\nContent-Length: {n}"),
        "{s}",
    ),
];
