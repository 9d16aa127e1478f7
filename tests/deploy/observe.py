"""envoy/deploy/observe: rules, their tests, the scrape configuration and the dashboards."""

import contextlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

import envoys
import fronts
import metrics
from envoys import ROOT

HOME = ROOT / "envoy/deploy/observe"


def check():
    rules = [rule for group in read("rules.yml")["groups"] for rule in group["rules"]]
    yield from promtool("check", "rules", HOME / "rules.yml")
    yield from promtool("check", "config", "--syntax-only", HOME / "prometheus.yml")
    yield from promtool("test", "rules", HOME / "rules_test.yml")
    yield from alerts_are_complete([rule for rule in rules if "alert" in rule])
    yield from run([HOME / "dashboards.py", "--check"])
    yield from fields_of_grafana()
    expressions = {name: [filled(text) for text in texts] for name, texts in of_dashboards().items()}
    yield from promtool_accepts([text for texts in expressions.values() for text in texts])
    expressions["rules.yml"] = [rule["expr"] for rule in rules]
    there = {}
    for edge in envoys.EDGES:
        with tempfile.TemporaryDirectory() as folder, measured(Path(folder), edge) as port:
            yield from shows_no_more(port)
            there |= exported(port)
    with tempfile.TemporaryDirectory() as folder:
        there |= fronts.exported(Path(folder) / "front")
    known = there | {rule["record"]: {} for rule in rules if "record" in rule} | {"up": {}}
    for name, texts in expressions.items():
        yield from (f"{name}: {problem}: {text}" for text in texts for problem in metrics.problems(text, known))


@contextlib.contextmanager
def measured(folder, edge):
    """The port for metrics of an Envoy with that filter."""
    # The admin interface is asked by the listener for metrics, which therefore has to know its port.
    port, admin = envoys.free_port(), envoys.free_port()
    variables = {"EDGELINK_METRICS_ADDRESS": "::", "EDGELINK_METRICS_PORT": str(port), "EDGELINK_ADMIN_PORT": str(admin)}
    with envoys.running(folder, EDGELINK_FILTER=edge, **variables):
        yield port


def read(name):
    return yaml.safe_load((HOME / name).read_text())


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        yield f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"


def promtool(*arguments):
    yield from run(["promtool", *arguments])


def promtool_accepts(expressions):
    """Whether promtool can read expressions that no rule has."""
    rules = [{"record": f"checked:{at}", "expr": text} for at, text in enumerate(expressions)]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "checked", "rules": rules}]}, file)
        file.flush()
        yield from promtool("check", "rules", file.name)


def alerts_are_complete(alerts):
    """Each has its texts, a section in the runbook, and a test in which it fires and one in which all is quiet."""
    sections = re.findall(r"^### (\w+)$", (HOME / "README.md").read_text(), re.M)
    cases = read("rules_test.yml")["tests"]
    for alert in alerts:
        name, annotations = alert["alert"], alert.get("annotations", {})
        if alert.get("labels", {}).get("severity") not in ("page", "ticket"):
            yield f"{name}: the severity is neither page nor ticket"
        if {"summary", "description", "runbook"} - set(annotations):
            yield f"{name}: summary, description or runbook is missing"
        elif annotations["runbook"] != f"envoy/deploy/observe/README.md#{name.lower()}" or name not in sections:
            yield f"{name}: the runbook has no section of it, or the link leads elsewhere"
        yield from alert_is_tested(name, cases)
    yield from (f"{name}: the runbook has a section of it, and there is no such alert" for name in set(sections) - {a["alert"] for a in alerts})


def alert_is_tested(name, cases):
    firing = f'alertname="{name}",alertstate="firing"'
    for case in cases:
        moments = [any(firing in sample["labels"] for sample in test["exp_samples"]) for test in case["promql_expr_test"]]
        if any(moments) and not all(moments):
            return
    yield f"{name}: there is no test with a moment at which it fires and one at which it is quiet"


def fields_of_grafana():
    """Whether Grafana's own model of a dashboard keeps every field: what it does not know is lost in it."""
    plugins.register_default_plugins()
    for file in sorted((HOME / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text())
        model = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
        yield from (f"{file.name}: Grafana knows no {path}" for path in lost(dashboard, model, ""))


def lost(ours, theirs, path):
    """The paths of what the second one has not, or otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs[key], f"{path}/{key}") if key in theirs else [f"{path}/{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for at, value in enumerate(ours):
            yield from lost(value, theirs[at], f"{path}/{at}")
    elif ours != theirs:
        yield path


def of_dashboards():
    """name of the file -> its expressions."""
    found = {}
    for file in sorted((HOME / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text())
        found[file.name] = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return found


def filled(expression):
    """As Grafana sends it."""
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


def exported(port):
    """What control planes and edges export; of the edge by asking one, with the filter of the scrape configuration."""
    scrape = next(job for job in read("prometheus.yml")["scrape_configs"] if job["job_name"] == "edgelink-edge")
    text = envoys.get(f"127.0.0.1:{port}", scrape["metrics_path"], filter=scrape["params"]["filter"][0])
    return metrics.of_control_plane() | metrics.of_exposition(text)


def shows_no_more(port):
    """Of the admin interface only what Prometheus and probes ask for is on the listener for metrics, and nothing changes by it."""
    wanted = {"/stats/prometheus": 200, "/ready": 200, "/config_dump": 404, "/stats": 404, "/quitquitquit": 404, "/ready/../config_dump": 404}
    for path, status in wanted.items():
        if (got := envoys.status(f"http://127.0.0.1:{port}{path}")) != status:
            yield f"listener for metrics: {path} is {got}, not {status}"
    for path in ("/healthcheck/fail", "/ready", "/quitquitquit"):
        if (got := envoys.status(f"http://127.0.0.1:{port}{path}", "POST")) != 404:
            yield f"listener for metrics: POST {path} is {got}"
