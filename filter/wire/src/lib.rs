//! Formats and rules shared by the edge filter and the control plane.
//!
//! Codes and their minting ([`base62`], [`permutation`], [`code`]), their hosts ([`domain`]), the records of links ([`record`])
//! and domains ([`domain_record`]) outside of the database, their names in caches ([`key`]), in paths ([`link_paths`]) and in
//! Redis ([`redis`]), batched lookups ([`link_batch`]), the answer to a visitor ([`redirect`], [`rules`], [`query`], [`path`],
//! [`password`]) and its dry run ([`dry_run`]), changes in transit ([`feed`], [`feed_batch`], [`feed_stream`]), the initial state of an edge
//! ([`snapshot`], [`code_filter`]), its reports of clicks ([`clicks`]) and health ([`health`]), and leases of uses of limited links
//! ([`visits`]). The crate does no input and output and runs on wasm32.
//!
//! Four modules are here because both use them: [`backoff`], circuit breakers ([`breaker`]), declarations of [`settings`], and
//! trace propagation ([`traceparent`]).
//! The rest are formats: a change that alters one byte of a format is a new version, never an edit of the old one.
//! `tests/known_answers.rs` pins the bytes.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod backoff;
pub mod base62;
pub mod breaker;
pub mod click_id;
pub mod clicks;
pub mod code;
pub mod code_filter;
pub mod domain;
#[cfg(feature = "targets")]
pub mod domain_name;
pub mod domain_record;
pub mod domain_set;
pub mod dry_run;
mod error;
pub mod feed;
pub mod feed_batch;
pub mod feed_stream;
pub mod health;
pub mod key;
pub mod link_batch;
pub mod link_paths;
pub mod password;
pub mod path;
pub mod permutation;
pub mod query;
pub mod record;
pub mod redirect;
pub mod redis;
pub mod rules;
pub mod same;
pub mod settings;
pub mod snapshot;
pub mod target;
pub mod traceparent;
pub mod varint;
pub mod visits;

pub use base62::CodeLength;
pub use clicks::ClickBatch;
pub use code::{Code, CodeError, CodeSpace};
pub use code_filter::CodeFilter;
pub use domain::{Domain, DomainError};
pub use domain_set::DomainSet;
pub use error::RecordError;
pub use feed::{FeedPoint, FeedPosition};
pub use feed_batch::{FeedBatch, FeedBatchHead};
pub use health::WorkerHealth;
pub use key::LinkKey;
pub use link_paths::{LinkPaths, LinkPrefix};
pub use permutation::{Permutation, PermutationKey};
pub use record::{DomainTargets, Entry, LinkAnswer, LinkRecord, LinkState, Record, RedirectStatus};
pub use redirect::Outcome;
pub use snapshot::Snapshot;
pub use traceparent::{TRACEPARENT, TraceParent};
pub use visits::{VisitsAnswer, VisitsRequest};
