"""envoy/deploy/mesh: what Istio and Envoy Gateway make of the resources, assembled into a bootstrap, which a real Envoy validates and
follows links with. What they do was read from their documents and sources; neither runs here."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

import envoys
import images
from envoys import EDGELINK, ROOT

HOME = ROOT / "envoy/deploy/mesh"
sys.path.append(str(HOME))
from resources import READY_PATH  # noqa: E402
IMAGES = {"wasm": "registry.example/edgelink/filter:1", "native": "registry.example/edgelink/edge:1"}
TYPES = "type.googleapis.com/envoy"
# How a route of the Gateway API matches a path, in the words of Istio.
KINDS = {"Exact": "exact", "PathPrefix": "prefix", "RegularExpression": "regex"}
READY_SECONDS = 15
# What comes of the right password for a link: neither can say that the Wasm module has to see the form before it goes on.
UNLOCKED = {"wasm": 503, "native": 303}
REDIRECTED = 'edgelink_requests{edgelink_tier="control_plane",edgelink_outcome="redirect"} 1'
# What the committed examples are made with.
EXAMPLE = {
    "EDGELINK_DOMAINS": "go.example",
    "EDGELINK_EDGE_TOKEN": "the-token-of-the-edge-api",
    "EDGELINK_REDIS": "direct",
    "EDGELINK_REDIS_SERVERS": "redis.edgelink.svc.cluster.local:6379",
}
# How the native module names them.
CONTROL_PLANES = "edgelink-control-planes.edgelink.svc.cluster.local:8081"
# What visitors get in any case: of a probe of other services, which is asked for first as the filter would say 503 before it is ready,
# a link, a code that was never issued, and a path that is none.
ANSWERS = {"/health/ready": 404, "/sale": 302, "/0000000": 404, "/a/b/c": 404}


def check():
    for kind, assemble in {"istio": istio, "envoy-gateway": envoy_gateway}.items():
        if made(kind, "wasm") != (HOME / f"{kind}.yaml").read_text():
            yield f"{kind}.yaml is not what resources.sh prints for the example; write it again"
        for edge in envoys.EDGES:
            text = made(kind, edge)
            yield from (f"{kind}, {edge}: {problem}" for problem in of_schemas(list(yaml.safe_load_all(text))))
            resources = named(yaml.safe_load_all(text))
            yield from (f"{kind}, {edge}: {problem}" for problem in follows_links(assemble(resources), {**ANSWERS, "/sale+": 200}, UNLOCKED[edge]))
            resources = named(yaml.safe_load_all(made(kind, edge, EDGELINK_PUBLIC_PAGES="false")))
            closed = {**ANSWERS, "/sale+": 404, "/": 404, "/api/v1/links": 404, "/console": 404}
            yield from (f"{kind}, {edge}, without pages: {problem}" for problem in follows_links(assemble(resources), closed, UNLOCKED[edge]))


def named(resources):
    return {(each["kind"], each["metadata"]["name"]): each["spec"] for each in resources}


def of_schemas(resources):
    """Of Envoy Gateway's own kinds no registry has schemas."""
    command = ["node", ROOT / "tests/deploy/schemas.mjs"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, input=json.dumps(resources)).stdout)
    yield from said["problems"]
    yield from (f"there is no schema of {kind}" for kind in said["unknown"] if not kind.startswith("gateway.envoyproxy.io/"))


def made(kind, edge, **more):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("EDGELINK_")}
    variables |= {"PYTHON": sys.executable, "EDGELINK_FILTER": edge, **EXAMPLE, **more}
    return subprocess.run([HOME / "resources.sh", kind, IMAGES[edge]], check=True, capture_output=True, text=True, env=variables).stdout


def wasm(name, plugin, configuration, failure, **more):
    """The filter, as both hand it to Envoy: with its configuration as a string, and the code from a file that they have fetched."""
    return {
        "name": name,
        "typed_config": {
            "@type": f"{TYPES}.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": plugin,
                "root_id": "edgelink",
                "failure_policy": failure,
                "vm_config": {"vm_id": plugin, "runtime": "envoy.wasm.runtime.v8", "code": {"local": {"filename": str(envoys.FILTER)}}},
                "configuration": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": json.dumps(configuration)},
            },
        },
        **more,
    }


def native(name, proxy, extension):
    """The native module, as Envoy Gateway hands it to Envoy: of those that its EnvoyProxy names."""
    module = next(each for each in proxy["dynamicModules"] if each["name"] == extension["name"])
    image = proxy["provider"]["kubernetes"]["envoyDeployment"]["container"]["image"]
    # Another image has no module.
    files = images.in_edge() if image == IMAGES["native"] else {}
    return {
        "name": name,
        "disabled": True,
        "typed_config": {
            "@type": f"{TYPES}.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {
                "module": {"local": {"filename": files.get(module["source"]["local"]["path"], "not there")}},
                "do_not_close": module["doNotClose"],
            },
            "filter_name": extension["filterName"],
            "filter_config": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": json.dumps(extension["config"])},
        },
    }


