//! TLS, as `openssl s_client` sees it.

use super::start;
use edgelink_tests::stack::{EnvoyOptions, Nginx};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// What `openssl s_client` prints with these options, and whether there is a connection.
fn connect(nginx: &Nginx, options: &[&str]) -> (bool, String) {
    let output = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &nginx.https().to_string(),
            "-status",
        ])
        .arg("-CAfile")
        .arg(nginx.certificate())
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[tokio::test]
async fn protocols_and_ciphers_when_outdated_are_refused() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let nginx = Nginx::start(&[nowhere], &[nowhere], &[]).await;
    // The security level lets the client itself speak what is old.
    for old in ["-tls1", "-tls1_1"] {
        let (is_open, text) = connect(&nginx, &[old, "-cipher", "ALL:@SECLEVEL=0"]);
        assert!(!is_open && text.contains("alert"), "{old}: {text}");
    }
    for (options, protocol) in [
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"][..],
            "TLSv1.2",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            "TLSv1.2",
        ),
        (&["-tls1_3"], "TLSv1.3"),
    ] {
        let (is_open, text) = connect(&nginx, options);
        assert!(
            is_open && text.contains("Verification: OK"),
            "{options:?}: {text}"
        );
        assert!(
            text.contains(&format!("New, {protocol}, Cipher is")),
            "{options:?}: {text}"
        );
        // No stapled answer, as nginx/README.md says.
        assert!(
            text.contains("OCSP response: no response sent"),
            "{options:?}: {text}"
        );
        assert!(text.contains("Secure Renegotiation IS ") && !text.contains("Compression: z"));
    }
    for weak in [
        "AES128-SHA",
        "ECDHE-ECDSA-AES128-SHA",
        "AES128-GCM-SHA256",
        "aNULL",
        "DHE",
    ] {
        let cipher = format!("{weak}:@SECLEVEL=0");
        let (is_open, text) = connect(&nginx, &["-tls1_2", "-cipher", &cipher]);
        assert!(
            !is_open && text.contains("alert handshake failure"),
            "{weak}: {text}"
        );
    }
    for (offered, chosen) in [("h2,http/1.1", "h2"), ("http/1.1", "http/1.1")] {
        let (_, text) = connect(&nginx, &["-alpn", offered]);
        assert!(text.contains(&format!("ALPN protocol: {chosen}")), "{text}");
    }
}

#[tokio::test]
async fn certificate_when_renewed_loses_no_request() {
    let (nginx, edgelink) = start(EnvoyOptions::default(), &[]).await;
    let path = edgelink.link("").create().await.path();
    let visits = async {
        for _ in 0..300 {
            assert_eq!(nginx.follow(&path).await.status, 302);
        }
    };
    tokio::join!(nginx.renew_certificate(), visits);
}
