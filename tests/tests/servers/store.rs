//! What every store has to do, written once and run on SQLite and on a server: the one at `EDGELINK_TEST_MYSQL_URL` (an
//! account that may create databases), or else a private MariaDB.

#[macro_use]
pub(crate) mod fixture;

mod accounts;
mod analytics;
mod audit;
mod changing;
mod click_accounts;
pub(crate) mod clicking;
mod clicks;
mod connecting;
mod conversions;
mod counters;
mod crash;
mod creating;
mod crowding;
mod domains;
mod edge_health;
mod idempotent;
mod issuer;
mod keys;
mod link_clicks;
mod listing;
mod plans;
mod publisher;
mod queues;
mod reports;
mod restored;
mod scopes;
mod searching;
mod segments;
mod sessions;
mod statements;
mod sweeping;
mod tags;
mod together;
mod updating;
mod visits;
mod webhooks;
