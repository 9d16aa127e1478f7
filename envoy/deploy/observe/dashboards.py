#!/usr/bin/env python3
"""The dashboards of Grafana, written as JSON into grafana/dashboards/; with `--check` only compared with what is there.

A panel is a title, a unit of Grafana, and queries with their legends. In a query,
EDGE and PLANE stand for the choice of instances at the top of a dashboard, and RATE for Grafana's interval of rates.
"""

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "grafana" / "dashboards"
WIDTH, HEIGHT, STAT_HEIGHT = 24, 8, 4

# The variables that a dashboard offers at its top: a name, and the job whose instances it lists.
INSTANCES = {"EDGE": ("edge", "edgelink-edge"), "PLANE": ("control_plane", "edgelink-control-plane")}


def quantile(share, metric, selector, by="le"):
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{{{selector}}}[RATE])))"


def rates(metric, by, selector="EDGE"):
    return (f"sum by ({by}) (rate({metric}{{{selector}}}[RATE]))", f"{{{{{by}}}}}")


HTTP = 'envoy_http_conn_manager_prefix="edge",EDGE'
CLUSTER = 'envoy_cluster_name="control_plane",EDGE'

EDGES = {
    "stats": [
        ("Requests", "reqps", ["sum(edgelink:edge_requests:rate5m{EDGE})"], []),
        ("P99 (goal: under 50 ms)", "ms", ["max(edgelink:redirect_milliseconds:p99_rate5m{EDGE})"], [50]),
        ("Hit share (goal: over 95 %)", "percentunit", ["min(edgelink:hit_share:rate5m{EDGE})"], [0.95, "below"]),
        ("Rejects (goal: under 0.1 %)", "percentunit", ["max(edgelink:reject_share:rate5m{EDGE})"], [0.001]),
        ("Stale answers", "reqps", ['sum(rate(edgelink_requests{edgelink_tier="stale",EDGE}[RATE]))'], [0.001]),
        ("Workers without admission", "short", ["sum((envoy_server_concurrency{EDGE} unless on (instance) edgelink_panics) - on (instance) edgelink_admission) or sum(edgelink_admission{EDGE} == bool 0)"], [1]),
        ("Reloads of the filter, a day", "short",
         ["sum(increase(envoy_wasm_edgelink_vm_reload_success{EDGE}[1d])) + sum(increase(envoy_wasm_edgelink_vm_reload_failure{EDGE}[1d]))"
          " or sum(increase(edgelink_panics{EDGE}[1d]))"], [1]),
        ("Next certificate ends in", "d", ["min(envoy_server_days_until_first_cert_expiring{EDGE} < 4294967295)"], [14, "below"]),
    ],
    "graphs": [
        ("Requests by tier", "reqps", "Where answers come from. lru and shared_data are the edge's own memory.",
         [rates("edgelink_requests", "edgelink_tier")]),
        ("Requests by outcome", "reqps", "What became of the links that were asked for.",
         [rates("edgelink_requests", "edgelink_outcome")]),
        ("Time of a request", "ms", "As Envoy measures it, pages for visitors among them. Buckets end at 0.5, 1, 5, 10, 25, 50, 100 ms.",
         [(quantile(share, "envoy_http_downstream_rq_time", HTTP), f"p{name}") for share, name in ((0.5, 50), (0.9, 90), (0.99, 99))]),
        ("Hit share by edge", "percentunit", "Of the requests that need a link, those answered without Redis and control plane.",
         [("edgelink:hit_share:rate5m{EDGE}", "{{instance}}")]),
        ("Rejects", "reqps", "503 of whatever cause, and 429 of the limit by address.",
         [(f'sum(rate(envoy_http_downstream_rq_xx{{envoy_response_code_class="5",{HTTP}}}[RATE]))', "5xx"),
          ('sum(rate(edgelink_requests{edgelink_outcome="limited",EDGE}[RATE]))', "429")]),
        ("Feed", "cps", "Messages applied, once a worker. A beat comes each second.", [rates("edgelink_feed", "edgelink_outcome")]),
        ("Lookups at the control plane", "reqps", "rejected: not sent, because of a bound, the open circuit or the proxy.",
         [rates("edgelink_callouts", "edgelink_outcome")]),
        ("Time of a lookup at the control plane", "ms", "From sending it to its end.",
         [(quantile(share, "edgelink_callout_milliseconds", "EDGE"), f"p{name}") for share, name in ((0.5, 50), (0.99, 99))]),
        ("Lookups in Redis", "reqps", "All but ok and absent go on to the control plane.", [rates("edgelink_redis", "edgelink_outcome")]),
        ("Connections to Redis", "short", "That stand, and attempts in each minute.",
         [("sum by (instance) (edgelink_redis_connected{EDGE})", "{{instance}}"),
          ("sum(increase(edgelink_redis_attempts{EDGE}[1m]))", "attempts")]),
        ("Failures of polls, snapshots and visits", "cps", "Callouts on the worker's own account.",
         [('sum(rate(edgelink_poll{edgelink_outcome="failed",EDGE}[RATE]))', "polls"),
          ('sum(rate(edgelink_snapshot{edgelink_outcome="failed",EDGE}[RATE]))', "snapshots"),
          ('sum(rate(edgelink_visits{edgelink_outcome=~"failed|rejected",EDGE}[RATE]))', "visits"),
          ('sum(rate(edgelink_visit_return{edgelink_outcome="failed",EDGE}[RATE]))', "returned visits")]),
        ("Passwords", "reqps", "Forms with the password of a link.", [rates("edgelink_unlocks", "edgelink_outcome")]),
        ("LRU", "bytes", "Of all workers of an edge.", [("edgelink_lru_bytes{EDGE}", "{{instance}}")]),
        ("Links in the LRUs", "short", "One that several workers hold counts for each.", [("edgelink_lru_entries{EDGE}", "{{instance}}")]),
        ("Connections of visitors", "short", "Open ones.", [(f"sum by (instance) (envoy_http_downstream_cx_active{{{HTTP}}})", "{{instance}}")]),
        ("Envoy's heap", "bytes", "Shared data and buffers; the VMs of the workers are not in it.",
         [("envoy_server_memory_allocated{EDGE}", "{{instance}}")]),
        ("Control planes that are healthy", "short", "As the edge's health checks see them.",
         [(f"envoy_cluster_membership_healthy{{{CLUSTER}}}", "{{instance}}"),
          (f"max(envoy_cluster_membership_total{{{CLUSTER}}})", "all")]),
        ("Overload", "short", "1 while Envoy takes no further connections, or requests.",
         [("max(envoy_overload_envoy_overload_actions_stop_accepting_connections_active{EDGE})", "connections"),
          ("max(envoy_overload_envoy_overload_actions_stop_accepting_requests_active{EDGE})", "requests")]),
    ],
}

