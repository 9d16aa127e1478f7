"""envoy/deploy/systemd, installed into a folder: units, users, folders, logrotate, and the drain of a real Envoy."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import envoys
from envoys import ROOT

HOME = ROOT / "envoy/deploy/systemd"
UNITS = ("edgelink.service", "edgelink-edge.service")
# Of 10; what systemd-analyze calls OK.
MOST_EXPOSURE = 2.0


def check():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        install(root)
        yield from installed_twice(root)
        # Targets that the units want.
        for file in Path("/lib/systemd/system").glob("*.target"):
            shutil.copy(file, root / "usr/lib/systemd/system")
        yield from silent("systemd-analyze", "verify", f"--root={root}", *UNITS)
        for unit in UNITS:
            threshold = f"--threshold={MOST_EXPOSURE * 10:.0f}"
            yield from succeeds("systemd-analyze", "security", "--offline=true", threshold, f"--root={root}", unit)
        yield from succeeds("systemd-sysusers", f"--root={root}")
        for name in ("edgelink.env", "edge.env"):
            (root / "etc/edgelink" / name).write_text("EDGELINK_STORE_URL=mysql://user:password@host/links\n")
            (root / "etc/edgelink" / name).chmod(0o644)
        yield from succeeds("systemd-tmpfiles", f"--root={root}", "--create", "edgelink.conf")
        yield from right_owners(root)
        for edge in envoys.EDGES:
            yield from envoy_takes_it(root, edge)
        yield from succeeds("logrotate", "--debug", root / "etc/logrotate.d/edgelink")
    yield from known_variables()
    yield from commands_as_the_unit()
    for edge in envoys.EDGES:
        yield from drains(edge)
    yield from drains_without_curl()


def install(root):
    """Instead of the control plane, which may not be built for release, a program that exists; the native module of the tests."""
    variables = {"EDGELINK_BIN": "/bin/true", "EDGELINK_NATIVE": str(envoys.NATIVE)}
    subprocess.run([HOME / "install.sh", root], check=True, env={**os.environ, **variables})


def installed_twice(root):
    """A second installation leaves settings alone, and brings new programs."""
    settings, drain = root / "etc/edgelink/edgelink.toml", root / "usr/lib/edgelink/envoy/drain.sh"
    settings.write_text("# mine\n")
    drain.write_text("")
    install(root)
    if settings.read_text() != "# mine\n":
        yield "install.sh: a second installation replaces settings"
    if drain.read_text() != (HOME / "drain.sh").read_text():
        yield "install.sh: a second installation does not replace programs"


def succeeds(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        yield f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"


def silent(*command):
    """What it says is a problem, even if it calls itself successful: an unknown key is a warning only."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or done.stdout + done.stderr:
        yield f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}"


def right_owners(root):
    users = (root / "etc/passwd").read_text()
    for unit in UNITS:
        text = (HOME / unit).read_text()
        user = next(line.split("=")[1] for line in text.splitlines() if line.startswith("User="))
        if f"\n{user}:" not in f"\n{users}":
            yield f"{unit}: sysusers.conf makes no user {user}"
    for name in ("secrets", "edgelink.env", "edge.env"):
        if (root / "etc/edgelink" / name).stat().st_mode & 0o077:
            yield f"tmpfiles.conf: others than root can read {name}"
    settings = (root / "etc/edgelink/edgelink.toml").stat()
    group = next(line.split(":")[2] for line in (root / "etc/group").read_text().splitlines() if line.startswith("edgelink:"))
    if settings.st_mode & 0o777 != 0o640 or settings.st_gid != int(group):
        yield f"tmpfiles.conf: edgelink.toml is {settings.st_mode & 0o777:o} of group {settings.st_gid}, not 640 of edgelink's"


