"""What the pods of envoy/deploy/kubernetes are given, on this machine: Secrets as files in a folder, environment, arguments."""

import base64

import images


def data(resources, kind, name):
    """What a Secret or ConfigMap holds, as text. kustomize puts a hash behind names of the latter."""
    names = {"Secret": lambda there: there == name, "ConfigMap": lambda there: there.startswith(name)}
    found = next(each for each in resources if each["kind"] == kind and names[kind](each["metadata"]["name"]))["data"]
    return {key: base64.b64decode(value).decode() if kind == "Secret" else value for key, value in found.items()}


def pod(resources, deployment):
    found = next(each for each in resources if each["kind"] == "Deployment" and each["metadata"]["name"] == deployment)
    return found["spec"]["template"]["spec"]


def mounted(resources, deployment, folder):
    """Writes the Secrets that a container has mounted into a folder: where it has them -> where they are here."""
    spec, places = pod(resources, deployment), {}
    (container,) = spec["containers"]
    for volume in spec["volumes"]:
        if "secret" in volume:
            mount = next(each["mountPath"] for each in container["volumeMounts"] if each["name"] == volume["name"])
            place = places[mount] = folder / deployment / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            for name, text in data(resources, "Secret", volume["secret"]["secretName"]).items():
                (place / name).write_text(text)
    return places


def moved(text, places):
    for old, new in places.items():
        text = text.replace(old, str(new))
    return text


def environment(resources, folder):
    """The environment of the control plane. What a Secret says counts first, as in a pod."""
    places = mounted(resources, "edgelink-control-plane", folder)
    settings = data(resources, "ConfigMap", "edgelink-settings") | data(resources, "Secret", "edgelink-control-plane")
    return {name: moved(value, places) for name, value in settings.items()}


def arguments(resources, folder, replaced=None):
    """The arguments of Envoy, whose files have what `replaced` says in other places."""
    places = mounted(resources, "edgelink-edge", folder)
    elsewhere = {**places, **images.in_edge(), **(replaced or {})}
    for file in places["/etc/envoy"].iterdir():
        file.write_text(moved(file.read_text(), elsewhere))
    (container,) = pod(resources, "edgelink-edge")["containers"]
    variables = {
        f"$({each['name']})": (places["/etc/envoy"] / each["valueFrom"]["secretKeyRef"]["key"]).read_text() for each in container.get("env", [])
    }
    return [variables.get(each, moved(each, places)) for each in container["args"]]