CONTROL_PLANE = {
    "stats": [
        ("Requests", "reqps", ["sum(edgelink:api_requests:rate5m{PLANE})"], []),
        ("5xx", "percentunit", ["max(edgelink:api_error_share:rate5m{PLANE})"], [0.01]),
        ("Publishers (one)", "short", ["sum(edgelink_publisher_leader{PLANE})"], [1, "below"]),
        ("Outbox age", "s", ["max(edgelink_outbox_age_seconds{PLANE})"], [5]),
        ("Feed lag", "s", ["max(edgelink_feed_age_seconds{PLANE})"], [4]),
        ("Links created, an hour", "short", ["sum(increase(edgelink_links_created_total{PLANE}[1h]))"], []),
    ],
    "graphs": [
        ("Requests by route", "reqps", "", [rates("edgelink_http_requests_total", "route", "PLANE")]),
        ("Answers by status", "reqps", "", [rates("edgelink_http_requests_total", "status", "PLANE")]),
        ("P99 of the API by route", "s", "From the head of the request to the head of its answer.",
         [(quantile(0.99, "edgelink_http_request_duration_seconds", 'route=~"/api/.*",PLANE', "route, le"), "{{route}}")]),
        ("P99 of the edge API by route", "s", "Polls of the feed are left out: they wait.",
         [(quantile(0.99, "edgelink_http_request_duration_seconds", 'route=~"/edge/.*",route!="/edge/v1/feed",PLANE', "route, le"), "{{route}}")]),
        ("Feed lag", "s", "Everything that was committed longer ago has come by the feed. Above 4 s nothing cached is used.",
         [("edgelink_feed_age_seconds{PLANE}", "{{instance}}")]),
        ("Outbox", "s", "Age of the oldest change that waits to be published.", [("edgelink_outbox_age_seconds{PLANE}", "{{instance}}")]),
        ("Changes that wait", "short", "Counted up to 100,000.", [("edgelink_outbox_rows{PLANE}", "{{instance}}")]),
        ("Who publishes", "short", "1 where a control plane does.", [("edgelink_publisher_leader{PLANE}", "{{instance}}")]),
        ("Changes published", "cps", "", [("sum(rate(edgelink_publisher_changes_total{PLANE}[RATE]))", "changes"),
                                          ("sum(rate(edgelink_publisher_failures_total{PLANE}[RATE]))", "rounds that failed"),
                                          ("sum(rate(edgelink_publisher_fenced_total{PLANE}[RATE]))", "fenced")]),
        ("Generations and gaps, 10 minutes", "short", "How often everything was asked for again, and changes were missing.",
         [("sum by (reason) (increase(edgelink_feed_generations_total{PLANE}[10m]))", "{{reason}}"),
          ("sum(increase(edgelink_feed_gaps_total{PLANE}[10m]))", "gaps")]),
        ("Lookups by tier", "reqps", "Where lookups of edges and visitors were answered.", [rates("edgelink_resolutions_total", "tier", "PLANE")]),
        ("Lookups by edges", "reqps", "", [rates("edgelink_edge_lookups_total", "outcome", "PLANE")]),
        ("Visitors of the control plane", "reqps", "Redirects that it answers itself.", [rates("edgelink_redirects_total", "outcome", "PLANE")]),
        ("Limited visits and passwords", "reqps", "", [("sum(rate(edgelink_visits_leased_total{PLANE}[RATE]))", "visits leased"),
                                                       ("sum by (outcome) (rate(edgelink_unlocks_total{PLANE}[RATE]))", "password {{outcome}}")]),
        ("Refused", "reqps", "429 by the limit that was exceeded, connections closed at once, limits that counted without Redis.",
         [("sum by (policy) (rate(edgelink_requests_limited_total{PLANE}[RATE]))", "{{policy}}"),
          ("sum(rate(edgelink_http_connections_refused_total{PLANE}[RATE]))", "connections"),
          ("sum(rate(edgelink_limits_degraded_total{PLANE}[RATE]))", "without Redis")]),
        ("Logins to the console", "cps", "", [rates("edgelink_console_logins_total", "outcome", "PLANE")]),
        ("Webhooks", "cps", "Attempts to deliver.", [rates("edgelink_webhook_attempts_total", "outcome", "PLANE")]),
        ("Webhooks that wait", "s", "For how long the delivery that is due longest is due.", [("max(edgelink_webhook_age_seconds{PLANE})", "age")]),
    ],
}

