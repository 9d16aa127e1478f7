//! The control plane's side of Redis, on private Redis servers.

mod cluster;
mod feed;
mod fixture;
mod limits;
mod links;
mod live;
mod outage;
mod pauses;
mod publisher;
mod resolve;
mod tail;
mod tries;
