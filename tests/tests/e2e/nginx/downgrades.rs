//! The list of requests over HTTP/2 that become others where they are written as HTTP/1.1: from RFC 9113 (sections 8.1.1, 8.2, 8.3
//! and 10.3), and the downgrades that were published since.

/// A request over HTTP/2: what differs from a POST with the smuggled request as its body, with `content-length` only where it is here.
pub(super) struct Frames {
    pub(super) name: &'static str,
    /// In the place of the fields of these names, and behind the others.
    pub(super) fields: &'static [(&'static str, &'static [u8])],
    pub(super) trailers: &'static [(&'static str, &'static [u8])],
}

const fn frames(name: &'static str, fields: &'static [(&'static str, &'static [u8])]) -> Frames {
    Frames {
        name,
        fields,
        trailers: &[],
    }
}

const fn with_trailers(
    name: &'static str,
    trailers: &'static [(&'static str, &'static [u8])],
) -> Frames {
    Frames {
        name,
        fields: &[],
        trailers,
    }
}

/// The end of a request, and the smuggled one behind it, in a field.
const TAIL: &[u8] = b"x\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: go.example\r\nX: ";
const LINE: &[u8] = b"x\r\nTransfer-Encoding: chunked";

/// Downgrades: what HTTP/2 can carry, and HTTP/1.1 would read as another request.
pub(super) const DOWNGRADES: &[Frames] = &[
    frames("H2.CL: 0", &[("content-length", b"0")]),
    frames("H2.CL: less", &[("content-length", b"5")]),
    frames("H2.CL: more", &[("content-length", b"500")]),
    frames(
        "H2.CL: twice",
        &[("content-length", b"0"), ("content-length", b"47")],
    ),
    frames("H2.CL: no number", &[("content-length", b"+47")]),
    frames("H2.TE", &[("transfer-encoding", b"chunked")]),
    frames(
        "H2.TE and CL",
        &[("transfer-encoding", b"chunked"), ("content-length", b"0")],
    ),
    frames("te", &[("te", b"chunked")]),
    frames("connection", &[("connection", b"transfer-encoding")]),
    frames(
        "upgrade",
        &[("upgrade", b"h2c"), ("connection", b"upgrade")],
    ),
    frames("a value with a line", &[("user-agent", LINE)]),
    frames("a value with a request", &[("user-agent", TAIL)]),
    frames(
        "a value with LF",
        &[("referer", b"x\nTransfer-Encoding: chunked")],
    ),
    frames(
        "a value with CR",
        &[("referer", b"x\rTransfer-Encoding: chunked")],
    ),
    frames(
        "a value with NUL",
        &[("referer", b"x\0Transfer-Encoding: chunked")],
    ),
    frames(
        "cookies with a line",
        &[("cookie", b"a=b"), ("cookie", LINE)],
    ),
    frames(
        "a name with a line",
        &[("x: y\r\ntransfer-encoding", b"chunked")],
    ),
    frames(
        "a name with a colon",
        &[("transfer-encoding: chunked", b"x")],
    ),
    frames("a name with a space", &[("transfer-encoding ", b"chunked")]),
    frames("a name in capitals", &[("Transfer-Encoding", b"chunked")]),
    frames("a name that is empty", &[("", b"chunked")]),
    frames(
        "a path with a request",
        &[(":path", b"/known HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled")],
    ),
    frames(
        "a path with a space",
        &[(":path", b"/known HTTP/1.1 /smuggled")],
    ),
    frames("a path without a slash", &[(":path", b"smuggled")]),
    frames("a path with LF", &[(":path", b"/known\nX: y")]),
    frames(
        "a method with a request",
        &[(":method", b"GET /smuggled HTTP/1.1\r\nX: y\r\n\r\nPOST")],
    ),
    frames(
        "a method with a space",
        &[(":method", b"GET /smuggled HTTP/1.1 POST")],
    ),
    frames("a method that is CONNECT", &[(":method", b"CONNECT")]),
    frames(
        "an authority with a line",
        &[(":authority", b"go.example\r\nTransfer-Encoding: chunked")],
    ),
    frames(
        "an authority with a user",
        &[(":authority", b"smuggled@go.example")],
    ),
    frames(
        "an authority and another host",
        &[("host", b"evil.example")],
    ),
    frames(
        "a scheme with a request",
        &[(":scheme", b"https://go.example/smuggled?")],
    ),
    frames(
        "a scheme with a line",
        &[(":scheme", b"https\r\nTransfer-Encoding: chunked")],
    ),
    frames(
        "two paths",
        &[(":path", b"/known"), (":path", b"/smuggled")],
    ),
    frames("two methods", &[(":method", b"POST"), (":method", b"GET")]),
    frames("an unknown pseudo-header field", &[(":smuggled", b"x")]),
    frames(
        "a pseudo-header field behind others",
        &[("x", b"y"), (":path", b"/smuggled")],
    ),
    with_trailers(
        "trailers with a coding",
        &[("transfer-encoding", b"chunked")],
    ),
    with_trailers("trailers with a length", &[("content-length", b"0")]),
    with_trailers("trailers with a path", &[(":path", b"/smuggled")]),
    with_trailers("trailers with a request", &[("x", TAIL)]),
];
