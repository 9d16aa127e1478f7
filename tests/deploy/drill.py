#!/usr/bin/env python3
"""Causes what alerts are about on a stack that runs (`make OBSERVE=1 run-full`), and says when each alert fired and was quiet again.

`drill.py FOLDER [CAUSE...]`: FOLDER has the state of the stack (.edgelink/full). It fails if an alert of a cause does not fire
within its time, or if any alert still fires at the end. The ports are those of envoy/up.sh, by the same variables.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

FIRE_SECONDS, QUIET_SECONDS = 300, 1200


def port(name, default):
    return int(os.environ.get(f"EDGELINK_{name}_PORT", default))


class Stack:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.link = link(self.folder)

    def process(self, name):
        return int((self.folder / f"{name}.pid").read_text())

    def processes(self, name):
        """Of a part: its process, and those that it has started, as nginx its workers."""
        process = self.process(name)
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return [process, *map(int, children)]

    @contextlib.contextmanager
    def stopped(self, *names):
        """Processes that are there and do nothing, as on a machine that hangs."""
        processes = [process for name in names for process in self.processes(name)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    @contextlib.contextmanager
    def unreadable_change(self):
        """A row of the outbox that no version has written."""
        sql = "INSERT INTO outbox (link_keys, records, created_at) VALUES ('?', '?', UNIX_TIMESTAMP() * 1000)"
        at = ["--protocol=tcp", "--host=127.0.0.1", f"--port={port('MARIADB', 3307)}", "--user=root"]
        subprocess.run(["mariadb", "--no-defaults", *at, f"--execute={sql}", "edgelink"], check=True)
        yield

    @contextlib.contextmanager
    def connections(self):
        """More connections of an address than the API takes."""
        with contextlib.ExitStack() as all_of_them:
            for _ in range(1100):
                all_of_them.enter_context(socket.create_connection(("127.0.0.1", port("API", 8081))))
            yield

    @contextlib.contextmanager
    def scan(self):
        """An address that asks for far more than it may; what it asks for needs no lookup."""
        with visitors(["/health/live"], 4, 0):
            yield

    @contextlib.contextmanager
    def crowd(self):
        """The same through nginx, which allows 500 a second, and has a tenth of that wait before it refuses."""
        with front_visitors(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 40, 150):
            yield

    @contextlib.contextmanager
    def front_without(self, path, *names):
        """Visitors of nginx who ask for a path while parts behind it hang."""
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port('HTTPS', 8443)}\r\n\r\n"
        with self.stopped(*names), front_visitors(request.encode(), 8):
            yield


def causes(stack):
    """name -> what is done, and the alerts that it has to cause."""
    return {
        "control-plane": (lambda: stack.stopped("control-plane"), {"EdgelinkDown"}),
        "redis": (lambda: stack.stopped("redis"), {"EdgelinkFeedLag", "EdgelinkPublisherCount"}),
        "unreadable": (stack.unreadable_change, {"EdgelinkUnreadable"}),
        "connections": (stack.connections, {"EdgelinkConnectionsRefused"}),
        "mariadb": (lambda: stack.stopped("mariadb"), {"EdgelinkApiErrors", "EdgelinkRejects"}),
        "control-planes": (
            lambda: stack.stopped("control-plane", "control-plane-2"),
            {"EdgelinkDown", "EdgelinkStaleAnswers", "EdgelinkEdgeFeedLag", "EdgelinkRejects"},
        ),
        "scan": (stack.scan, {"EdgelinkRejects"}),
        "nginx": (lambda: stack.stopped("nginx"), {"EdgelinkNginxDown"}),
        "envoy": (lambda: stack.front_without(stack.link, "envoy"), {"EdgelinkDown", "EdgelinkNginxFailover"}),
        # What nginx has in its cache it would answer with for 5 minutes.
        "all-behind-nginx": (lambda: stack.front_without("/no-such-alias", "envoy", "control-plane", "control-plane-2"), {"EdgelinkNginxErrors"}),
        "crowd": (stack.crowd, {"EdgelinkNginxRefuses"}),
    }


@contextlib.contextmanager
def running(work, count, done):
    """Threads that work meanwhile, each until done is set."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def visitors(paths, count, pause_seconds):
    """Visitors who ask for the paths, one after the other, meanwhile."""
    done = threading.Event()

    def visit():
        connection = http.client.HTTPConnection("127.0.0.1", port("EDGE", 8080), timeout=5)
        while not done.wait(pause_seconds):
            for path in paths:
                try:
                    connection.request("GET", path)
                    connection.getresponse().read()
                except (OSError, http.client.HTTPException):
                    connection.close()

    with running(visit, count, done):
        yield