DATABASE = {
    "stats": [
        ("Calls of the database", "ops", ["sum(rate(edgelink_store_call_duration_seconds_count{PLANE}[RATE]))"], []),
        ("P99 of a call", "s", [quantile(0.99, "edgelink_store_call_duration_seconds", "PLANE")], [0.25]),
        ("Errors that stay", "short", ['sum(increase(edgelink_store_errors_total{transient="false",PLANE}[1h]))'], [1]),
        ("Numbers used", "percentunit", ["max(edgelink_issuer_used_ratio{PLANE})"], [0.9]),
        ("Issuers leased, of 1,000", "short", ["max(edgelink_issuers_held{PLANE})"], [900]),
        ("Links past their retention", "short", ["max(edgelink_purge_due_links{PLANE})"], [1]),
    ],
    "graphs": [
        ("Calls of the database, the 10 most frequent", "ops", "",
         [("topk(10, sum by (operation) (rate(edgelink_store_call_duration_seconds_count{PLANE}[RATE])))", "{{operation}}")]),
        ("P99 of a call, the 10 slowest", "s", "",
         [("topk(10, " + quantile(0.99, "edgelink_store_call_duration_seconds", "PLANE", "operation, le") + ")", "{{operation}}")]),
        ("Time in the database, the 10 that take most", "percentunit", "Seconds in each second, of all connections.",
         [("topk(10, sum by (operation) (rate(edgelink_store_call_duration_seconds_sum{PLANE}[RATE])))", "{{operation}}")]),
        ("Errors of the database", "ops", "transient=false does not go away by itself.",
         [("sum by (operation, transient) (rate(edgelink_store_errors_total{PLANE}[RATE]))", "{{operation}} transient={{transient}}")]),
        ("Links created", "cps", "", [rates("edgelink_links_created_total", "kind", "PLANE")]),
        ("Links in a transaction", "short", "How many requests share a commit.",
         [("sum(rate(edgelink_links_created_total{PLANE}[RATE])) / sum(rate(edgelink_create_batches_total{PLANE}[RATE]))", "links")]),
        ("Numbers issued", "cps", "", [("sum by (instance) (rate(edgelink_numbers_issued_total{PLANE}[RATE]))", "{{instance}}")]),
        ("Segments drawn", "cps", "", [rates("edgelink_issuer_segments_total", "outcome", "PLANE")]),
        ("Numbers of the next draw", "short", "", [("edgelink_issuer_step{PLANE}", "{{instance}}")]),
        ("Numbers used", "percentunit", "Of all numbers of the code length.", [("max(edgelink_issuer_used_ratio{PLANE})", "used")]),
        ("P99 of calls of Redis", "s", "read_feed waits for changes.",
         [(quantile(0.99, "edgelink_redis_call_duration_seconds", 'operation!="read_feed",PLANE', "operation, le"), "{{operation}}")]),
        ("Errors of Redis", "ops", "skipped: not sent, for Redis did not answer a moment ago.",
         [("sum by (kind) (rate(edgelink_redis_errors_total{PLANE}[RATE]))", "{{kind}}"),
          ("sum(rate(edgelink_redis_malformed_records_total{PLANE}[RATE]))", "unreadable records")]),
        ("Rows purged", "cps", "", [rates("edgelink_purged_total", "kind", "PLANE")]),
        ("Purges that failed", "cps", "", [rates("edgelink_purge_failures_total", "kind", "PLANE")]),
    ],
}

