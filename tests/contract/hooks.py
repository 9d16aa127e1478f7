"""Values of the formats that the OpenAPI document names, and whose rules a schema cannot tell."""

import datetime
import unicodedata
import uuid

import schemathesis
from hypothesis import strategies as st

DOMAINS = ["go.example:8080", "other.example"]  # as run.sh configures them

line = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60)
account = line.filter(lambda name: unicodedata.normalize("NFC", name).strip())
host = st.from_regex(r"\A[a-z][a-z0-9]{0,10}(\.[a-z][a-z0-9]{1,10}){1,3}\Z")
path = st.from_regex(r"\A(/[!-~]{0,30})?\Z")
time = st.datetimes(datetime.datetime(2030, 1, 1), datetime.datetime(2090, 1, 1))

FORMATS = {
    "target-url": st.builds("{}://{}{}".format, st.sampled_from(["http", "https"]), host, path),
    "short-domain": st.sampled_from(DOMAINS),
    "domain-name": st.from_regex(r"\A[a-z][a-z0-9]{0,20}\.example\Z"),
    "alias": st.from_regex(r"\A[0-9A-Za-z_-]{1,64}\Z"),
    "line": line,
    "account-name": account,
    "logo": st.builds("https://{}/{}.svg".format, host, st.from_regex(r"\A[a-z]{1,10}\Z")),
    "notes": line,
    "ip": st.ip_addresses().map(str),
    "date-time": time.map(lambda value: value.strftime("%Y-%m-%dT%H:%M:%SZ")),
    "entity-tags": st.just("*"),
    "webhook-url": st.builds("https://hooks.example/{}".format, st.from_regex(r"\A[a-z]{0,10}\Z")),
    # A new one each time: the same key with another body is refused.
    "idempotency-key": st.builds(uuid.uuid4).map(str),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)
