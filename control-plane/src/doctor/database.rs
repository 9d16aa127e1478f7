//! The database: availability, version, schema, settings and clock.

use super::report::{Report, Verdict};
use edgelink_database::nodes::{Known, ServerStatus, Standing, are_apart};
use edgelink_settings::config::StoreConfig;
use edgelink_store::{DatabaseServer, Store};
use std::sync::Arc;

/// Clock differences, in milliseconds, that are a warning and an error: validity of links, days of visitors and leases depend on
/// clocks.
const CLOCK_WARNING: u64 = 1_000;
const CLOCK_ERROR: u64 = 30_000;

/// Oldest supported versions: major and minor number.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Twice the largest statement: with less, inserts are split further.
const PACKET: u64 = 8 << 20;

/// Opens the store without touching its schema; `None` if it cannot be used.
pub(super) async fn connect(config: &StoreConfig, report: &mut Report) -> Option<Arc<Store>> {
    if let Err(error) = edgelink_database::require_file(config) {
        report.error(
            "database.answers",
            error,
            "Correct store.url: this command needs the settings of the control planes.",
        );
        return None;
    }
    check_servers(config, report).await;
    match edgelink_store::connect(config).await {
        Ok(store) => {
            report.ok("database.answers", edgelink_database::name(config));
            Some(store)
        }
        Err(error) => {
            report.error("database.answers", error, "See that it runs, and that store.url has its address, user, password and database.");
            None
        }
    }
}

/// Reports on each server if there are several.
async fn check_servers(config: &StoreConfig, report: &mut Report) {
    const NAME: &str = "database.server";
    // The connection reports a wrong URL.
    let servers = edgelink_database::servers(config).await.unwrap_or_default();
    if servers.len() < 2 {
        return;
    }
    let (names, known): (Vec<String>, Vec<Known>) = servers.into_iter().unzip();
    let has_primary = known.iter().flatten().any(ServerStatus::takes_writes);
    for (name, known) in names.iter().zip(&known) {
        let (verdict, found, advice) = match known {
            Ok(answer) => {
                let verdict = server_verdict(answer, has_primary);
                let advice = "See its log, and read_only: a Galera node that takes no writes is cut off from its cluster, joins it, or is read_only.";
                (verdict, format!("{name} {answer}"), advice)
            }
            Err(silence) => {
                let advice =
                    "See that it runs, and that it lets this machine, user and password in.";
                let verdict = if has_primary {
                    Verdict::Warning
                } else {
                    Verdict::Error
                };
                (verdict, format!("{name} {silence}"), advice)
            }
        };
        report.judge(NAME, verdict, found, advice);
    }
    if are_apart(&known) {
        let found = format!(
            "several of {} take writes, and are no nodes of one Galera cluster",
            names.join(", ")
        );
        let advice = "Set read_only = ON on all but the primary: what is written to one of them the others may not have.";
        report.error("database.servers", found, advice);
    }
}

/// A replica must refuse writes; a node of a cluster must accept them.
fn server_verdict(answer: &ServerStatus, has_primary: bool) -> Verdict {
    match answer.standing {
        Standing::Ready => Verdict::Ok,
        Standing::Donor => Verdict::Warning,
        Standing::Refuses if !has_primary => Verdict::Error,
        Standing::Refuses if answer.cluster.is_some() => Verdict::Warning,
        Standing::Refuses => Verdict::Ok,
    }
}

/// Examines the database. True if it can be used.
pub(super) async fn examine(store: &Store, config: &StoreConfig, report: &mut Report) -> bool {
    match store.server().await {
        Ok(server) => {
            check_version(&server, report);
            check_clock("database.clock", server.ahead_millis, report);
            if !server.is_sqlite {
                check_durability(&server, report);
                check_binary_log(&server, report);
                check_limits(&server, config, report);
                check_session(&server, report);
            }
        }
        Err(error) => report.error(
            "database.settings",
            error,
            "See that store.url names a user who may read them.",
        ),
    }
    check_schema(store, report).await
}

/// Judges a clock by the milliseconds that it is ahead of ours.
pub(super) fn check_clock(name: &'static str, ahead_millis: i64, report: &mut Report) {
    let apart = ahead_millis.unsigned_abs();
    let verdict = Verdict::of(apart, CLOCK_WARNING, CLOCK_ERROR);
    let side = if ahead_millis < 0 {
        "behind"
    } else {
        "ahead of"
    };
    let found = format!("{apart} ms {side} the clock of this machine");
    let advice = "Set the clocks of all machines by NTP (chrony, systemd-timesyncd).";
    report.judge(name, verdict, found, advice);
}

fn check_version(server: &DatabaseServer, report: &mut Report) {
    let (name, oldest) = match (server.is_sqlite, server.version.contains("MariaDB")) {
        (true, _) => return report.ok("database.version", format!("SQLite {}", server.version)),
        (false, true) => ("MariaDB", OLDEST_MARIADB),
        (false, false) => ("MySQL", OLDEST_MYSQL),
    };
    let is_new = major_and_minor(&server.version).is_some_and(|version| version >= oldest);
    report.judge(
        "database.version",
        Verdict::error_unless(is_new),
        format!("{name} {}", server.version),
        "Upgrade to MariaDB 10.6, MySQL 8.0, or later.",
    );
}

/// Parses major and minor number: 10 and 11 of `10.11.19-MariaDB`.
pub(super) fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn check_durability(server: &DatabaseServer, report: &mut Report) {
    let flush = server.variable("innodb_flush_log_at_trx_commit");
    report.judge(
        "database.durability",
        Verdict::error_unless(flush == "1"),
        format!("innodb_flush_log_at_trx_commit = {flush}"),
        "Set innodb_flush_log_at_trx_commit = 1: otherwise links that were acknowledged are lost in a crash.",
    );
    let doublewrite = server.variable("innodb_doublewrite");
    report.judge(
        "database.doublewrite",
        Verdict::warning_unless(doublewrite != "OFF"),
        format!("innodb_doublewrite = {doublewrite}"),
        "Set innodb_doublewrite = ON, unless the file system never tears a page.",
    );
}

