//! The product end to end: real Envoy, the compiled filter, and the control plane as built or one that misbehaves.

mod acknowledged;
mod among_others;
mod analytics;
mod api_input;
mod capacity;
mod clicks;
mod configuration;
mod console;
mod dead_feed;
mod doctor;
mod domains;
mod draining;
mod fleet;
mod flush;
mod hostile_bytes;
mod links;
mod listeners;
mod load;
mod make_run;
mod native;
mod native_abi;
mod nginx;
mod nginx_module;
mod observed;
mod outage;
mod pages;
mod passwords;
mod paths;
mod peer;
mod rates;
mod readiness;
mod redis;
mod redis_faults;
mod rules;
mod shlink;
mod tls;
mod urls;
mod visitor_secrets;
mod visits;
mod workers;

/// The scenarios of every edge.
mod scenarios {
    async fn edge() -> edgelink_tests::stack::EnvoyEdge {
        edgelink_tests::stack::EnvoyEdge::start().await
    }

    edgelink_tests::for_each_scenario!(edge);
}

/// Those of an edge that cannot know which hosts are domains.
mod host_scenarios {
    async fn edge() -> edgelink_tests::stack::EnvoyEdge {
        edgelink_tests::stack::EnvoyEdge::start_with_api_domains().await
    }

    edgelink_tests::for_each_host_scenario!(edge);
}
