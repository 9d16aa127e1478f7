"""nginx in front with its exporter and mtail, as nginx/front.sh starts them, and with nothing behind it: what they export."""

import getpass
import http.client
import os
import ssl
import subprocess
import time
import urllib.request
from contextlib import ExitStack

import envoys
import metrics
from envoys import ROOT

EVENTS_SECONDS = 20
# What nginx answers with nothing behind it: who answers in its log of events, and with which status.
CAUSED = {("nginx", "308"), ("nginx", "503"), ("control_planes", "404"), ("limit", "429")}


def exported(folder):
    """name -> label -> values, after a request of each kind that no Envoy answers."""
    ports = {name: envoys.free_port() for name in ("https", "http", "status", "metrics", "events")}
    folder.mkdir()
    subprocess.run([ROOT / "nginx/certificate.sh", folder / "tls"], check=True, capture_output=True)
    variables = {**os.environ, **front(folder, ports)}
    with ExitStack() as running:
        for name, command in commands(folder, ports).items():
            log = folder / f"{name}.log"
            running.enter_context(envoys.started(command, log, variables, lambda port=ports[name]: envoys.listens(port)))
        cause_events(ports)
        return metrics.of_exposition(read(ports["metrics"])) | of_events(ports["events"])


def front(folder, ports):
    """The variables of nginx/run.sh."""
    nothing = f"127.0.0.1:{envoys.free_port()}"
    return {
        "EDGELINK_STATE_DIR": str(folder),
        "EDGELINK_CERTIFICATE": str(folder / "tls/certificate.pem"),
        "EDGELINK_CERTIFICATE_KEY": str(folder / "tls/key.pem"),
        "EDGELINK_HTTPS_PORT": str(ports["https"]),
        "EDGELINK_HTTP_PORT": str(ports["http"]),
        "EDGELINK_FRONT_STATUS_PORT": str(ports["status"]),
        "EDGELINK_FRONT_USER": getpass.getuser(),
        "EDGELINK_FRONT_RATE_PER_SECOND": "1",
        "EDGELINK_FRONT_RATE_BURST": "5",
        "EDGELINK_EDGES": nothing,
        "EDGELINK_CONTROL_PLANES": nothing,
    }


def commands(folder, ports):
    """What is started, by the name of the port that says that it runs."""
    status, own, events = (f"127.0.0.1:{ports[name]}" for name in ("status", "metrics", "events"))
    return {
        "status": [ROOT / "nginx/run.sh"],
        "metrics": ["prometheus-nginx-exporter", "-web.listen-address", own, "-nginx.scrape-uri", f"http://{status}/stub_status"],
        "events": [
            *("mtail", "-progs", ROOT / "nginx/events.mtail", "-logs", folder / "nginx/events.log", "-logtostderr"),
            *("-address", events.partition(":")[0], "-port", str(ports["events"])),
        ],
    }


def cause_events(ports):
    envoys.status(f"http://127.0.0.1:{ports['http']}/")
    connection = http.client.HTTPSConnection("127.0.0.1", ports["https"], timeout=10, context=ssl._create_unverified_context())
    # A link; a path that control planes are not asked for; and more than the burst.
    for path in ["/link", "/api/v1/links", *["/link"] * 8]:
        connection.request("GET", path)
        connection.getresponse().read()
    connection.close()


def read(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def of_events(port):
    """Once mtail has read all events."""
    end = time.monotonic() + EVENTS_SECONDS
    while True:
        found = metrics.of_exposition(read(port))
        labels = found.get("edgelink_nginx_events_total", {})
        missing = [pair for pair in CAUSED if pair[0] not in labels.get("answered_by", ()) or pair[1] not in labels.get("status", ())]
        if not missing:
            return found
        if time.monotonic() > end:
            raise SystemExit(f"nginx's log of events has not, or mtail does not read: {missing}")
        time.sleep(0.2)
