//! What depends on servers of others, on private ones: databases, Redis, ClickHouse, ZooKeeper.

mod clickhouse;
mod engines;
mod issuers;
mod redis;
mod store;