@contextlib.contextmanager
def front_visitors(requests, count):
    """Visitors of nginx who send these requests again and again, all at once over a connection of their own, meanwhile."""
    done = threading.Event()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    def visit():
        # What hangs behind nginx takes it 15 s each.
        while not done.wait(0.1):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port("HTTPS", 8443)), 60) as raw:
                with tls.wrap_socket(raw) as connection:
                    connection.sendall(requests)
                    awaited = requests.count(b"\r\n\r\n")
                    while awaited > 0 and not done.is_set() and (part := connection.recv(1 << 16)):
                        awaited -= part.count(b"HTTP/1.1 ")

    with running(visit, count, done):
        yield


def firing():
    with urllib.request.urlopen(f"http://127.0.0.1:{port('PROMETHEUS', 9090)}/api/v1/alerts", timeout=10) as answer:
        alerts = json.load(answer)["data"]["alerts"]
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def wait_for(is_reached, seconds):
    """The seconds that it took, or None if it did not come."""
    begin = time.monotonic()
    while not is_reached():
        if time.monotonic() > begin + seconds:
            return None
        time.sleep(1)
    return time.monotonic() - begin


def drill(name, cause, wanted):
    """Whether all alerts of a cause have fired. Those that an earlier cause has fired are quiet before it begins."""
    if wait_for(lambda: not wanted & firing(), QUIET_SECONDS) is None:
        print(f"{name}: NOT QUIET BEFORE: {', '.join(sorted(wanted & firing()))}", flush=True)
        return False
    missing, begin = set(wanted), time.monotonic()

    def has_fired():
        for alert in missing & firing():
            missing.discard(alert)
            print(f"{name}: {alert} after {time.monotonic() - begin:.0f} s", flush=True)
        return not missing

    with cause():
        wait_for(has_fired, FIRE_SECONDS)
    if missing:
        print(f"{name}: NOT FIRED: {', '.join(sorted(missing))}", flush=True)
    return not missing


def link(folder):
    """A link that exists, for visitors who are served."""
    headers = {"X-Api-Key": (folder / "admin-key").read_text().strip(), "content-type": "application/json"}
    body = json.dumps({"longUrl": "https://example.com/drill"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port('API', 8081)}/api/v1/links", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return "/" + json.load(answer)["shortCode"]


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: drill.py FOLDER [CAUSE...]")
    stack = Stack(sys.argv[1])
    known = causes(stack)
    if unknown := set(sys.argv[2:]) - set(known):
        sys.exit(f"there is no cause {', '.join(sorted(unknown))}: {', '.join(known)}")
    if before := firing():
        sys.exit(f"alerts fire already: {', '.join(sorted(before))}")
    # One link that is there, and an alias that is not, which has to be looked up again and again.
    with visitors([stack.link, "/no-such-alias"], 1, 0.1):
        fired = [drill(name, *known[name]) for name in sys.argv[2:] or known]
        quiet = wait_for(lambda: not firing(), QUIET_SECONDS)
    print(f"all quiet {quiet:.0f} s after the last cause" if quiet is not None else f"NOT QUIET: {', '.join(sorted(firing()))}")
    sys.exit(not all(fired) or quiet is None)


if __name__ == "__main__":
    main()