def envoy_takes_it(root, edge):
    """Envoy as the unit starts it with that filter, with the files that were installed and no others."""
    for folder in ("credentials", "var/log/edgelink-edge"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "credentials/edge-token").write_text(envoys.TOKEN)
    text = (HOME / "edgelink-edge.service").read_text()
    variables = dict(re.findall(r"\b(EDGELINK_\w+)=(\S+)", text))
    moved = {"%d": root / "credentials", "/run/": f"{root}/run/", "/usr/": f"{root}/usr/", "/var/": f"{root}/var/"}
    for old, new in moved.items():
        variables = {name: value.replace(old, str(new)) for name, value in variables.items()}
    needed = {"PATH": os.environ["PATH"], "EDGELINK_ENVOY": envoys.find(), "EDGELINK_DOMAINS": "go.example", "EDGELINK_FILTER": edge}
    command = [root / "usr/lib/edgelink/envoy/run.sh", "--mode", "validate"]
    # What envoy/deploy/README.md says may be added to the unit.
    limit = deny_write_execute if edge == "native" else None
    done = subprocess.run(command, capture_output=True, text=True, env={**variables, **needed}, preexec_fn=limit)
    if done.returncode:
        yield f"edgelink-edge.service, {edge}: {done.stdout}{done.stderr}"


def deny_write_execute():
    """As systemd's MemoryDenyWriteExecute, where the kernel knows it (6.3)."""
    set_mdwe, refuse_exec_gain = 65, 1
    ctypes.CDLL(None).prctl(set_mdwe, refuse_exec_gain, 0, 0, 0)


def known_variables():
    references = "".join((ROOT / f"control-plane/book/docs/reference/{page}.md").read_text() for page in ("settings", "envoy-settings"))
    for unit in UNITS:
        names = set(re.findall(r"\b(EDGELINK_\w+)=", (HOME / unit).read_text())) - {"EDGELINK_ENVOY_INSTALL"}
        yield from (f"{unit}: no reference has {name}" for name in names if f"`{name}`" not in references)


def commands_as_the_unit():
    """edgelink-ctl has the user, settings and secrets of the unit, and what it gives to systemd-run systemd knows."""
    script, unit = (HOME / "ctl.sh").read_text(), (HOME / "edgelink.service").read_text()
    properties = re.findall(r"--property=(\S+)", script)
    yield from (f"ctl.sh: edgelink.service has no {line}" for line in properties if line not in unit.splitlines())
    for name in ("User", "Group", "EnvironmentFile", "LoadCredential", "WorkingDirectory", "StateDirectory"):
        lines = [line for line in unit.splitlines() if line.startswith(f"{name}=")]
        yield from (f"ctl.sh: there is no {line}" for line in lines if line not in properties)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "command.service"
        file.write_text("[Service]\nType=exec\nExecStart=/bin/true\n" + "\n".join(properties))
        yield from silent("systemd-analyze", "verify", "--man=no", file)
        inside = Path(folder) / "inside"
        inside.write_text(script.replace("exec /usr/bin/edgelink ", "env; exec echo "))
        given = {"PATH": os.environ["PATH"], "CREDENTIALS_DIRECTORY": "/secrets"}
        said = subprocess.run(["bash", inside, "flush", "--restored"], check=True, capture_output=True, text=True, env=given).stdout
    if "--config /etc/edgelink/edgelink.toml flush --restored" not in said:
        yield f"ctl.sh: {said}"
    for name, value in re.findall(r"\b(EDGELINK_\w+_FILE)=(\S+)", unit):
        if f"{name}={value.replace('%d', '/secrets')}\n" not in said:
            yield f"ctl.sh: it has not the {name} of edgelink.service"


def drains_without_curl():
    """Where connections cannot be counted they have all of the time that there is for them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bash", "sleep", "sed", "env"):
            (Path(folder) / name).symlink_to(shutil.which(name))
        begun = time.monotonic()
        variables = {"PATH": folder, "EDGELINK_DRAIN_SECONDS": "2"}
        subprocess.run([shutil.which("bash"), HOME / "drain.sh"], check=True, timeout=15, stderr=subprocess.DEVNULL, env=variables)
        if time.monotonic() - begun < 1.5:
            yield "drain.sh: without curl it takes no time for an end"


def drains(edge):
    """An Envoy that drain.sh was called for is not ready any more, and drain.sh returns once there are no connections."""
    with tempfile.TemporaryDirectory() as folder, envoys.running(Path(folder), EDGELINK_FILTER=edge) as address:
        port = address.rpartition(":")[2]
        subprocess.run([HOME / "drain.sh"], check=True, timeout=15, env={**os.environ, "EDGELINK_ADMIN_PORT": port})
        if envoys.status(f"http://{address}/ready") != 503:
            yield f"drain.sh, {edge}: Envoy is ready as before"
