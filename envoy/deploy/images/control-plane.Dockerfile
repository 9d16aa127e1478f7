# The control plane, as `make release` has built it on Debian 12, with no shell beside it:
# `docker build -f envoy/deploy/images/control-plane.Dockerfile -t edgelink/control-plane .` in the root of the repository.
# It needs no writable file system: with SQLite mount /var/lib/edgelink, and /tmp for imports in the console.

# A base with glibc, libgcc and certificates, and a user 65532.
ARG BASE=gcr.io/distroless/cc-debian12:nonroot
FROM ${BASE}
COPY --chmod=0555 target/release/edgelink /usr/bin/edgelink
ENV EDGELINK_SERVER_LISTEN=0.0.0.0:8081
WORKDIR /var/lib/edgelink
USER 65532:65532
EXPOSE 8081
ENTRYPOINT ["/usr/bin/edgelink"]
CMD ["serve"]
