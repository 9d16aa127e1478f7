#!/usr/bin/env bash
# Makes a certificate of its own making for 127.0.0.1 and localhost, which no client knows: `nginx/certificate.sh FOLDER` writes
# certificate.pem and key.pem. One that is there already is kept until the day before it ends.
set -euo pipefail

(($# == 1)) || {
  printf '%s: give it a folder\n' "$0" >&2
  exit 1
}
if openssl x509 -checkend 86400 -noout -in "$1/certificate.pem" >/dev/null 2>&1; then exit; fi
umask 077
mkdir -p "$1"
# Not by `openssl req` and its own configuration, whose certificates are those of authorities.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 90 -keyout "$1/key.pem" -out "$1/certificate.pem" \
  -config - <<'CONFIG'
[req]
prompt = no
distinguished_name = name
x509_extensions = server
[name]
CN = edgelink
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
CONFIG
