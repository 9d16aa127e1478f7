"""Real Envoy, started or asked to validate, with the modules of target/."""

import contextlib
import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wasm32-wasip1" / "wasm"
FILTER, BRIDGE = MODULES / "edgelink_filter.wasm", MODULES / "edgelink_resp_bridge.wasm"
NATIVE = Path(os.environ.get("EDGELINK_NATIVE", MODULES.parents[1] / "release/libedgelink.so"))
EDGELINK = Path(os.environ.get("EDGELINK_TEST_BIN", MODULES.parents[1] / "debug/edgelink"))
TOKEN = "0123456789abcdef0123456789abcdef"
# What EDGELINK_FILTER may be.
EDGES = ("wasm", "native")
READY_SECONDS = 30


def find():
    """The path of Envoy."""
    found = subprocess.run([ROOT / "envoy/find.sh"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def refusal(arguments):
    """What Envoy says against the configuration that it is given, or nothing. The filter reads its own as well."""
    quiet = [] if "--log-level" in arguments else ["--log-level", "error"]
    command = [find(), *arguments, *quiet, "--mode", "validate"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def environment(state, **more):
    """What envoy/run.sh is started with: every section of the filter is in use, and ports are free ones."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("EDGELINK_") or name == "EDGELINK_ENVOY"},
        "EDGELINK_STATE_DIR": str(state),
        "EDGELINK_EDGE_TOKEN": TOKEN,
        "EDGELINK_EDGE_PORT": "0",
        "EDGELINK_ADMIN_PORT": "0",
        "EDGELINK_DOMAINS": "go.example",
        "EDGELINK_REDIS": "direct",
        "EDGELINK_FEED": "poll",
        "EDGELINK_CLICKS": "true",
        "EDGELINK_WORKERS": "1",
        "EDGELINK_WASM": str(FILTER),
        "EDGELINK_BRIDGE_WASM": str(BRIDGE),
        "EDGELINK_NATIVE": str(NATIVE),
        **more,
    }


@contextlib.contextmanager
def running(state, **variables):
    """The admin address of an Envoy that envoy/run.sh has started, without anything to ask."""
    with envoy([ROOT / "envoy/run.sh"], state, environment(state, **variables)) as address:
        yield address


@contextlib.contextmanager
def running_with(bootstrap, state):
    """The admin address of an Envoy with that bootstrap."""
    command = [find(), "--config-path", bootstrap, "--disable-hot-restart", "--concurrency", "1", "--log-level", "error"]
    with envoy(command, state, os.environ) as address:
        yield address


@contextlib.contextmanager
def envoy(command, state, variables):
    address = state / "admin"
    with started([*command, "--admin-address-path", address], state / "envoy.log", variables, lambda: is_live(address)):
        yield address.read_text()


@contextlib.contextmanager
def started(command, log, variables, is_ready):
    """A process that runs meanwhile, from the moment that it is ready."""
    with log.open("w") as out:
        process = subprocess.Popen(command, env=variables, stdout=out, stderr=out)
    try:
        end = time.monotonic() + READY_SECONDS
        while not is_ready():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command[0]} does not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def listens(port):
    """Whether something takes connections there."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def free_port():
    """One that is free, below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket(socket.AF_INET6) as listener, contextlib.suppress(OSError):
            listener.bind(("::", port))
            return port


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def status(url, method="GET", data=None, headers=None):
    """The status of an answer."""
    request = urllib.request.Request(url, data, headers or {}, method=method)
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def is_live(address):
    if not address.exists() or not address.read_text():
        return False
    try:
        return get(address.read_text(), "/ready").strip() == "LIVE"
    except OSError:
        return False


def get(address, path, **query):
    url = f"http://{address}{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()
