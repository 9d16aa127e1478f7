//! Polls that are answered from a stream.

use super::peer::{Behaviour, Peer};
use super::*;
use edgelink_wire::{FeedBatch, FeedPoint, FeedPosition};

/// A poll of generation 1 after this position.
fn poll(after: u64) -> CalloutRequest {
    let path = format!("/edge/v1/feed?after={after}-0&generation=1&waitMs=100");
    request(&path, Retry::Unseen)
}

/// The position at which the answer ends; `None` if it is none.
fn end_of(answer: &CalloutAnswer) -> Option<u64> {
    let response = answer.response();
    if response.status != b"200" {
        return None;
    }
    assert_eq!(response.content_type, FeedBatch::MEDIA_TYPE.as_bytes());
    Some(FeedBatch::decode(response.body).unwrap().head.next.millis)
}

fn places(ends: &[u64]) -> Vec<FeedPoint> {
    ends.iter()
        .map(|end| (1, FeedPosition::new(*end, 0)))
        .collect()
}

#[tokio::test]
async fn poll_when_it_goes_on_is_answered_from_the_stream() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    assert_eq!(end_of(&client.call(poll(0)).await), Some(1));
    // The feed may go on before the poll, and after it.
    peer.push();
    assert_eq!(end_of(&client.call(poll(1)).await), Some(2));
    let waits = tokio::spawn({
        let client = client.clone();
        async move { end_of(&client.call(poll(2)).await) }
    });
    peer.until_acknowledged(2).await;
    peer.push();
    assert_eq!(waits.await.unwrap(), Some(3));
    assert_eq!(peer.acknowledged(), places(&[1, 2]));
    let seen = peer.seen();
    assert_eq!(seen.len(), 1, "one stream");
    let uri = &seen[0].0.uri;
    assert_eq!(
        uri.path_and_query().unwrap(),
        "/edge/v1/feed/stream?after=0-0&generation=1&waitMs=100"
    );
    assert_eq!(seen[0].0.method, "POST");
}

#[tokio::test]
async fn poll_when_it_goes_on_elsewhere_begins_another_stream() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    for after in [0, 0, 7] {
        assert_eq!(end_of(&client.call(poll(after)).await), Some(1));
    }
    assert_eq!(peer.count(), 3);
    assert_eq!(peer.acknowledged(), []);
}

#[tokio::test]
async fn poll_when_of_another_edge_begins_another_stream() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    assert_eq!(end_of(&client.call(poll(0)).await), Some(1));
    peer.push();
    let mut of_another = poll(1);
    let name = HeaderValue::from_static("another");
    of_another.headers.insert("x-edgelink-poller", name);
    assert_eq!(end_of(&client.call(of_another).await), Some(2));
    assert_eq!((peer.count(), peer.acknowledged()), (2, places(&[])));
}

#[tokio::test]
async fn poll_when_another_has_the_stream_is_a_poll() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    assert_eq!(end_of(&client.call(poll(0)).await), Some(1));
    let waits = tokio::spawn({
        let client = client.clone();
        async move { end_of(&client.call(poll(1)).await) }
    });
    peer.until_acknowledged(1).await;
    assert_eq!(
        client.call(poll(1)).await.response().content_type,
        b"text/peer"
    );
    peer.push();
    assert_eq!(waits.await.unwrap(), Some(2));
}

#[tokio::test]
async fn stream_when_its_server_dies_continues_at_another() {
    let peers = [
        Peer::start(Behaviour::Feed).await,
        Peer::start(Behaviour::Feed).await,
    ];
    let [one, other] = &peers;
    let (client, _lines) = client(&[one, other], "");
    assert_eq!(end_of(&client.call(poll(0)).await), Some(1));
    let (first, second) = if one.count() == 1 {
        (one, other)
    } else {
        (other, one)
    };
    let waits = tokio::spawn({
        let client = client.clone();
        async move { end_of(&client.call(poll(1)).await) }
    });
    first.until_acknowledged(1).await;
    first.kill();
    assert_eq!(waits.await.unwrap(), None);
    while second.count() == 0 {
        client.call(poll(1)).await;
    }
    assert_eq!(
        second.seen()[0].0.uri.path(),
        edgelink_wire::feed_stream::PATH
    );
}

#[tokio::test]
async fn stream_when_a_server_has_none_is_replaced_by_polls() {
    for behaviour in [
        Behaviour::Answer(404, ""),
        Behaviour::Answer(405, ""),
        Behaviour::OK,
    ] {
        let peer = Peer::start(behaviour).await;
        let (client, _lines) = client(&[&peer], "");
        for _ in 0..2 {
            client.call(poll(0)).await;
        }
        let seen = peer.seen();
        let methods: Vec<_> = seen.iter().map(|(head, _)| head.method.as_str()).collect();
        assert_eq!(methods, ["POST", "GET", "GET"]);
    }
}

#[tokio::test]
async fn stream_when_nothing_comes_ends_as_a_timeout() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    assert_eq!(end_of(&client.call(poll(0)).await), Some(1));
    let mut late = poll(1);
    late.timeout = Duration::from_millis(200);
    assert_eq!(status(&client.call(late).await), "504");
    while end_of(&client.call(poll(1)).await) != Some(1) {}
    assert_eq!(peer.count(), 2, "another stream");
}

#[tokio::test]
async fn frame_when_longer_than_allowed_ends_the_stream() {
    let peer = Peer::start(Behaviour::Feed).await;
    let (client, _lines) = client(&[&peer], "");
    let mut short = poll(0);
    short.max_body = 3;
    assert_eq!(status(&client.call(short).await), "");
    while end_of(&client.call(poll(0)).await) != Some(1) {}
    assert_eq!(peer.count(), 2, "another stream");
}
