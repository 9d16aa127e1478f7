"""envoy/deploy/kubernetes: the overlays as kubectl builds them, the Secrets of secrets.sh, and what refers to what."""

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

import envoys
import meshes
import pods
import tls
from envoys import EDGELINK, ROOT

HOME = ROOT / "envoy/deploy/kubernetes"
# preStop.sleep came with 1.30; the newest that kubernetes-validate knows comes last.
VERSIONS = ("1.30", "1.37")
# How each filter reaches Redis.
REDIS = {"wasm": "pooled", "native": "direct"}
# kubectl is beside the Python that runs this.
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def check():
    with tempfile.TemporaryDirectory() as name:
        keys = Path(name) / "keys"
        if made(keys, "wasm") != made(keys, "wasm"):
            yield "secrets.sh: a second call prints other Secrets: keys must stay"
        for edge in envoys.EDGES:
            for overlay in ("small", "production"):
                yield from (f"{overlay}, {edge}: {problem}" for problem in of_overlay(build(overlay) + made(keys, edge)))
            yield from (f"production-tls, {edge}: {problem}" for problem in of_tls(build("production-tls"), keys, edge))


def of_overlay(resources):
    yield from of_schemas(resources)
    yield from of_references(resources)
    for resource in resources:
        yield from of_hardening(resource)
    yield from of_settings(resources)
    yield from of_envoy(resources)


def of_tls(resources, keys, edge):
    """With certificates as cert-manager makes them of the resources; then control plane, Redis and Envoy use them."""
    with tempfile.TemporaryDirectory() as name:
        authority = tls.Authority(Path(name), "of the deployment")
        issued = [issued_secret(authority, each["spec"]) for each in resources if each["kind"] == "Certificate" and not each["spec"].get("isCA")]
        redis = tls.Authority(Path(name), "of Redis")
        issued.append(secret("edgelink-redis-ca", {"ca.crt": redis.certificate}))
        whole = resources + issued + made(keys, edge, EDGELINK_TLS="true", EDGELINK_REDIS_TLS="true", EDGELINK_REDIS_URL="rediss://redis:6379")
        yield from of_overlay(whole)
        yield from tls.follows_links(whole, redis, edge)


def issued_secret(authority, spec):
    certificate, key = authority.issue(spec.get("commonName", ""), spec.get("dnsNames", []), spec["usages"])
    return secret(spec["secretName"], {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate})


def secret(name, texts):
    values = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": values}


def build(overlay):
    built = subprocess.run(["kubectl", "kustomize", HOME / "overlays" / overlay], check=True, capture_output=True, text=True, env={"PATH": PATH})
    return list(yaml.safe_load_all(built.stdout))


def made(keys, edge, **more):
    variables = {
        "PATH": PATH,
        "EDGELINK_DOMAINS": "go.example",
        "EDGELINK_FILTER": edge,
        "EDGELINK_REDIS": REDIS[edge],
        "EDGELINK_REDIS_SERVERS": "redis:6379",
        "EDGELINK_STORE_URL": "mysql://edgelink:password@database/edgelink",
        "EDGELINK_REDIS_URL": "redis://redis:6379",
        "EDGELINK_SERVER_TRUSTED_PROXIES": "10.0.0.0/8",
        "EDGELINK_PREFIX": "/s/",
        "EDGELINK_TRAILING_SLASH": "true",
        **more,
    }
    text = subprocess.run([HOME / "secrets.sh", keys], check=True, capture_output=True, text=True, env=variables).stdout
    return [each for each in yaml.safe_load_all(text) if each]


