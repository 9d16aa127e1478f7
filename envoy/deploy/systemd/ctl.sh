#!/usr/bin/env bash
# Installed as /usr/bin/edgelink-ctl. Runs a command of `edgelink` as edgelink.service runs it: with its user, folder, edgelink.toml, edgelink.env and secrets, as in
# `sudo edgelink-ctl flush --restored`. Without them a command would be about another database.
set -euo pipefail

if [[ -z ${CREDENTIALS_DIRECTORY:-} ]]; then
  exec systemd-run --quiet --pipe --wait --collect --service-type=exec \
    --property=User=edgelink --property=Group=edgelink --property=UMask=0077 \
    --property=EnvironmentFile=-/etc/edgelink/edgelink.env \
    --property=LoadCredential=code-key:/etc/edgelink/secrets/code-key \
    --property=LoadCredential=edge-token:/etc/edgelink/secrets/edge-token \
    --property=StateDirectory=edgelink --property=StateDirectoryMode=0700 --property=WorkingDirectory=/var/lib/edgelink \
    --property=LimitCORE=0 --property=MemorySwapMax=0 \
    "$(realpath "$0")" "$@"
fi
export EDGELINK_LINKS_CODE_KEY_FILE=$CREDENTIALS_DIRECTORY/code-key EDGELINK_AUTH_EDGE_TOKEN_FILE=$CREDENTIALS_DIRECTORY/edge-token
export EDGELINK_AUTH_ADMIN_KEY_FILE=/var/lib/edgelink/admin-key
exec /usr/bin/edgelink --config /etc/edgelink/edgelink.toml "$@"