fn check_binary_log(server: &DatabaseServer, report: &mut Report) {
    const NAME: &str = "database.binary_log";
    if server.variable("log_bin") != "ON" {
        return report.ok(NAME, "log_bin = OFF: restores go back to the last backup");
    }
    let (format, sync) = (
        server.variable("binlog_format"),
        server.variable("sync_binlog"),
    );
    let found = format!("log_bin = ON, binlog_format = {format}, sync_binlog = {sync}");
    if format == "STATEMENT" {
        let advice = "Set binlog_format = ROW (or MIXED): InnoDB refuses changes otherwise.";
        return report.error(NAME, found, advice);
    }
    report.judge(
        NAME,
        Verdict::warning_unless(sync == "1"),
        found,
        "Set sync_binlog = 1: after a crash replicas and restores lack what was acknowledged last.",
    );
}

fn check_limits(server: &DatabaseServer, config: &StoreConfig, report: &mut Report) {
    let number = |name| server.variable(name).parse::<u64>().unwrap_or(0);
    let most = number("max_connections");
    let ours = u64::from(config.max_connections) + u64::from(config.control_connections);
    let verdict = match most {
        _ if most <= ours => Verdict::Error,
        _ if most <= 2 * ours => Verdict::Warning,
        _ => Verdict::Ok,
    };
    report.judge(
        "database.connections",
        verdict,
        format!("max_connections = {most}, of which each control plane takes up to {ours} (store.max_connections and store.control_connections)"),
        "Raise max_connections above that of all control planes together, or lower store.max_connections.",
    );
    let packet = number("max_allowed_packet");
    report.judge(
        "database.packet",
        Verdict::warning_unless(packet >= PACKET),
        format!("max_allowed_packet = {packet}"),
        "Set max_allowed_packet = 16M: below 8M many links and clicks are written in more, smaller statements.",
    );
    let read_only = server.variable("read_only");
    report.judge(
        "database.read_only",
        Verdict::error_unless(read_only == "OFF"),
        format!("read_only = {read_only}"),
        "Point store.url at the primary, or make this server the primary (read_only = OFF).",
    );
}

/// Checks the session settings, which a proxy in front of the server may reset.
fn check_session(server: &DatabaseServer, report: &mut Report) {
    let isolation = match server.variable("transaction_isolation") {
        "unknown" => server.variable("tx_isolation"),
        isolation => isolation,
    };
    let zone = server.variable("time_zone");
    let is_strict = server.variable("sql_mode").contains("STRICT_ALL_TABLES");
    let no = if is_strict { "" } else { "no " };
    report.judge(
        "database.session",
        Verdict::error_unless(isolation == "READ-COMMITTED" && zone == "+00:00" && is_strict),
        format!("isolation {isolation}, time zone {zone}, {no}strict mode"),
        "Have the proxy in front of the database keep what a connection has set (ProxySQL: transaction_persistent, and no multiplexing).",
    );
}

async fn check_schema(store: &Store, report: &mut Report) -> bool {
    const NAME: &str = "database.schema";
    let state = match store.schema().await {
        Ok(state) => state,
        Err(error) => {
            report.error(NAME, error, "Run 'edgelink migrate': the database has no schema yet, or its user may not read it.");
            return false;
        }
    };
    if !state.unfinished.is_empty() {
        let found = format!(
            "migrations {:?} began and have not come to their end",
            state.unfinished
        );
        report.error(
            NAME,
            found,
            "Wait if 'edgelink migrate' runs; otherwise run it, which makes them again.",
        );
        return false;
    }
    if !state.missing.is_empty() {
        let found = format!("migrations {:?} are missing", state.missing);
        report.error(NAME, found, "Run 'edgelink migrate' of this version.");
        return false;
    }
    if state.later.is_empty() {
        report.ok(NAME, "at this version");
    } else {
        let found = format!(
            "at a later version: migrations {:?} are not known here",
            state.later
        );
        report.warn(
            NAME,
            found,
            "Well while versions are rolled; otherwise upgrade this control plane.",
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_version_when_too_old_is_an_error() {
        assert_eq!(
            major_and_minor("10.11.19-MariaDB-0+deb12u1"),
            Some((10, 11))
        );
        assert_eq!(major_and_minor("8.0.36"), Some((8, 0)));
        assert_eq!(major_and_minor("9"), None);
        assert_eq!(major_and_minor("x"), None);
        for (version, verdict) in [
            ("10.5.9-MariaDB", Verdict::Error),
            ("10.6.0-MariaDB", Verdict::Ok),
            ("5.7.44-log", Verdict::Error),
            ("9.1.0", Verdict::Ok),
        ] {
            let mut report = Report::default();
            let version = version.to_owned();
            check_version(
                &DatabaseServer {
                    version,
                    ..DatabaseServer::default()
                },
                &mut report,
            );
            assert_eq!(report.verdict, verdict, "{report}");
        }
    }

    #[test]
    fn clock_when_a_second_or_more_off_is_reported() {
        for (ahead, verdict) in [
            (999, Verdict::Ok),
            (-1_000, Verdict::Warning),
            (29_999, Verdict::Warning),
            (-30_000, Verdict::Error),
            (i64::MIN, Verdict::Error),
        ] {
            let mut report = Report::default();
            check_clock("database.clock", ahead, &mut report);
            assert_eq!(report.verdict, verdict, "{ahead}");
        }
    }
}
