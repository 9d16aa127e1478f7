//! The bridge between gRPC streams and byte streams, as it is built.

use crate::support::{Numbers, start};
use edgelink_tests::abi::host::{End, Fleet, HeaderMap, Module, Outcome, StreamId, Worker};

fn fleet() -> Fleet {
    start(Fleet::of(&Module::bridge()))
}

fn open(worker: &mut Worker) -> StreamId {
    let request = worker.request("POST", "/redis/direct");
    request.header("content-type", "application/grpc").open()
}

/// A gRPC message.
fn framed(message: &[u8]) -> Vec<u8> {
    let size = (message.len() as u32).to_be_bytes();
    [&[0], &size[..], message].concat()
}

#[test]
fn request_when_cut_anywhere_is_unframed() {
    let messages: Vec<u8> = [&b"PING\r\n"[..], b"", b"GET a\r\n"].map(framed).concat();
    let mut numbers = Numbers(11);
    for _ in 0..50 {
        let mut fleet = fleet();
        let worker = fleet.worker(0);
        let stream = open(worker);
        let mut rest = &messages[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + numbers.below(rest.len()));
            worker.send_body(stream, piece, End::More);
            rest = behind;
        }
        assert_eq!(
            worker.passed_body(stream),
            (b"PING\r\nGET a\r\n".to_vec(), End::More)
        );
        fleet.assert_unharmed();
    }
}

#[test]
fn response_when_it_comes_in_chunks_is_framed_by_chunk() {
    let mut fleet = fleet();
    let worker = fleet.worker(0);
    let stream = open(worker);
    worker.respond_headers(stream, HeaderMap::new(&[(":status", "200")]), End::More);
    for chunk in [&b"+PO"[..], b"NG\r\n"] {
        worker.respond_body(stream, chunk, End::More);
    }
    let expected = [framed(b"+PO"), framed(b"NG\r\n")].concat();
    assert_eq!(worker.received_body(stream), expected);
    worker.respond_body(stream, b"", End::Last);
    let Outcome::Responded(response) = worker.outcome(stream) else {
        panic!("the response has not passed");
    };
    assert_eq!(response.get("content-type"), Some("application/grpc"));
    fleet.assert_unharmed();
}

#[test]
fn bytes_when_no_grpc_are_survived() {
    let mut numbers = Numbers(13);
    let mut fleet = fleet();
    for _ in 0..500 {
        let worker = fleet.worker(0);
        let stream = open(worker);
        for _ in 0..5 {
            let bytes = numbers.bytes(40);
            worker.send_body(stream, &bytes, End::More);
        }
        worker.close_stream(stream);
    }
    fleet.assert_unharmed();
}
