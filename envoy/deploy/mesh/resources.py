#!/usr/bin/env python3
"""Resources for Istio or Envoy Gateway, made of the files of Envoy that envoy/run.sh fills in.

`resources.py istio|envoy-gateway FOLDER IMAGE` prints them as YAML: FOLDER is what `envoy/run.sh --render` wrote, IMAGE where the
filter is as an OCI image (images/oci.py), or, with the native module, the image of the edge (images/edge.Dockerfile), which has it beside
an Envoy that loads it. They hold the token of the edge API: keep them like a Secret. PyYAML is needed.
"""

import json
import sys
from pathlib import Path

import yaml

NAMESPACE = "edgelink"
# Where control planes are in a cluster that has ../kubernetes.
API = "edgelink-api"
API_HOST = f"{API}.{NAMESPACE}.svc.cluster.local"
# Where a gateway's pod has the bridge to Redis mounted, from a ConfigMap.
MODULES = "/usr/lib/edgelink"
# Of probes. A gateway may have other services behind it, whose /health/ready is theirs; this path is edgelink's own.
READY_PATH = "/.well-known/edgelink/ready"
READY, NOTHING = (200, "ready\n"), (404, "Not found.\n")


class Edge:
    """What envoy/run.sh has filled in, taken apart."""

    def __init__(self, folder):
        self.bootstrap = read(folder / "bootstrap.yaml")
        redis = folder / "redis.yaml"
        self.redis = read(redis) if redis.exists() else None
        self.manager = next(
            filters["typed_config"]
            for listener in self.bootstrap["static_resources"]["listeners"]
            if listener["name"] == "edge"
            for filters in listener["filter_chains"][0]["filters"]
        )
        self.filter = next(each for each in self.manager["http_filters"] if each["name"] == "edgelink")["typed_config"]
        self.is_native = "dynamic_module_config" in self.filter
        configuration = self.filter["filter_config"] if self.is_native else self.filter["config"]["configuration"]
        self.plugin = {**json.loads(configuration["value"]), "readyPath": READY_PATH}
        # Which proxies a gateway of a mesh trusts is not known here: without, all visitors may have the address of a balancer.
        self.plugin.pop("limit", None)
        self.domains = self.plugin["domains"]

    def stats(self):
        """The labels of the filter's metrics; the native module has them itself, and needs a guard for their names."""
        if not self.is_native:
            return {"stats_config": self.bootstrap["stats_config"]}
        runtime = self.bootstrap["layered_runtime"]["layers"][0]["static_layer"]
        guards = {name: value for name, value in runtime.items() if name.startswith("envoy.reloadable_features.")}
        return {"layered_runtime": {"layers": [{"name": "edgelink", "static_layer": guards}]}}

    def clusters(self):
        """What the filter asks, by name."""
        # Without pages or metrics the bootstrap of the native module has none.
        own = [each for each in self.bootstrap["static_resources"]["clusters"] or [] if each["name"] == "control_plane"]
        return own + (self.redis["static_resources"]["clusters"] if self.redis else [])

    def listeners(self):
        """Internal ones, which stand between the filter and Redis."""
        return self.redis["static_resources"]["listeners"] if self.redis else []

    def pages(self):
        """The paths of pages that come from the control plane: ('exact' or 'regex', path)."""
        for route in self.manager["route_config"]["virtual_hosts"][0]["routes"]:
            match = route["match"]
            if "route" in route:
                yield ("exact", match["path"]) if "path" in match else ("regex", match["safe_regex"]["regex"])


def read(file):
    return yaml.safe_load(file.read_text())


def resource(api, kind, name, spec, **metadata):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE, **metadata}, "spec": spec}


