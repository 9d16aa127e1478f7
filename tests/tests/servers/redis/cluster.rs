//! Appends, lookups and locks on a Redis Cluster.

use crate::redis::fixture::{
    GENERATION, KEY, LIMIT, append, connected, link, lock, looked_up, try_append,
};
use edgelink_redis::RedisLookup;
use edgelink_tests::servers::RedisCluster;
use edgelink_tests::stack::until;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;

#[tokio::test]
async fn cluster_when_a_master_is_killed_still_works() {
    let mut cluster = RedisCluster::start().await;
    let redis = connected(&cluster.url()).await;
    let record = link("https://example.com/", 1);
    let held = lock(&redis).await;
    redis
        .fill(&record, &RedisLookup::Unknown, held)
        .await
        .unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(record));
    let keys: Vec<String> = (0..50)
        .map(|number| format!("a.example/{number}"))
        .collect();
    let newer = link("https://new.example/", 2);
    let mut changes: Vec<_> = keys
        .iter()
        .map(|key| (key.as_str(), newer.as_deref()))
        .collect();
    changes.push((KEY, newer.as_deref()));
    redis.publish(GENERATION, &changes).await.unwrap();
    assert_eq!(looked_up(&redis).await, RedisLookup::Known(newer.clone()));
    append(&redis, &[FeedMessage::Flush]).await;
    let nodes = redis.nodes().await.unwrap();
    assert_eq!(redis.nodes().await.unwrap(), nodes);
    let entries = redis.read_feed(FeedPosition::START, 10).await.unwrap();
    assert_eq!(entries.len(), 1);

    cluster.kill_master_of("feed");
    until("the feed is continued", LIMIT, async || {
        try_append(&redis, &[FeedMessage::Flush]).await
    })
    .await;
    until("the nodes are other ones", LIMIT, async || {
        let now = redis.nodes().await.ok()?;
        (now != nodes).then_some(())
    })
    .await;
    until("the feed is read", LIMIT, async || {
        let entries = redis.read_feed(FeedPosition::START, 10).await.ok()?;
        (!entries.is_empty()).then_some(())
    })
    .await;
    until("changes are published", LIMIT, async || {
        redis.publish(GENERATION, &changes).await.ok()
    })
    .await;
    until("links are looked up", LIMIT, async || {
        redis.look_up(GENERATION, KEY).await.ok()
    })
    .await;
}

#[tokio::test]
async fn nodes_when_a_master_of_other_slots_is_replaced_change() {
    let mut cluster = RedisCluster::start().await;
    let redis = connected(&cluster.url()).await;
    let before = until("the nodes", LIMIT, async || redis.nodes().await.ok()).await;
    let slot = |key: &str| {
        cluster
            .ask(&["CLUSTER", "KEYSLOT", key])
            .trim()
            .parse::<u32>()
    };
    // Masters have a third of the slots each.
    let third = |key: &str| slot(key).expect("a slot") / 5462;
    let feed = third("feed");
    let other = ["a", "b", "c", "d", "e", "f", "g"];
    let other = other.into_iter().find(|key| third(key) != feed);
    cluster.kill_master_of(other.expect("a key of another master"));
    // Redis does not count as current while one of them does not answer.
    until("a failure", LIMIT, async || redis.nodes().await.err()).await;
    until("other nodes", LIMIT, async || {
        let now = redis.nodes().await.ok()?;
        (now != before).then_some(())
    })
    .await;
}

/// It answers all that it is asked, but is not the one that publishers have to write to.
#[tokio::test]
async fn nodes_when_a_master_becomes_a_replica_change() {
    let cluster = RedisCluster::start().await;
    let redis = connected(&cluster.url()).await;
    let before = until("the nodes", LIMIT, async || redis.nodes().await.ok()).await;
    cluster.demote_master_of("feed").await;
    until("other nodes", LIMIT, async || {
        let now = redis.nodes().await.ok()?;
        (now != before).then_some(())
    })
    .await;
}
