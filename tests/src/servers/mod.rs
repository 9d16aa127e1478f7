//! Private servers for tests: each in a temporary folder, on free ports, gone when the test is.

mod keeper;
mod mariadb;
mod redis;
mod zookeeper;

pub(crate) use keeper::Keeper;
pub use mariadb::MariaDb;
pub use redis::{RedisCluster, RedisServer};
pub use zookeeper::ZooKeeper;
