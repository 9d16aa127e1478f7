//! `edgelink doctor`: examines configuration, database, Redis, feed, edges and analytics, and gives advice on each problem.
//!
//! It asks the servers directly, so it needs no running control plane, and changes nothing, not even the schema.

mod database;
mod redis;
mod report;
mod running;

pub use report::{Check, Report, Verdict};

use edgelink_settings::config::{Config, ConfigError, Environment};
use edgelink_store::Store;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit of each part, so that hanging servers are found, too.
const PART_LIMIT: Duration = Duration::from_secs(30);

/// Examines the deployment of this configuration.
pub async fn examine(config: Result<Config, ConfigError>, environment: &Environment) -> Report {
    let mut report = Report::default();
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            report.error(
                "configuration",
                error,
                "Correct these settings: see edgelink.example.toml.",
            );
            return report;
        }
    };
    check_configuration(&config, environment, &mut report);
    let Some(store) = database::connect(&config.store, &mut report).await else {
        redis::examine(&config, None, &mut report).await;
        return report;
    };
    let is_usable = examine_database(&config, &store, &mut report).await;
    let installation = if is_usable {
        store.installation().await.ok()
    } else {
        None
    };
    let redis = redis::examine(&config, installation.as_deref(), &mut report).await;
    if is_usable {
        examine_running(&config, &store, redis.as_deref(), &mut report).await;
    }
    if let Some(redis) = redis {
        redis.shutdown().await;
    }
    report
}

/// Examines the database. True if it can be used.
async fn examine_database(config: &Config, store: &Store, report: &mut Report) -> bool {
    let examined = timeout(PART_LIMIT, database::examine(store, &config.store, report)).await;
    examined.unwrap_or_else(|_| {
        let advice = "See what the database is busy with (SHOW PROCESSLIST).";
        report.error(
            "database.answers",
            format!("no answer within {PART_LIMIT:?}"),
            advice,
        );
        false
    })
}

async fn examine_running(
    config: &Config,
    store: &Arc<Store>,
    redis: Option<&edgelink_redis::Redis>,
    report: &mut Report,
) {
    let examined = timeout(PART_LIMIT, running::examine(config, store, redis, report)).await;
    let error = match examined {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {PART_LIMIT:?}"),
    };
    report.error(
        "running",
        error,
        "The database stopped answering meanwhile: ask again.",
    );
}

fn check_configuration(config: &Config, environment: &Environment, report: &mut Report) {
    report.ok("configuration", "valid");
    for name in Config::unknown_variables(environment) {
        report.warn(
            "configuration.variables",
            format!("{name} is no setting and is ignored"),
            "Correct its name, or remove it.",
        );
    }
    let tokens = config
        .auth
        .tokens_with(config.auth.edge_token_file.as_ref());
    if tokens.is_ok_and(|tokens| tokens.is_empty()) {
        report.warn(
            "configuration.edge_tokens",
            "there are none: the edge API refuses every edge",
            "Set auth.edge_token_file or auth.edge_tokens, the same on all control planes and edges.",
        );
    }
    if config.redis.url.is_none() && config.store.url.expose().starts_with("mysql:") {
        report.warn(
            "configuration.redis",
            "there is no redis.url: this control plane has to be the only one",
            "Set redis.url, the same on all control planes, before a second one is started.",
        );
    }
}
