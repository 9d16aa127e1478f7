//! The same on a Redis Cluster.

use crate::fixture::{KEY, LIMIT, connected, link, lock};
use edgelink_control_plane::redis::Lookup;
use edgelink_tests::servers::RedisCluster;
use edgelink_tests::stack::until;
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::FeedMessage;

#[tokio::test]
async fn everything_works_on_a_cluster_also_after_a_master_is_killed() {
    let mut cluster = RedisCluster::start().await;
    let redis = connected(&cluster.url()).await;
    let record = link("https://example.com/", 1);
    let held = lock(&redis).await;
    redis
        .fill(KEY, &record, &Lookup::Unknown, held)
        .await
        .unwrap();
    assert_eq!(redis.look_up(KEY).await.unwrap(), Lookup::Known(record));
    let keys: Vec<String> = (0..50)
        .map(|number| format!("a.example/{number}"))
        .collect();
    let news = link("https://new.example/", 2);
    let mut changes: Vec<_> = keys
        .iter()
        .map(|key| (key.as_str(), news.as_deref()))
        .collect();
    changes.push((KEY, news.as_deref()));
    redis.publish(&changes).await.unwrap();
    assert_eq!(
        redis.look_up(KEY).await.unwrap(),
        Lookup::Known(news.clone())
    );
    redis.append(&[FeedMessage::Flush]).await.unwrap();
    let entries = redis.read_feed(FeedPosition::START, 10).await.unwrap();
    assert_eq!(entries.len(), 1);

    cluster.kill_master_of("feed");
    until("the feed goes on", LIMIT, async || {
        redis.append(&[FeedMessage::Flush]).await.ok()
    })
    .await;
    until("the feed is read", LIMIT, async || {
        let entries = redis.read_feed(FeedPosition::START, 10).await.ok()?;
        (!entries.is_empty()).then_some(())
    })
    .await;
    until("changes are published", LIMIT, async || {
        redis.publish(&changes).await.ok()
    })
    .await;
    until("links are looked up", LIMIT, async || {
        redis.look_up(KEY).await.ok()
    })
    .await;
}