def istio(edge, image):
    """Of a gateway whose pods have the label istio: edgelink-gateway, in this namespace."""
    pods = {"istio": "edgelink-gateway"}
    if edge.is_native:
        # No resource of Istio's own loads it. The gateway has the file mounted, from the image. It connects to control planes itself.
        configuration = {**edge.filter["filter_config"], "value": json.dumps(edge.plugin)}
        manager = {"name": "envoy.filters.network.http_connection_manager", "subFilter": {"name": "envoy.filters.http.router"}}
        yield resource("networking.istio.io/v1alpha3", "EnvoyFilter", "edgelink", {
            "workloadSelector": {"labels": pods},
            "configPatches": [{
                "applyTo": "HTTP_FILTER",
                "match": {"context": "GATEWAY", "listener": {"filterChain": {"filter": manager}}},
                "patch": {
                    "operation": "INSERT_BEFORE",
                    "value": {"name": "edgelink", "typed_config": {**edge.filter, "filter_config": configuration}},
                },
            }],
        })
    else:
        # Istio makes a cluster of each Service; this one the gateway has in any case, for the pages.
        plugin = {**edge.plugin, "controlPlane": {**edge.plugin["controlPlane"], "cluster": f"outbound|80||{API_HOST}"}}
        yield resource("extensions.istio.io/v1alpha1", "WasmPlugin", "edgelink", {
            "selector": {"matchLabels": pods},
            "url": f"oci://{image}",
            "pluginName": "edgelink",
            "failStrategy": "FAIL_RELOAD",
            "pluginConfig": plugin,
        })
    yield resource("networking.istio.io/v1", "Gateway", "edgelink", {
        "selector": pods,
        "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": edge.domains}],
    })
    backend = [{"destination": {"host": API_HOST, "port": {"number": 80}}}]
    pages = [{"uri": {kind: path}} for kind, path in edge.pages()]
    yield resource("networking.istio.io/v1", "VirtualService", "edgelink", {
        "hosts": edge.domains,
        "gateways": ["edgelink"],
        "http": [
            # Without a match it would be for every path, and so publish the control plane.
            *([{"name": "pages", "match": pages, "route": backend, "timeout": "12s"}] if pages else []),
            # Until then the filter says 503.
            {"name": "ready", "match": [{"uri": {"exact": READY_PATH}}], "directResponse": istio_answer(*READY)},
            {"name": "nothing", "directResponse": istio_answer(*NOTHING)},
        ],
    })
    yield resource("networking.istio.io/v1alpha3", "EnvoyFilter", "edgelink-stats", {
        "workloadSelector": {"labels": pods},
        "configPatches": [{"applyTo": "BOOTSTRAP", "patch": {"operation": "MERGE", "value": edge.stats()}}],
    })
    if edge.redis:
        added = [("LISTENER", each) for each in edge.listeners()]
        added += [("CLUSTER", each) for each in edge.clusters() if each["name"] != "control_plane"]
        yield resource("networking.istio.io/v1alpha3", "EnvoyFilter", "edgelink-redis", {
            "workloadSelector": {"labels": pods},
            "configPatches": [
                {"applyTo": where, "match": {"context": "GATEWAY"}, "patch": {"operation": "ADD", "value": value}} for where, value in added
            ],
        })


def istio_answer(status, text):
    return {"status": status, "body": {"string": text}}