def of_schemas(resources):
    own = [each for each in resources if each["apiVersion"].startswith("cert-manager.io/")]
    yield from meshes.of_schemas(own)
    for version in VERSIONS:
        for resource in resources:
            if resource in own:
                continue
            try:
                # kubectl prints "creationTimestamp: null", which the schemas do not know.
                resource["metadata"].pop("creationTimestamp", None)
                kubernetes_validate.validate(resource, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"Kubernetes {version}: {resource['kind']} {resource['metadata']['name']}: {error.message}"


def of_references(resources):
    """Names of ConfigMaps, Secrets and claims, their keys, labels that select pods, and names of ports."""
    there = {(each["kind"], each["metadata"]["name"]): each for each in resources}
    pods = [each["spec"]["template"] for each in resources if each["kind"] == "Deployment"]
    ports = {port["name"] for pod in pods for container in pod["spec"]["containers"] for port in container["ports"]}
    for kind, name, key in references(pods):
        if (kind, name) not in there:
            yield f"there is no {kind} {name}"
        elif key and key not in there[kind, name]["data"]:
            yield f"{kind} {name} has no {key}"
    for (kind, name), resource in there.items():
        spec = resource.get("spec", {})
        selector = {"Service": spec.get("selector"), "PodDisruptionBudget": spec.get("selector", {}).get("matchLabels")}.get(kind)
        if kind == "NetworkPolicy":
            selector = spec["podSelector"]["matchLabels"]
            named = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
        else:
            named = {port["targetPort"] for port in spec.get("ports", [])}
        if selector and not any(selector.items() <= pod["metadata"]["labels"].items() for pod in pods):
            yield f"{kind} {name} selects no pod"
        yield from (f"{kind} {name}: no container has the port {port}" for port in named - ports)
        if kind == "HorizontalPodAutoscaler" and (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) not in there:
            yield f"{kind} {name} scales what is not there"


def references(pods):
    """(kind, name, key or None) of what pods take from elsewhere."""
    for pod in pods:
        for volume in pod["spec"].get("volumes", []):
            if "secret" in volume:
                yield "Secret", volume["secret"]["secretName"], None
            if "persistentVolumeClaim" in volume:
                yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
        for container in pod["spec"]["containers"]:
            for source in container.get("envFrom", []):
                yield from (("Secret" if "secret" in kind else "ConfigMap", source[kind]["name"], None) for kind in source)
            for variable in container.get("env", []):
                chosen = variable["valueFrom"]["secretKeyRef"]
                yield "Secret", chosen["name"], chosen["key"]


def of_hardening(resource):
    if resource["kind"] != "Deployment":
        return
    pod = resource["spec"]["template"]["spec"]
    if pod["automountServiceAccountToken"] or not pod["securityContext"]["runAsNonRoot"]:
        yield f"{resource['metadata']['name']}: a pod has a token of the cluster, or may be root"
    for container in pod["containers"]:
        own = container["securityContext"]
        if own["allowPrivilegeEscalation"] or not own["readOnlyRootFilesystem"] or own["capabilities"] != {"drop": ["ALL"]}:
            yield f"{container['name']}: more is permitted than is needed"
        if {"startupProbe", "readinessProbe", "livenessProbe"} - set(container) or "memory" not in container["resources"]["limits"]:
            yield f"{container['name']}: a probe or the limit of memory is missing"


def of_settings(resources):
    """Whether the control plane takes what its pods have in their environment."""
    with tempfile.TemporaryDirectory() as folder:
        settings = pods.environment(resources, Path(folder))
        done = subprocess.run([EDGELINK, "serve", "--check-config"], capture_output=True, text=True, env=settings)
        if done.returncode:
            yield f"the control plane does not take its settings: {done.stdout}{done.stderr}"
    for name, wanted in {"EDGELINK_LINKS_PREFIX": "/s/", "EDGELINK_LINKS_TRAILING_SLASH": "true"}.items():
        if settings.get(name) != wanted:
            yield f"edges have links elsewhere than the control plane, whose {name} is {settings.get(name)}"
    reference = (ROOT / "control-plane/book/docs/reference/settings.md").read_text()
    yield from (f"the control plane has no {name}" for name in settings if f"| `{name}`" not in reference)


def of_envoy(resources):
    """Whether Envoy takes its files, with the arguments of the container."""
    with tempfile.TemporaryDirectory() as folder:
        if problem := envoys.refusal(pods.arguments(resources, Path(folder))):
            yield f"Envoy refuses what it is given: {problem}"
