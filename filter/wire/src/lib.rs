//! What the edge filter and the control plane must agree on.
//!
//! Codes and how they are minted ([`base62`], [`permutation`], [`code`]), the hosts they live on ([`domain`]), what a
//! link is once it has left the database ([`record`]), and a domain ([`domain_record`]), how it is named in caches ([`key`]), in paths ([`link_paths`]) and in Redis ([`redis`]), how many are looked up at once ([`link_batch`]), what
//! a visitor of it gets ([`redirect`], [`rules`], [`query`], [`path`], [`password`]) or would get ([`dry_run`]), how a change travels ([`feed`], [`feed_batch`]), what an edge starts from
//! ([`snapshot`], [`code_filter`]), how it reports clicks ([`clicks`]) and how it is doing ([`health`]), and how it gets visits of links that have a limit
//! ([`visits`]). The crate does no input and output and runs on wasm32.
//!
//! Four things are here because both have them: pauses between retries ([`backoff`]), circuit breakers ([`breaker`]), how
//! [`settings`] are declared, and which trace a request is part of ([`traceparent`]).
//! All else is a format: a change that alters one byte of it is a new version, never an edit of the old one.
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
pub mod domain_record;
pub mod domain_set;
pub mod dry_run;
mod error;
pub mod feed;
pub mod feed_batch;
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
pub use feed::FeedPosition;
pub use feed_batch::{BatchHead, FeedBatch};
pub use health::WorkerHealth;
pub use key::LinkKey;
pub use link_paths::{LinkPaths, LinkPrefix};
pub use permutation::{Permutation, PermutationKey};
pub use record::{DomainTargets, Entry, LinkAnswer, LinkRecord, LinkState, Record, RedirectStatus};
pub use redirect::Outcome;
pub use snapshot::Snapshot;
pub use traceparent::{TRACEPARENT, TraceParent};
pub use visits::{VisitsAnswer, VisitsRequest};
