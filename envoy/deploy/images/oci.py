#!/usr/bin/env python3
"""A wasm module as an OCI image in a folder, as Istio and Envoy Gateway read it: one layer with plugin.wasm.

`oci.py MODULE FOLDER` writes the folder (an OCI image layout) and prints the digest of the image. The same module gives the
same digest. Any tool that knows layouts brings it to a registry, such as `skopeo copy oci:FOLDER docker://HOST/edgelink:1`
or `oras cp --from-oci-layout FOLDER:latest HOST/edgelink:1`.
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image"


def layer(module):
    """A tar with plugin.wasm, without anything that changes from build to build."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        entry = tarfile.TarInfo("plugin.wasm")
        entry.size, entry.mode = len(module), 0o644
        tar.addfile(entry, io.BytesIO(module))
    return data.getvalue()


def digest(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layout:
    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "blobs/sha256").mkdir(parents=True)
        (self.folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))

    def put(self, data, kind):
        """Writes a blob, and says how to refer to it."""
        name = digest(data)
        (self.folder / "blobs/sha256" / name.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": f"{OCI}.{kind}", "digest": name, "size": len(data)}

    def put_json(self, value, kind):
        return self.put(json.dumps(value, separators=(",", ":")).encode(), kind)

    def finish(self, manifest):
        entry = {**manifest, "annotations": {"org.opencontainers.image.ref.name": "latest"}}
        index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [entry]}
        (self.folder / "index.json").write_text(json.dumps(index))


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: oci.py MODULE FOLDER")
    module, folder = Path(sys.argv[1]), Path(sys.argv[2])
    if folder.exists():
        sys.exit(f"{folder} is there already")
    tar = layer(module.read_bytes())
    layout = Layout(folder)
    packed = layout.put(gzip.compress(tar, 9, mtime=0), "layer.v1.tar+gzip")
    # wasm is no architecture that registries know; none is looked at here.
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest(tar)]}, "config": {}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": layout.put_json(config, "config.v1+json"),
        "layers": [packed],
    }
    reference = layout.put_json(manifest, "manifest.v1+json")
    layout.finish(reference)
    print(reference["digest"])


if __name__ == "__main__":
    main()
