//! A request of Envoy, as a process with an edge sees it.

use crate::abi::{EnvoyHeader, Filter, RequestHeaders, Scheduler};
use edgelink_filter_core::host::{Clients, address_of};
use edgelink_filter_core::request::{Head, Headers};
use edgelink_filter_core::settings::Described;
use edgelink_process::Request;
use edgelink_process::reply::{LocalReply, MAX_HEADERS};
use std::net::IpAddr;

impl Request for Filter<'_> {
    type Headers<'h> = RequestHeaders<'h>;
    type Waker = Scheduler;

    #[inline(always)]
    fn with_head<R>(&self, act: impl FnOnce(&Head<'_, RequestHeaders<'_>>) -> R) -> R {
        self.with_headers(|headers| {
            act(&Head {
                method: headers.get(":method"),
                path: headers.get(":path"),
                authority: headers.get(":authority"),
                headers,
            })
        })
    }

    fn waker(&self) -> Scheduler {
        self.scheduler()
    }

    #[inline(always)]
    fn answer(&self, reply: &LocalReply) {
        let mut headers = [EnvoyHeader::EMPTY; MAX_HEADERS];
        let mut count = 0;
        for (place, (name, value)) in headers.iter_mut().zip(reply.headers()) {
            *place = EnvoyHeader::new(name.as_bytes(), value);
            count += 1;
        }
        let headers = headers.get(..count).unwrap_or_default();
        let page = reply.page().as_bytes();
        self.send_response(reply.status(), headers, page, reply.details());
    }

    fn go_on(&self) {
        self.continue_decoding();
    }

    fn body_length(&self) -> usize {
        Filter::body_length(*self)
    }

    fn body(&self, limit: usize) -> Vec<u8> {
        Filter::body(*self, limit)
    }
}

impl Clients for Filter<'_> {
    fn client_address(&self) -> Option<IpAddr> {
        address_of(Filter::client_address(*self))
    }

    fn cookies(&self) -> Vec<u8> {
        self.header("cookie").to_vec()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.header("user-agent").to_vec()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        self.set_metadata(what.word(), value);
    }
}
