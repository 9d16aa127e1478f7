// Checks resources of Istio, of the Gateway API and of cert-manager against their schemas. Standard input is a list of resources as JSON; what is
// wrong with them is printed, and the kinds for which there is no schema.

import { text } from "node:stream/consumers";
import { Certificate, Issuer } from "@kubernetes-models/cert-manager/cert-manager.io/v1";
import { Gateway, HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import { WasmPlugin } from "@kubernetes-models/istio/extensions.istio.io/v1alpha1";
import { Gateway as IstioGateway, VirtualService } from "@kubernetes-models/istio/networking.istio.io/v1";
import { EnvoyFilter } from "@kubernetes-models/istio/networking.istio.io/v1alpha3";

const models = {
  "cert-manager.io/v1 Certificate": Certificate,
  "cert-manager.io/v1 Issuer": Issuer,
  "gateway.networking.k8s.io/v1 Gateway": Gateway,
  "gateway.networking.k8s.io/v1 HTTPRoute": HTTPRoute,
  "extensions.istio.io/v1alpha1 WasmPlugin": WasmPlugin,
  "networking.istio.io/v1 Gateway": IstioGateway,
  "networking.istio.io/v1 VirtualService": VirtualService,
  "networking.istio.io/v1alpha3 EnvoyFilter": EnvoyFilter,
};

const problems = [];
const unknown = [];
for (const resource of JSON.parse(await text(process.stdin))) {
  const kind = `${resource.apiVersion} ${resource.kind}`;
  if (!(kind in models)) {
    unknown.push(kind);
    continue;
  }
  try {
    new models[kind](resource).validate();
  } catch (error) {
    problems.push(`${kind} ${resource.metadata.name}: ${error.message}`);
  }
}
console.log(JSON.stringify({ problems, unknown }));
