//! A client that creates tenants, and one that records the ids assigned by the database: an id is assigned once, whatever
//! the database has lost since.

use super::link::request;
use super::{Client, ClientContext};
use crate::nemesis::history::{Via, What};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_secs(5);
const WATCH: Duration = Duration::from_millis(300);

/// All rows of each kind. A row recreated under its name is a different one.
const ROWS: &str = "SELECT 'tenant', id, CONCAT(name, ' ', created_at) FROM nemesis.tenants \
     UNION ALL SELECT 'user', id, CONCAT(name, ' ', created_at) FROM nemesis.users \
     UNION ALL SELECT 'domain', id, name FROM nemesis.domains \
     UNION ALL SELECT 'webhook', id, url FROM nemesis.webhooks";

/// Creates a tenant now and then.
pub(super) async fn make(shared: Arc<ClientContext>) {
    let mut client = Client::new(Via::ControlPlane(0));
    while !shared.is_over() {
        let name = format!("tenant-{}", shared.history.number());
        let body = json!({ "name": name }).to_string();
        let request = request(&shared, "POST", "/tenants");
        // Its row shows whether it was created.
        let _ = client.ask(&shared, &request, body.as_bytes()).await;
        pause(&shared, PAUSE).await;
    }
}

/// Records each new tenant, user, domain and webhook.
pub(super) async fn watch(shared: Arc<ClientContext>) {
    let mut seen = HashSet::new();
    while !shared.is_over() {
        let rows = shared.deployment.sql(ROWS).await.unwrap_or_default();
        for row in rows.lines().filter(|row| seen.insert((*row).to_owned())) {
            let mut fields = row.splitn(3, '\t');
            if let (Some(kind), Some(Ok(id)), Some(name)) =
                (fields.next(), fields.next().map(str::parse), fields.next())
            {
                shared.history.add(What::Identified {
                    kind: kind.to_owned(),
                    id,
                    name: name.to_owned(),
                });
            }
        }
        sleep(WATCH).await;
    }
}

/// Sleeps, but not beyond the end of the run.
async fn pause(shared: &ClientContext, time: Duration) {
    let start = tokio::time::Instant::now();
    while start.elapsed() < time && !shared.is_over() {
        sleep(WATCH).await;
    }
}
