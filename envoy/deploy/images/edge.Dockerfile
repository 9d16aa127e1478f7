# Envoy with the filter, as a Wasm and as a native module, and the bridge in it, with no shell beside it:
# `docker build -f envoy/deploy/images/edge.Dockerfile -t edgelink/edge .` in the root of the repository, after `make wasm native-portable`.
# Mount the folder that `envoy/run.sh --render` writes at /etc/envoy; it says which module is loaded. Where that has a redis.yaml add
# `--config-yaml` and what is in it, as in ../kubernetes. Nothing is written to its file system.

ARG ENVOY=envoyproxy/envoy:distroless-v1.40.0
FROM ${ENVOY}
COPY --chmod=0444 target/wasm32-wasip1/wasm/edgelink_filter.wasm target/wasm32-wasip1/wasm/edgelink_resp_bridge.wasm target/portable/libedgelink.so /usr/lib/edgelink/
USER 65532:65532
EXPOSE 8080 9901
ENTRYPOINT ["/usr/local/bin/envoy"]
CMD ["--config-path", "/etc/envoy/bootstrap.yaml", "--disable-hot-restart", "--log-level", "warning", "--component-log-level", "wasm:info,dynamic_modules:info"]