def bootstrap(stats, clusters, listeners, filters, routes):
    """What both have around: a listener with a router, and the internal listeners switched on."""
    manager = {
        "@type": f"{TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "http_filters": [*filters, {"name": "router", "typed_config": {"@type": f"{TYPES}.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "edge", "domains": ["go.example"], "routes": routes}]},
    }
    edge = {
        "name": "edge",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
    }
    return {
        **stats,
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {"listeners": [edge, *listeners], "clusters": clusters},
    }


def cluster(name, address, port):
    """What both make of a Service."""
    endpoint = {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}}
    assignment = {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]}
    return {"name": name, "type": "STRICT_DNS", "connect_timeout": "1s", "load_assignment": assignment}


def istio(resources):
    api = "edgelink-api.edgelink.svc.cluster.local"
    added = {"LISTENER": [], "CLUSTER": [cluster(f"outbound|80||{api}", api, 80)]}
    if ("EnvoyFilter", "edgelink-redis") in resources:
        for patch in resources["EnvoyFilter", "edgelink-redis"]["configPatches"]:
            added[patch["applyTo"]].append(patch["patch"]["value"])
    stats = resources["EnvoyFilter", "edgelink-stats"]["configPatches"][0]["patch"]["value"]
    # Istio's own bootstrap has this.
    internal = {"name": "internal", "typed_config": {"@type": f"{TYPES}.extensions.bootstrap.internal_listener.v3.InternalListener"}}
    routes = []
    for rule in resources["VirtualService", "edgelink"]["http"]:
        # Without a match a rule is for every path.
        for match in rule.get("match") or [{"uri": {"prefix": "/"}}]:
            ((kind, path),) = match["uri"].items()
            if "directResponse" in rule:
                routes.append(answer(kind, path, rule["directResponse"]["status"], rule["directResponse"]["body"]["string"]))
            else:
                destination = rule["route"][0]["destination"]
                routes.append(to(f"outbound|{destination['port']['number']}||{destination['host']}", kind, path))
    return bootstrap({**stats, "bootstrap_extensions": [internal]}, added["CLUSTER"], added["LISTENER"], [filter_of_istio(resources)], routes)


def filter_of_istio(resources):
    if plugin := resources.get(("WasmPlugin", "edgelink")):
        failure = {"FAIL_CLOSE": "FAIL_CLOSED"}.get(plugin["failStrategy"], plugin["failStrategy"])
        return wasm("edgelink.edgelink", "edgelink.edgelink", plugin["pluginConfig"], failure)
    (patch,) = resources["EnvoyFilter", "edgelink"]["configPatches"]
    added = patch["patch"]["value"]
    module = added["typed_config"]["dynamic_module_config"]["module"]["local"]
    # Mounted where the image of the edge has it.
    module["filename"] = images.in_edge().get(module["filename"], "not there")
    return added


def envoy_gateway(resources):
    added = {"Listener": [], "Cluster": []}
    # Without clusters of its own, as the native module is, there is nothing to patch.
    for patch in resources.get(("EnvoyPatchPolicy", "edgelink"), {"jsonPatches": []})["jsonPatches"]:
        added[patch["type"].rpartition(".")[2]].append(patch["operation"]["value"])
    policy, proxy = (resources[kind, "edgelink"] for kind in ("EnvoyExtensionPolicy", "EnvoyProxy"))
    if "dynamicModule" in policy:
        (extension,) = policy["dynamicModule"]
        name = "envoy.filters.http.dynamic_modules/edgelink"
        filters = [native(name, proxy, extension)]
    else:
        (extension,) = policy["wasm"]
        name = "envoy.filters.http.wasm/edgelink"
        failure = "FAIL_OPEN" if extension["failOpen"] else "FAIL_CLOSED"
        filters = [wasm(name, "edgelink", extension["config"], failure, disabled=True)]
    # The filter is off, but for the routes of the Gateway that the policy is of.
    on = {"typed_per_filter_config": {name: {"@type": f"{TYPES}.config.route.v3.FilterConfig", "config": {}}}}
    routes = []
    for rule in resources["HTTPRoute", "edgelink"]["rules"]:
        for match in rule.get("matches") or [{"path": {"type": "PathPrefix", "value": "/"}}]:
            kind, path = KINDS[match["path"]["type"]], match["path"]["value"]
            if "filters" in rule:
                reference = rule["filters"][0]["extensionRef"]
                direct = resources[reference["kind"], reference["name"]]["directResponse"]
                routes.append({**answer(kind, path, direct["statusCode"], direct["body"]["inline"]), **on})
            else:
                routes.append({**to("pages", kind, path), **on})
    stats = yaml.safe_load(proxy["bootstrap"]["value"])
    clusters = [*added["Cluster"], cluster("pages", "edgelink-api", 80)]
    return bootstrap(stats, clusters, added["Listener"], filters, routes)