ANALYTICS = {
    "stats": [
        ("Clicks at edges", "cps", ['sum(rate(edgelink_clicks{edgelink_outcome="sent",EDGE}[RATE]))'], []),
        ("Clicks written", "cps", ["sum(rate(edgelink_clicks_written_total{PLANE}[RATE]))"], []),
        ("Clicks lost, a day", "short", ['sum(increase(edgelink_clicks{edgelink_outcome="dropped",EDGE}[1d]))'], [1]),
        ("Oldest report that waits", "s", ["max(edgelink_click_queue_age_seconds{PLANE})"], [10]),
        ("Reports that wait", "bytes", ["max(edgelink_click_queue_bytes{PLANE})"], [536870912]),
        ("Reports set aside, a day", "short", ["sum(increase(edgelink_click_reports_aside_total{PLANE}[1d]))"], [1]),
    ],
    "graphs": [
        ("Clicks at edges", "cps", "sent is acknowledged and dropped together, once nothing is under way.", [rates("edgelink_clicks", "edgelink_outcome")]),
        ("Reports of edges", "cps", "", [rates("edgelink_click_report", "edgelink_outcome")]),
        ("Clicks at control planes", "cps", "Counted when their report is in the queue, written when analytics have them.",
         [("sum(rate(edgelink_clicks_counted_total{PLANE}[RATE]))", "counted"), ("sum(rate(edgelink_clicks_written_total{PLANE}[RATE]))", "written")]),
        ("Batches of clicks", "cps", "repeated: sent again, and counted once.", [rates("edgelink_click_batches_total", "outcome", "PLANE")]),
        ("Losses, as edges have reported", "cps", "",
         [("sum(rate(edgelink_clicks_dropped_total{PLANE}[RATE]))", "dropped"), ("sum(rate(edgelink_clicks_undescribed_total{PLANE}[RATE]))", "without attributes")]),
        ("Queue", "bytes", "Bytes of reports that wait to be written.", [("edgelink_click_queue_bytes{PLANE}", "{{instance}}")]),
        ("Age of the queue", "s", "", [("max(edgelink_click_queue_age_seconds{PLANE})", "oldest report")]),
        ("Writes that failed", "cps", "They are repeated.", [("sum(rate(edgelink_click_write_failures_total{PLANE}[RATE]))", "failures")]),
        ("Listeners of live clicks", "short", "", [("sum(edgelink_live_listeners{PLANE})", "listeners")]),
        ("Webhooks disabled, a day", "short", "", [("sum by (reason) (increase(edgelink_webhooks_disabled_total{PLANE}[1d]))", "{{reason}}")]),
    ],
}

