# shellcheck shell=bash disable=SC2034 # envoy/run.sh, which sources this, uses them
# Parts of Envoy's configuration that are there if a variable of envoy/run.sh asks for them. Words in capitals are replaced there.

# In place of a discovery type: one node is asked for the others, and which has which slots is followed.
readonly redis_cluster='lb_policy: CLUSTER_PROVIDED
    cluster_type:
      name: envoy.clusters.redis
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.clusters.redis.v3.RedisClusterConfig
        cluster_refresh_rate: 1s
        cluster_refresh_timeout: 1s
        redirect_refresh_interval: 0.5s
        redirect_refresh_threshold: 1
        failure_refresh_threshold: 3'

# Of the admin interface, which has no password, what Prometheus and probes ask for.
readonly metrics_listener='
  - name: metrics
    address: { socket_address: { address: "ADDRESS", port_value: PORTBOTH } }
    ignore_global_conn_limit: true
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: metrics
          codec_type: HTTP1
          generate_request_id: false
          max_request_headers_kb: 8
          request_headers_timeout: 5s
          common_http_protocol_options: { idle_timeout: 60s, max_headers_count: 50 }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            name: metrics
            virtual_hosts:
            - name: metrics
              domains: ["*"]
              routes:
              - match: { path: /stats/prometheus, headers: &get [{ name: ":method", string_match: { exact: GET } }] }
                route: &admin { cluster: admin, timeout: 10s }
              - match: { path: /ready, headers: *get }
                route: *admin
              - match: { prefix: / }
                direct_response: { status: 404 }'
readonly metrics_cluster='
  - name: admin
    type: STATIC
    connect_timeout: 0.5s
    load_assignment:
      cluster_name: admin
      endpoints:
      - lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: PORT } } } }]'

# What the filter lets through and the control plane has pages for: previews (`code+`), `/+/` with its files, `/` or the prefix of
# links, and, where they have none, robots.txt. No other path of the control plane is reached this way.
readonly public_pages='
              - match: { safe_regex: { regex: "PREFIX[0-9A-Za-z_-]+([+]|%2[Bb])" } }
                route: &pages { cluster: pages, timeout: 12s }
              - match: { safe_regex: { regex: "/[+]/[0-9A-Za-z/_-]+([.]css)?" } }
                route: *pages'
readonly root_page='
              - match: { path: PREFIX }
                route: *pages'
readonly robots_page='
              - match: { path: /robots.txt }
                route: *pages'

# Before anything reads them: else any visitor could have each of his requests traced, here and at the control planes.
readonly no_trace_parents='
          early_header_mutation_extensions:
          - name: envoy.http.early_header_mutation.header_mutation
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
              mutations: [{ remove: traceparent }, { remove: tracestate }]'

# Spans for an OpenTelemetry collector, of a share of the requests; those whose `traceparent` says that they are sampled always are,
# where it is believed.
readonly tracing='
          tracing:
            random_sampling: { value: 100 }
            spawn_upstream_span: false
            custom_tags:
            - { tag: edgelink.outcome, value: "OUTCOME" }
            - { tag: edgelink.tier, value: "TIER" }
            - { tag: edgelink.key, value: "KEY" }
            provider:
              name: envoy.tracers.opentelemetry
              typed_config:
                "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                http_service: { http_uri: { uri: "http://ENDPOINT/v1/traces", cluster: otlp, timeout: 2s } }
                service_name: edgelink-edge
                sampler:
                  name: envoy.tracers.opentelemetry.samplers.parent_based
                  typed_config:
                    "@type": type.googleapis.com/envoy.extensions.tracers.opentelemetry.samplers.v3.ParentBasedSamplerConfig
                    wrapped_sampler:
                      name: envoy.tracers.opentelemetry.samplers.trace_id_ratio_based
                      typed_config:
                        "@type": type.googleapis.com/envoy.extensions.tracers.opentelemetry.samplers.v3.TraceIdRatioBasedSamplerConfig
                        sampling_percentage: { numerator: PERCENT, denominator: HUNDRED }'
readonly otlp_cluster='
  - name: otlp
    type: STRICT_DNS
    connect_timeout: 0.5s
    load_assignment:
      cluster_name: otlp
      endpoints:
      - lb_endpoints: ENDPOINTS'

# How clusters of control planes are watched: by requests and by probes.
readonly care='
    circuit_breakers:
      thresholds:
      - priority: DEFAULT
        max_connections: 256
        max_pending_requests: 4096
        max_requests: 4096
        max_retries: 256
        track_remaining: true
    # One bad replica is left out; when all are bad they are tried none the less (the panic threshold of 50 per cent).
    health_checks:
    - timeout: 1s
      interval: 2s
      interval_jitter: 0.5s
      no_traffic_interval: 5s
      unhealthy_interval: 1s
      unhealthy_threshold: 2
      healthy_threshold: 1
      http_health_check: { path: /health/ready }
    outlier_detection:
      interval: 1s
      consecutive_5xx: 10
      split_external_local_origin_errors: true
      consecutive_local_origin_failure: 5
      base_ejection_time: 2s
      max_ejection_time: 30s
      max_ejection_percent: 50'

# They are asked of a cluster of their own: the token of the edge API is not for what visitors send.
readonly pages_cluster='
  - name: pages
    type: STRICT_DNS
    connect_timeout: 0.5s
    lb_policy: LEAST_REQUEST
    per_connection_buffer_limit_bytes: 32768
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: { idle_timeout: 30s }
        explicit_http_config: { http_protocol_options: {} }PAGES_TLSCARE
    load_assignment:
      cluster_name: pages
      endpoints:
      - lb_endpoints: ENDPOINTS'

# Adds the token to what the filter sends. Envoy reads it from a file, again whenever that is replaced, and shows it nowhere.
readonly token_injector='
        http_filters:
        - name: envoy.filters.http.credential_injector
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector
            overwrite: true
            credential:
              name: envoy.http.injected_credentials.generic
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic
                credential: SECRET
                header: authorization
                header_value_prefix: "Bearer "
        - name: envoy.filters.http.upstream_codec
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec }'

# TLS towards a cluster, whose certificate has to be of the authority and for one of the names.
readonly upstream_tls='
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContextSNI
        common_tls_context:
          tls_params: { tls_minimum_protocol_version: TLSv1_2 }CERTIFICATE
          combined_validation_context:
            default_validation_context:
              match_typed_subject_alt_names: [NAMES]
            validation_context_sds_secret_config: SECRET'
readonly own_certificate='
          tls_certificate_sds_secret_configs: [SECRET]'

# Of redis_proxy, which logs in by itself.
readonly redis_auth='
    typed_extension_protocol_options:
      envoy.filters.network.redis_proxy:
        "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions
        auth_username: { inline_string: "USER" }
        auth_password: { filename: "FILE" }'

# The metrics of a native module are edgelink_* in Prometheus, as those of the Wasm module are, and not envoy_dynamicmodulescustom_*.
readonly native_guards='
      envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix: true'
