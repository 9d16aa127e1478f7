//! Callouts: taken from the edge, sent to a control plane, and their answers passed back.

use crate::control_plane::{CalloutAnswer, CalloutRequest, ControlPlanes};
use crate::orders::{self, Order};
use crate::process::Process;
use crate::proxy::Waker;
use crate::thread::warn_once;
use crate::worker::Worker;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::control_plane::{Decoded, Outgoing};
use edgelink_filter_core::settings::{ControlPlane, Settings};
use edgelink_wire::clicks::VisitorKeys;
use edgelink_wire::settings::InvalidField;
use edgelink_wire::{LinkAnswer, link_batch};
use std::sync::Arc;
use zeroize::Zeroize;

/// Sends what the edge orders, for as long as the program runs.
pub(crate) async fn keep_sending<W: Waker>(process: &'static Process<W>) {
    let mut clients = CurrentClient::default();
    loop {
        process.ordered().await;
        for (orders, limit) in process.take_orders() {
            let Some(first) = orders.first() else {
                continue;
            };
            let client = clients.of(&first.settings);
            let request = with_outgoing(&orders, |it| CalloutRequest::of(it, limit));
            tokio::spawn(async move {
                let answer = match (client, request.flatten()) {
                    (Some(client), Some(request)) => client.call(request).await,
                    _ => CalloutAnswer::default(),
                };
                finish(process, orders, answer);
            });
        }
    }
}

/// The client of the settings in effect.
#[derive(Default)]
struct CurrentClient(Option<(Arc<Settings>, ControlPlanes)>);

impl CurrentClient {
    /// The client for these settings: that of the previous ones if they name the same control planes. `None` if a file of theirs cannot
    /// be used any more.
    fn of(&mut self, settings: &Arc<Settings>) -> Option<ControlPlanes> {
        match &mut self.0 {
            Some((known, client)) if Arc::ptr_eq(known, settings) => Some(client.clone()),
            Some((known, client)) if known.control_plane == settings.control_plane => {
                *known = Arc::clone(settings);
                Some(client.clone())
            }
            _ => {
                let client = client(&settings.control_plane);
                let client = client.inspect_err(|wrong| {
                    let InvalidField { field, reason } = wrong;
                    warn_once(format!("{field}: {reason}; no control plane is asked"));
                });
                let client = client.ok()?;
                self.0 = Some((Arc::clone(settings), client.clone()));
                Some(client)
            }
        }
    }
}

fn client(settings: &ControlPlane) -> Result<ControlPlanes, InvalidField> {
    ControlPlanes::new(settings, Arc::new(|line: &str| log::warn!("{line}")))
}

/// Checks the files that the settings name.
///
/// # Errors
/// The field whose file cannot be used.
pub fn check(settings: &Settings) -> Result<(), InvalidField> {
    client(&settings.control_plane).map(drop)
}

/// Lends the request of one callout, or of a batch of lookups.
pub(crate) fn with_outgoing<R>(
    orders: &[Order],
    act: impl FnOnce(&Outgoing<'_>) -> R,
) -> Option<R> {
    match orders {
        [] => None,
        [order] => Some(act(&order.request())),
        [first, ..] => {
            let lines = orders::lines(orders);
            let outgoing = Outgoing::lookups(&first.settings, lines.as_bytes());
            Some(act(&outgoing))
        }
    }
}

/// Passes the end of a callout to the edge.
pub(crate) fn finish<W: Waker>(
    process: &'static Process<W>,
    orders: Vec<Order>,
    mut answer: CalloutAnswer,
) {
    match &*orders {
        [order] => {
            // Decoded outside of a turn, and applied in several, for which requests wait.
            let mut decoded = Decoded::of(answer.response());
            if let Decoded::Feed(batch) = &mut decoded {
                repeat(process, |worker| worker.on_feed_part(order.token, batch));
            }
            let end = |worker: &mut Worker<W>| {
                worker.on_callout_end(order.token, &answer, decoded);
            };
            let _counted = process.with(end);
            repeat(process, Worker::warm_up);
        }
        _ => end_batch(process, orders, answer.response()),
    }
    if answer.response().content_type == VisitorKeys::MEDIA_TYPE.as_bytes() {
        answer.body.zeroize();
    }
}

/// Takes turns as long as `act` returns `true`.
fn repeat<W: Waker>(process: &'static Process<W>, mut act: impl FnMut(&mut Worker<W>) -> bool) {
    while let Ok(Some(true)) = process.with(&mut act) {}
}

/// A callout for several lookups has ended. If the response is not a valid answer to it, all of them have failed.
fn end_batch<W: Waker>(process: &'static Process<W>, orders: Vec<Order>, end: Response<'_>) {
    let is_ours = end.content_type == link_batch::MEDIA_TYPE.as_bytes();
    let answers = match end.status {
        b"200" if is_ours => link_batch::read(end.body, orders.len()).ok(),
        _ => None,
    };
    // Each has a turn of its own: a panic over one answer does not lose the earlier ones.
    let respond = |order: &Order, response: Response<'_>| {
        let _counted = process.with(|worker| worker.on_response(order.token, response));
    };
    let Some(answers) = answers else {
        if is_refused(end.status) {
            let _counted = process.with(|worker| worker.ask_alone(orders));
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
            let _counted = process.with(|worker| worker.host.order(order));
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
