//! Work on Envoy's main thread: begin and end of configurations, callouts, and updates of metrics.

use crate::abi::{self, Configuration, Level};
use crate::metrics::DefinedMetrics;
use crate::orders::{CalloutEnd, Order, Sent, make_batch};
use crate::panics::{self, Panicked};
use crate::process::{Config, NO_ROOT, Process};
use crate::routes::RouteConfig;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::settings::{Route, Settings};
use edgelink_wire::clicks::VisitorKeys;
use edgelink_wire::{LinkAnswer, link_batch};
use zeroize::Zeroize;

/// A callout for several lookups has ended. If the response is not a valid answer to it, all of them have failed.
fn end_batch(config: &Config, orders: Vec<Order>, end: &CalloutEnd<'_>) {
    let is_ours = end.content_type == link_batch::MEDIA_TYPE.as_bytes();
    let answers = match end.status {
        b"200" if is_ours => link_batch::read(&end.body, orders.len()).ok(),
        _ => None,
    };
    // Each has a turn of its own: a panic over one answer does not lose the earlier ones.
    let respond = |order: &Order, response: Response<'_>| {
        let _counted = config
            .process
            .with(|worker| worker.on_response(order.token, response));
    };
    let Some(answers) = answers else {
        if is_refused(end.status) {
            let _counted = config.process.with(|worker| worker.ask_alone(orders));
            return;
        }
        let mut failed = Response {
            status: end.status,
            ..Response::default()
        };
        for order in &orders {
            respond(order, failed);
            // The circuit breaker counts timeouts of requests.
            failed = Response::default();
        }
        return;
    };
    for (mut order, (status, body)) in orders.into_iter().zip(answers) {
        if status == link_batch::LATE {
            order.is_alone = true;
            let _counted = config.process.with(|worker| worker.host.order(order));
            continue;
        }
        let status = status.to_string();
        let response = Response {
            status: status.as_bytes(),
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body,
        };
        respond(&order, response);
    }
}

/// True if the status of a batch means that batches are not supported, by an earlier version or a proxy in front. Statuses that
/// also occur for single lookups do not count.
fn is_refused(status: &[u8]) -> bool {
    match status {
        b"200" | b"501" => true,
        b"401" | b"408" | b"429" => false,
        status => status.starts_with(b"4"),
    }
}

/// A configuration begins. `None` if it is invalid; the log names the fields.
pub(crate) fn begin(
    envoy: Configuration<'_>,
    name: &[u8],
    json: &[u8],
    (is_validated, workers): (bool, u32),
) -> Option<Config> {
    let settings = Settings::parse(json).and_then(|settings| settings.for_process(workers));
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => {
            abi::log(Level::Error, &format!("plugin configuration: {error}"));
            return None;
        }
    };
    let process = Process::named(name);
    let metrics = DefinedMetrics::define(envoy);
    let root = if is_validated {
        NO_ROOT
    } else {
        process.begin(settings, envoy.scheduler()).ok()?
    };
    Some(Config {
        process,
        root,
        metrics,
    })
}

/// A configuration has ended.
pub(crate) fn end(config: &Config) {
    if config.root != NO_ROOT {
        config.process.end(config.root);
    }
}

/// The configuration of a route begins. `None` if it is invalid; the log names the fields.
pub(crate) fn begin_route(json: &[u8]) -> Option<RouteConfig> {
    match Route::parse(json) {
        Ok(route) => Some(RouteConfig::new(route)),
        Err(error) => {
            abi::log(Level::Error, &format!("configuration of a route: {error}"));
            None
        }
    }
}

/// Does the queued work: metrics and callouts.
pub(crate) fn scheduled(envoy: Configuration<'_>, config: &Config) {
    let Some((orders, changes)) = config.process.take_orders(config.root) else {
        return;
    };
    config.metrics.apply(envoy, changes);
    let made: Vec<_> = orders
        .into_iter()
        .map(|orders| {
            let made = panics::catch(|| match &*orders {
                [order] => order.make(envoy),
                orders => make_batch(envoy, orders),
            });
            (orders, made.ok().flatten())
        })
        .collect();
    // A panic is counted, and the edge that it ends loses its callouts.
    let _counted = config.process.with(|worker| {
        for (orders, id) in made {
            match id {
                Some(id) => worker.host.on_sent((config.root, id), Sent::of(orders)),
                None => orders.iter().for_each(|order| worker.on_refused(order)),
            }
        }
    });
}

/// The hook has panicked: its work is scheduled again.
pub(crate) fn schedule_again(config: &Config) {
    let _counted = config
        .process
        .with(|worker| worker.host.is_main_thread_woken = false);
}

/// The longest permitted body of the answer to a callout, in bytes; 0 if the callout is unknown.
pub(crate) fn body_limit(config: &Config, id: u64) -> usize {
    let call = (config.root, id);
    let limit = config.process.with(|worker| worker.body_limit(call));
    limit.ok().flatten().unwrap_or_default()
}

/// A callout has ended.
pub(crate) fn callout_done(config: &Config, id: u64, mut end: CalloutEnd<'_>) {
    let sent = config
        .process
        .with(|worker| worker.host.on_callout_end((config.root, id)));
    match sent {
        Ok(Some(Some(Sent::One(token)))) => {
            let _counted = config
                .process
                .with(|worker| worker.on_callout_end(token, &end));
        }
        Ok(Some(Some(Sent::Batch(orders)))) => end_batch(config, orders, &end),
        Ok(_) | Err(Panicked) => {}
    }
    if end.content_type == VisitorKeys::MEDIA_TYPE.as_bytes() {
        end.body.zeroize();
    }
}
