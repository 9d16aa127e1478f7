# shellcheck shell=bash disable=SC2034,SC2154 # front is read, and root, state and logs are set, where this is sourced
# nginx in front of the shapes full and cluster: with a certificate of its own making, and metrics.

export EDGELINK_HTTPS_PORT=${EDGELINK_HTTPS_PORT:-8443}
export EDGELINK_HTTP_PORT=${EDGELINK_HTTP_PORT:-8000}
export EDGELINK_FRONT_STATUS_PORT=${EDGELINK_FRONT_STATUS_PORT:-8001}
export EDGELINK_FRONT_METRICS_PORT=${EDGELINK_FRONT_METRICS_PORT:-9113}
export EDGELINK_FRONT_EVENTS_PORT=${EDGELINK_FRONT_EVENTS_PORT:-3903}
front=https://127.0.0.1:$EDGELINK_HTTPS_PORT

# Programs and ports, before anything is started.
front_is_possible() {
  local program
  for program in nginx openssl prometheus-nginx-exporter mtail; do
    command -v "$program" >/dev/null || fail "$program is missing (make setup installs it)"
  done
  port_is_free "$EDGELINK_HTTPS_PORT" EDGELINK_HTTPS_PORT
  port_is_free "$EDGELINK_HTTP_PORT" EDGELINK_HTTP_PORT
  port_is_free "$EDGELINK_FRONT_STATUS_PORT" EDGELINK_FRONT_STATUS_PORT
  port_is_free "$EDGELINK_FRONT_METRICS_PORT" EDGELINK_FRONT_METRICS_PORT
  port_is_free "$EDGELINK_FRONT_EVENTS_PORT" EDGELINK_FRONT_EVENTS_PORT
}

# What the other parts must know: which host links have, and that Envoy hears from nginx who its visitors are.
announce_front() {
  export EDGELINK_DOMAINS=${EDGELINK_DOMAINS:-127.0.0.1:$EDGELINK_HTTPS_PORT}
  export EDGELINK_LINKS_SHORT_URL_SCHEME=${EDGELINK_LINKS_SHORT_URL_SCHEME:-https}
  export EDGELINK_LINKS_SHARED_CACHE_SECONDS=${EDGELINK_LINKS_SHARED_CACHE_SECONDS:-2}
  export EDGELINK_TRUSTED_HOPS=${EDGELINK_TRUSTED_HOPS:-1}
}

# Root's workers are root's here, as the state folder is.
start_front() {
  if [[ -z ${EDGELINK_CERTIFICATE:-} ]]; then
    local tls=$state/nginx/tls
    "$root/nginx/certificate.sh" "$tls" 2>"$logs/certificate.log" || fail "no certificate (see $logs/certificate.log)"
    export EDGELINK_CERTIFICATE=$tls/certificate.pem EDGELINK_CERTIFICATE_KEY=$tls/key.pem
  fi
  export EDGELINK_FRONT_USER=${EDGELINK_FRONT_USER:-$(id -un)}
  start nginx "$root/nginx/run.sh"
  await_url "http://127.0.0.1:$EDGELINK_FRONT_STATUS_PORT/health"
  start nginx-exporter prometheus-nginx-exporter -web.listen-address "127.0.0.1:$EDGELINK_FRONT_METRICS_PORT" \
    -nginx.scrape-uri "http://127.0.0.1:$EDGELINK_FRONT_STATUS_PORT/stub_status" -nginx.timeout 2s -nginx.retries 30 -nginx.retry-interval 1s
  await_url "http://127.0.0.1:$EDGELINK_FRONT_METRICS_PORT/metrics"
  start nginx-events mtail -progs "$root/nginx/events.mtail" -logs "$state/nginx/events.log" -logtostderr \
    -address 127.0.0.1 -port "$EDGELINK_FRONT_EVENTS_PORT"
  await_url "http://127.0.0.1:$EDGELINK_FRONT_EVENTS_PORT/metrics"
}
