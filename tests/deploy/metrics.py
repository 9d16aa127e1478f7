"""The metrics that there are, and those that an expression of PromQL names."""

import re
from collections import defaultdict

from envoys import ROOT

REFERENCE = ROOT / "control-plane/book/docs/reference/metrics.md"
# What every series has: from Prometheus itself, or from the buckets of a histogram.
EVERYWHERE = {"instance", "job", "le"}
KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"(?<![\w:.])([A-Za-z_:][\w:]*)(?![\w:])\s*(\{[^}]*\})?(?!\s*\()")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? ")


def of_control_plane():
    """name -> label -> values (an empty set: any), by the reference that the code generates and is tested against."""
    text = REFERENCE.read_text()
    table = text.split("<!-- generated: metrics -->")[1].split("<!-- end -->")[0]
    found = {}
    for name, labels in re.findall(r"^\| `(\w+)` \|(.*?)\|", table, re.M):
        known = {label: set(filter(None, re.split(r",\s*", values))) for label, values in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", labels)}
        for suffix in ("_bucket", "_sum", "_count") if name.endswith("_duration_seconds") else ("",):
            found[name + suffix] = known
    if len(found) < 40:
        raise SystemExit(f"the table of metrics in {REFERENCE} was not found")
    return found


def of_exposition(text):
    """name -> label -> values, of what an Envoy or another process exposes."""
    found = {}
    for line in text.splitlines():
        if match := SAMPLE.match(line):
            labels = found.setdefault(match[1], defaultdict(set))
            for label, _, value in MATCHER.findall(match[2] or ""):
                labels[label].add(value)
    return found


def selectors(expression):
    """The metrics of an expression, each with its matchers as (label, operator, value)."""
    text = GROUPING.sub(" ", expression)
    text = re.sub(r"\[[^\]]*\]", " ", text)
    text = re.sub(r"\boffset\s+\w+", " ", text)
    for name, matchers in SELECTOR.findall(text):
        if name.lower() not in KEYWORDS:
            yield name, MATCHER.findall(matchers)


def groupings(expression):
    """The labels that an expression groups by."""
    return {label.strip() for labels in GROUPING.findall(expression) for label in labels.split(",") if label.strip()}


def problems(expression, known):
    """What an expression names that is not there."""
    labels_seen = set(EVERYWHERE)
    for name, matchers in selectors(expression):
        if name not in known:
            yield f"there is no metric {name}"
            continue
        labels_seen |= set(known[name])
        for label, operator, value in matchers:
            if label in EVERYWHERE:
                continue
            if label not in known[name]:
                yield f"{name} has no label {label}"
            elif known[name][label]:
                yield from (
                    f"{label} of {name} is never '{each}'"
                    for each in (value.split("|") if "~" in operator else [value])
                    if not any(matches(operator, each, there) for there in known[name][label])
                )
    yield from (f"no metric has the label {label}" for label in groupings(expression) - labels_seen)


def matches(operator, value, there):
    return re.fullmatch(value, there) is not None if "~" in operator else value == there
