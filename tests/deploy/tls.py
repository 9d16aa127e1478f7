"""TLS of envoy/deploy/kubernetes: certificates by OpenSSL, and a control plane, a Redis and an Envoy that use them."""

import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import envoys
import meshes
import pods
from envoys import EDGELINK

USAGES = {"server auth": "serverAuth", "client auth": "clientAuth"}
# Envoy's clusters behind which there is TLS. The native module connects to control planes and Redis itself, and those here take TLS
# alone.
CLUSTERS = {"wasm": ("control_plane", "pages", "redis"), "native": ("pages",)}
# More than can be visited until Redis is asked.
SPARE_LINKS = 100
CONNECTED = 'edgelink_redis_connected{edgelink_connection="lookup"} 1'
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    def __init__(self, folder, name):
        self.folder = folder / name.replace(" ", "-")
        self.folder.mkdir()
        self.openssl("req", "-x509", *KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", "ca.key", "-out", "ca.pem")
        self.certificate = self.text("ca.pem")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.folder)

    def text(self, name):
        return (self.folder / name).read_text()

    def issue(self, common_name, names, usages):
        """Certificate and key, as PEM, for these names and uses alone."""
        extensions = ["basicConstraints=CA:FALSE", "extendedKeyUsage=" + ",".join(USAGES[each] for each in usages)]
        if names:
            extensions.append("subjectAltName=" + ",".join(name if ":" in name else f"DNS:{name}" for name in names))
        (self.folder / "extensions").write_text("\n".join(extensions))
        self.openssl("req", *KEY, "-subj", f"/CN={common_name or names[0]}", "-keyout", "key.pem", "-out", "request.pem")
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "extensions"]
        self.openssl("x509", "-req", "-in", "request.pem", *signed, "-out", "certificate.pem")
        return self.text("certificate.pem"), self.text("key.pem")


def follows_links(resources, redis_authority, edge):
    """A link, its preview and a code that was never issued, with a handshake on each way; and the edge API without a certificate."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        ports = {each: envoys.free_port() for each in ("main", "edge", "public", "redis", "visitors", "metrics")}
        redis(folder, redis_authority, ports["redis"], running)
        key = control_plane(resources, folder, ports, running)
        headers = {"X-Api-Key": key, "content-type": "application/json"}
        for slug in ["sale", *map(spare, range(SPARE_LINKS))]:
            body = json.dumps({"longUrl": "https://example.com/a", "customSlug": slug}).encode()
            envoys.status(f"http://127.0.0.1:{ports['main']}/api/v1/links", "POST", body, headers)
        command = [envoys.find(), *pods.arguments(resources, folder, here(ports))]
        admin = running.enter_context(envoys.envoy(command, folder, os.environ))
        yield from meshes.becomes_ready(ports["visitors"], "/health/ready")
        for path, status in {"/s/sale": 302, "/s/sale+": 200, "/s/0000000": 404, "/sale": 404}.items():
            if (got := meshes.visit(ports["visitors"], path)) != status:
                yield f"{path} is {got}, not {status}"
        asks_redis(ports["visitors"], lambda: handshakes(admin, "redis") if edge == "wasm" else CONNECTED in meshes.metrics(admin))
        for cluster in CLUSTERS[edge]:
            if not handshakes(admin, cluster):
                yield f"there was no handshake of TLS with {cluster}"
        if edge == "native":
            yield from meshes.counted(admin, CONNECTED)
        yield from refuses_strangers(resources, ports["edge"])


def spare(index):
    return f"spare-{index}"


def asks_redis(port, is_seen):
    """Visits links that no cache has until Redis was asked for one: it is once the feed says that it counts."""
    for index in range(SPARE_LINKS):
        if is_seen():
            return
        meshes.visit(port, f"/s/{spare(index)}")
        time.sleep(0.1)


def redis(folder, authority, port, running):
    certificate, key = authority.issue("", ["redis", "IP:127.0.0.1"], ["server auth"])
    files = {"redis.pem": certificate, "redis.key": key, "redis-ca.pem": authority.certificate}
    for name, text in files.items():
        (folder / name).write_text(text)
    tls = [f"--tls-{option}={folder / name}" for option, name in zip(("cert-file", "key-file", "ca-cert-file"), files, strict=True)]
    options = [part for each in tls for part in each.split("=", 1)]
    command = ["redis-server", "--port", "0", "--tls-port", str(port), *options, "--tls-auth-clients", "no", "--dir", folder, "--save", ""]
    running.enter_context(envoys.started(command, folder / "redis.log", os.environ, lambda: envoys.listens(port)))


def control_plane(resources, folder, ports, running):
    """Starts one with what its pods have, but for addresses and a SQLite; its admin key."""
    variables = pods.environment(resources, folder) | {
        "EDGELINK_STORE_URL": f"sqlite://{folder}/edgelink.db",
        "EDGELINK_STORE_AUTO_MIGRATE": "true",
        "EDGELINK_REDIS_URL": f"rediss://127.0.0.1:{ports['redis']}",
        "EDGELINK_AUTH_ADMIN_KEY_FILE": str(folder / "admin-key"),
        "EDGELINK_SERVER_LISTEN": f"127.0.0.1:{ports['main']}",
        "EDGELINK_SERVER_EDGE_LISTEN": f"127.0.0.1:{ports['edge']}",
        "EDGELINK_SERVER_PUBLIC_LISTEN": f"127.0.0.1:{ports['public']}",
    }
    is_ready = lambda: envoys.listens(ports["main"]) and envoys.status(f"http://127.0.0.1:{ports['main']}/health/ready") == 200  # noqa: E731
    running.enter_context(envoys.started([EDGELINK, "serve"], folder / "control-plane.log", variables, is_ready))
    return (folder / "admin-key").read_text().strip()


def here(ports):
    """What Envoy's files say of addresses -> the same on this machine."""
    hosts = {("edgelink-control-planes", 8083): "edge", ("edgelink-control-planes", 8084): "public", ("redis", 6379): "redis"}
    listeners = {('"::"', 8080): "visitors", ('"::"', 9902): "metrics"}
    moved = {f'address: "{host}", port_value: {port} ': f'address: "127.0.0.1", port_value: {ports[name]} ' for (host, port), name in hosts.items()}
    moved |= {f"address: {host}, port_value: {port}": f"address: {host}, port_value: {ports[name]}" for (host, port), name in listeners.items()}
    # A server that is named by its address has to have a certificate for it, unless another name is expected.
    moved['\\"https://edgelink-control-planes:8083\\"]'] = f'\\"https://127.0.0.1:{ports["edge"]}\\"], \\"serverName\\": \\"edgelink-control-planes\\"'
    moved["redis:6379"] = f"127.0.0.1:{ports['redis']}"
    return moved | {"{ address: 127.0.0.1, port_value: 9901 }": "{ address: 127.0.0.1, port_value: 0 }"}


def handshakes(admin, cluster):
    text = envoys.get(admin, "/stats", filter=rf"^cluster\.{cluster}\.ssl\.handshake$")
    return int(text.partition(": ")[2] or 0)


def refuses_strangers(resources, port):
    """The edge API, to a client that knows its authority and shows no certificate."""
    context = ssl.create_default_context(cadata=pods.data(resources, "Secret", "edgelink-edge-tls")["ca.crt"])
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", "/health/ready")
        yield f"the edge API answers a client without a certificate: {connection.getresponse().status}"
    except OSError:
        pass
    finally:
        connection.close()
