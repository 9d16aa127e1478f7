#!/usr/bin/env bash
# Checks envoy/deploy with what tests/install.sh has installed for it; arguments are those of check.py.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$here/../../.edgelink/deploy-checks/bin/python3" -B "$here/check.py" "$@"