def to(name, kind, path):
    return {"match": matching(kind, path), "route": {"cluster": name}}


def answer(kind, path, status, body):
    return {"match": matching(kind, path), "direct_response": {"status": status, "body": {"inline_string": body}}}


def matching(kind, path):
    return {"exact": {"path": path}, "prefix": {"prefix": path}, "regex": {"safe_regex": {"regex": path}}}[kind]


def follows_links(assembled, answers, unlocked):
    """Whether Envoy answers each path, and the form of a link with a password, with its status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with control_plane(folder) as port:
            file = folder / "bootstrap.json"
            file.write_text(here(json.dumps(assembled), port))
            if problem := envoys.refusal(["--config-path", file]):
                yield f"Envoy refuses it: {problem}"
                return
            headers = {"X-Api-Key": (folder / "admin-key").read_text().strip(), "content-type": "application/json"}
            for link in ({"customSlug": "sale"}, {"customSlug": "inner", "password": "open sesame"}):
                body = json.dumps({"longUrl": "https://example.com/a", **link}).encode()
                envoys.status(f"http://127.0.0.1:{port}/api/v1/links", "POST", body, headers)
            with envoys.running_with(file, folder) as admin:
                listeners = json.loads(envoys.get(admin, "/listeners", format="json"))["listener_statuses"]
                edge = next(each["local_address"]["socket_address"]["port_value"] for each in listeners if each["name"] == "edge")
                for path, status in answers.items():
                    if (got := visit(edge, path)) != status:
                        yield f"{path} is {got}, not {status}"
                form = {"host": "go.example", "content-type": "application/x-www-form-urlencoded"}
                if (got := envoys.status(f"http://127.0.0.1:{edge}/inner", "POST", b"password=open+sesame", form)) != unlocked:
                    yield f"the form of a link with a password is {got}, not {unlocked}"
                yield from becomes_ready(edge, READY_PATH)
                yield from counted(admin, REDIRECTED)


def visit(edge, path):
    return envoys.status(f"http://127.0.0.1:{edge}{path}", headers={"host": "go.example"})


def becomes_ready(edge, path):
    """A probe is 503 until the worker has read the feed, which a request makes it begin."""
    end = time.monotonic() + READY_SECONDS
    while (got := visit(edge, path)) != 200:
        if got != 503 or time.monotonic() > end:
            yield f"{path} is {got}, not 200 in the end"
            return
        time.sleep(0.1)


def counted(admin, wanted):
    """Metrics have their labels; workers hand over at each tick."""
    end = time.monotonic() + 10
    while wanted not in metrics(admin):
        if time.monotonic() > end:
            yield f"there is no {wanted} in the metrics"
            return
        time.sleep(0.1)


def metrics(admin):
    return envoys.get(admin, "/stats/prometheus", filter="edgelink").splitlines()


def here(text, port):
    """The bootstrap with a control plane of this machine, no Redis, and the bridge that was built."""
    text = text.replace(EXAMPLE["EDGELINK_REDIS_SERVERS"], "127.0.0.1:1").replace(CONTROL_PLANES, f"127.0.0.1:{port}")
    text = text.replace("/usr/lib/edgelink/edgelink_resp_bridge.wasm", str(envoys.BRIDGE)).replace(EXAMPLE["EDGELINK_EDGE_TOKEN"], envoys.TOKEN)
    for host, at in (
        ("edgelink-control-planes.edgelink.svc.cluster.local", 8081),
        ("edgelink-api.edgelink.svc.cluster.local", 80),
        ("edgelink-api", 80),
        ("redis.edgelink.svc.cluster.local", 6379),
    ):
        text = text.replace(
            json.dumps({"address": host, "port_value": at}), json.dumps({"address": "127.0.0.1", "port_value": 1 if "redis" in host else port})
        )
    return text


@contextlib.contextmanager
def control_plane(folder):
    """The port of one with SQLite."""
    log = folder / "control-plane.log"
    variables = {
        "PATH": os.environ["PATH"],
        "EDGELINK_SERVER_LISTEN": "127.0.0.1:0",
        "EDGELINK_STORE_URL": f"sqlite://{folder}/edgelink.db",
        "EDGELINK_LINKS_CODE_KEY": "0123456789abcdef0123456789abcdef",
        "EDGELINK_LINKS_DOMAINS": "go.example",
        "EDGELINK_AUTH_EDGE_TOKENS": envoys.TOKEN,
        "EDGELINK_AUTH_ADMIN_KEY_FILE": str(folder / "admin-key"),
        "EDGELINK_LOG_FORMAT": "json",
    }
    with envoys.started([EDGELINK, "serve"], log, variables, lambda: listening(log)):
        yield listening(log)


def listening(log):
    """The port that the log names, once it does."""
    for line in log.read_text().splitlines():
        if '"message":"listening"' in line:
            return int(json.loads(line)["address"].rpartition(":")[2])
    return None
