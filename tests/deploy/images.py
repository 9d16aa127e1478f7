"""envoy/deploy/images: Dockerfiles, what they copy, and the OCI layout of a wasm module."""

import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import envoys
from envoys import EDGELINK, ROOT

HOME = ROOT / "envoy/deploy/images"
# What the base of the control plane's image has for programs.
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def check():
    for file in sorted(HOME.glob("*.Dockerfile")):
        linted = subprocess.run([Path(sys.executable).parent / "hadolint", file], capture_output=True, text=True)
        if linted.returncode:
            yield f"hadolint: {linted.stdout}{linted.stderr}"
        yield from (f"{file.name}: {problem}" for problem in of_dockerfile(file))
    yield from of_edge()
    needed = set(re.findall(r"NEEDED\)\s+Shared library: \[(.*)\]", readelf()))
    yield from (f"the control plane needs {library}, which its image has not" for library in needed - LIBRARIES)
    yield from of_layout()


def readelf():
    return subprocess.run(["readelf", "--dynamic", EDGELINK], check=True, capture_output=True, text=True).stdout


def of_dockerfile(file):
    """It copies what exists once it is built, what its .dockerignore lets through, and runs as a number that is not root's."""
    text = file.read_text()
    ignored = file.with_name(f"{file.name}.dockerignore").read_text().split()
    sources = [source for source, _ in copies(text)]
    if ignored != ["**", *(f"!{source}" for source in sources)]:
        yield f"its .dockerignore lets through {ignored[1:]}, and it copies {sources}"
    if not re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.M):
        yield "it does not say which user it runs as, by a number"
    if re.search(r"^(RUN|ADD) ", text, re.M):
        yield "it builds something, which needs a shell"


def copies(text):
    """(path here, place in the image) of what a Dockerfile copies."""
    for line in re.findall(r"^COPY (.*)$", text, re.M):
        *sources, place = (word for word in line.split() if not word.startswith("--"))
        for source in sources:
            yield source, f"{place}{Path(source).name}" if place.endswith("/") else place


def in_edge():
    """The modules of the edge's image: place in the image -> the same file as it was built here."""
    built = {each.name: str(each) for each in (envoys.FILTER, envoys.BRIDGE, envoys.NATIVE)}
    return {place: built[Path(source).name] for source, place in copies((HOME / "edge.Dockerfile").read_text())}


def of_edge():
    """The image of the edge begins with a file that envoy/run.sh renders."""
    command = json.loads(re.search(r"^CMD (.*)$", (HOME / "edge.Dockerfile").read_text(), re.M)[1])
    file = Path(command[command.index("--config-path") + 1])
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([ROOT / "envoy/run.sh", "--render", name], check=True, env=envoys.environment(name))
        if file.parent != Path("/etc/envoy") or not (Path(name) / file.name).exists():
            yield f"edge.Dockerfile: Envoy reads {file}, which envoy/run.sh --render does not write"


def of_layout():
    """The module comes out of the layout as it went in, by the digests that the layout has, and each time the same."""
    with tempfile.TemporaryDirectory() as name:
        first, second = (Path(name) / each for each in ("first", "second"))
        digests = {subprocess.run([HOME / "oci.py", envoys.FILTER, each], check=True, capture_output=True, text=True).stdout for each in (first, second)}
        if len(digests) != 1:
            yield "oci.py: the same module has two digests"
        (entry,) = json.loads((first / "index.json").read_text())["manifests"]
        manifest = json.loads(blob(first, entry))
        config = json.loads(blob(first, manifest["config"]))
        (layer,) = manifest["layers"]
        tar = gzip.decompress(blob(first, layer))
        if config["rootfs"]["diff_ids"] != [f"sha256:{hashlib.sha256(tar).hexdigest()}"]:
            yield "oci.py: the layer has not the digest that the configuration says"
        if tarfile.open(fileobj=io.BytesIO(tar)).extractfile("plugin.wasm").read() != envoys.FILTER.read_bytes():
            yield "oci.py: another module comes out than went in"


def blob(layout, reference):
    data = (layout / "blobs/sha256" / reference["digest"].removeprefix("sha256:")).read_bytes()
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != reference["digest"] or len(data) != reference["size"]:
        raise SystemExit(f"oci.py: a blob is not {reference}")
    return data