# All of them together: an nginx has one instance for its exporter and another one for its log of events.
NGINX = {
    "stats": [
        ("nginx that answer", "short", ["sum(nginx_up)"], [1, "below"]),
        ("Requests", "reqps", ["edgelink:nginx_requests:rate5m"], []),
        ("Answered by control planes", "reqps", ['sum(rate(edgelink_nginx_events_total{answered_by="control_planes"}[RATE]))'], [0.001]),
        ("5xx", "percentunit", ["edgelink:nginx_error_share:rate5m"], [0.001]),
        ("429", "percentunit", ["edgelink:nginx_limited_share:rate5m"], [0.05]),
    ],
    "graphs": [
        ("Requests", "reqps", "Of clients, and of the exporter.", [("sum by (instance) (rate(nginx_http_requests_total[RATE]))", "{{instance}}")]),
        ("What no Envoy answered", "reqps", "nginx: redirects to HTTPS, errors, 503.html. limit: 429.",
         [("sum by (answered_by, status) (rate(edgelink_nginx_events_total[RATE]))", "{{answered_by}} {{status}}")]),
        ("Failover by cache", "reqps", "STALE: no control plane answers either.",
         [('sum by (cache) (rate(edgelink_nginx_events_total{answered_by="control_planes"}[RATE]))', "{{cache}}")]),
        ("Connections", "short", "waiting: idle ones of clients.",
         [(f"sum(nginx_connections_{state})", state) for state in ("active", "reading", "writing", "waiting")]),
    ],
}

DASHBOARDS = {
    "edges": ("Edges", EDGES),
    "control-plane": ("Control plane", CONTROL_PLANE),
    "database": ("Database, Redis and issuers", DATABASE),
    "analytics": ("Clicks and analytics", ANALYTICS),
    "nginx": ("nginx", NGINX),
}


def filled(expression):
    for word, (variable, _) in INSTANCES.items():
        expression = expression.replace(word, f'instance=~"${variable}"')
    return expression.replace("RATE", "$__rate_interval")


def targets(queries):
    return [
        {"refId": chr(ord("A") + at), "expr": filled(expression), "legendFormat": legend, "datasource": {"type": "prometheus", "uid": "edgelink"}}
        for at, (expression, legend) in enumerate(queries)
    ]


def panel(number, kind, title, unit, description, queries, place):
    return {
        "id": number,
        "type": kind,
        "title": title,
        "description": description,
        "datasource": {"type": "prometheus", "uid": "edgelink"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": targets(queries),
    }


def steps(bound):
    """The colours of a figure: green, and red from the bound on, or below it."""
    if not bound:
        return [{"color": "text", "value": None}]
    colors = ("red", "green") if bound[1:] == ["below"] else ("green", "red")
    return [{"color": colors[0], "value": None}, {"color": colors[1], "value": bound[0]}]


def panels(content):
    made, width = [], WIDTH // len(content["stats"])
    for at, (title, unit, expressions, bound) in enumerate(content["stats"]):
        place = {"x": at * width, "y": 0, "w": width, "h": STAT_HEIGHT}
        made.append(panel(len(made) + 1, "stat", title, unit, "", [(e, "") for e in expressions], place))
        made[-1]["fieldConfig"]["defaults"]["thresholds"] = {"mode": "absolute", "steps": steps(bound)}
        made[-1]["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    for at, (title, unit, description, queries) in enumerate(content["graphs"]):
        place = {"x": at % 2 * WIDTH // 2, "y": STAT_HEIGHT + at // 2 * HEIGHT, "w": WIDTH // 2, "h": HEIGHT}
        made.append(panel(len(made) + 1, "timeseries", title, unit, description, queries, place))
        made[-1]["options"] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return made


def variables(content):
    text = json.dumps(content)
    return [
        {
            "name": name,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "edgelink"},
            "query": {"query": f'label_values(up{{job="{job}"}}, instance)', "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }
        for word, (name, job) in INSTANCES.items()
        if word in text
    ]


def dashboard(name, title, content):
    return {
        "uid": f"edgelink-{name}",
        "title": title,
        "tags": ["edgelink"],
        "editable": False,
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "links": [{"type": "dashboards", "tags": ["edgelink"], "title": "edgelink", "asDropdown": False, "keepTime": True}],
        "templating": {"list": variables(content)},
        "panels": panels(content),
    }


def main():
    old = []
    for name, (title, content) in DASHBOARDS.items():
        file, text = FOLDER / f"{name}.json", json.dumps(dashboard(name, title, content), indent=1) + "\n"
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            old.append(file.name)
    if old:
        sys.exit(f"not what dashboards.py writes (run it): {', '.join(old)}")


if __name__ == "__main__":
    main()