def envoy_gateway(edge, image):
    """Of a Gateway of its own, of the class eg."""
    bootstrap = {**edge.stats(), **({"bootstrap_extensions": edge.redis["bootstrap_extensions"]} if edge.redis else {})}
    deployment = {
        "pod": {"volumes": [{"name": "modules", "configMap": {"name": "edgelink-modules"}}]},
        "container": {"volumeMounts": [{"name": "modules", "mountPath": MODULES, "readOnly": True}]},
    } if edge.redis else {}
    modules = {}
    if edge.is_native:
        deployment = {"container": {"image": image}}
        module = edge.filter["dynamic_module_config"]
        source = {"type": "Local", "local": {"path": module["module"]["local"]["filename"]}}
        modules = {"dynamicModules": [{"name": "edgelink", "source": source, "doNotClose": module["do_not_close"]}]}
    provider = {"type": "Kubernetes", "kubernetes": {"envoyDeployment": deployment}}
    yield resource("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy", "edgelink", {
        "bootstrap": {"type": "Merge", "value": yaml.safe_dump(bootstrap, sort_keys=False)},
        **({"provider": provider} if deployment else {}),
        **modules,
    })
    yield resource("gateway.networking.k8s.io/v1", "Gateway", "edgelink", {
        "gatewayClassName": "eg",
        "infrastructure": {"parametersRef": {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "edgelink"}},
        "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
    })
    kinds = {"exact": "Exact", "regex": "RegularExpression"}
    answers = {"edgelink-ready": READY, "edgelink-nothing": NOTHING}
    ready, nothing = (
        [{"type": "ExtensionRef", "extensionRef": {"group": "gateway.envoyproxy.io", "kind": "HTTPRouteFilter", "name": name}}] for name in answers
    )
    pages = [{"path": {"type": kinds[kind], "value": path}} for kind, path in edge.pages()]
    to_pages = {"matches": pages, "backendRefs": [{"name": API, "port": 80}], "timeouts": {"request": "12s"}}
    yield resource("gateway.networking.k8s.io/v1", "HTTPRoute", "edgelink", {
        "parentRefs": [{"name": "edgelink"}],
        "hostnames": edge.domains,
        "rules": [
            # Without a match it would be for every path, and so publish the control plane.
            *([to_pages] if pages else []),
            # Until then the filter says 503.
            {"matches": [{"path": {"type": "Exact", "value": READY_PATH}}], "filters": ready},
            # What the filter does not answer. Links come by here: the filter is only there where a route is.
            {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "filters": nothing},
        ],
    })
    for name, (status, text) in answers.items():
        yield resource("gateway.envoyproxy.io/v1alpha1", "HTTPRouteFilter", name, {
            "directResponse": {"statusCode": status, "contentType": "text/plain", "body": {"type": "Inline", "inline": text}},
        })
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edgelink"}
    if edge.is_native:
        # Not terminalFilter: a router stands behind it in any case.
        extension = {"dynamicModule": [{"name": "edgelink", "filterName": edge.filter["filter_name"], "config": edge.plugin}]}
    else:
        code = {"type": "Image", "image": {"url": image}}
        extension = {"wasm": [{"name": "edgelink", "rootID": "edgelink", "failOpen": False, "code": code, "config": edge.plugin}]}
    yield resource("gateway.envoyproxy.io/v1alpha1", "EnvoyExtensionPolicy", "edgelink", {"targetRefs": [target], **extension})
    patches = [("listener.v3.Listener", each) for each in edge.listeners()] + [("cluster.v3.Cluster", each) for each in edge.clusters()]
    if patches:
        yield resource("gateway.envoyproxy.io/v1alpha1", "EnvoyPatchPolicy", "edgelink", {
            "targetRef": target,
            "type": "JSONPatch",
            "jsonPatches": [
                {"type": f"type.googleapis.com/envoy.config.{kind}", "name": each["name"], "operation": {"op": "add", "path": "", "value": each}}
                for kind, each in patches
            ],
        })


class Dumper(yaml.SafeDumper):
    """Without anchors, which few readers of YAML expect in resources."""

    def ignore_aliases(self, _):
        return True


def main():
    kinds = {"istio": istio, "envoy-gateway": envoy_gateway}
    if len(sys.argv) != 4 or sys.argv[1] not in kinds:
        sys.exit("usage: resources.py istio|envoy-gateway FOLDER IMAGE")
    kind, folder, image = sys.argv[1:]
    print(f"# Made by envoy/deploy/mesh/resources.py {kind}: change what it is made of.")
    yaml.dump_all(kinds[kind](Edge(Path(folder)), image), sys.stdout, Dumper=Dumper, sort_keys=False, width=120)


if __name__ == "__main__":
    main()
