//! Listeners that are changed, taken back, refused and removed while Envoy runs. Each change starts or ends a plugin
//! configuration in the same VM, and none may take the worker with it.

use edgelink_tests::scenario::{Answer, Reply, Request, link};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Behaviour, Connection, Envoy, EnvoyOptions, Filter, Listener, RedisOptions,
    ScriptedControlPlane, Stats, free_port, until,
};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// An Envoy whose listener is in a file, and the control plane behind it.
struct Edge {
    envoy: Envoy,
    control_plane: ScriptedControlPlane,
    checks: Cell<u32>,
}

impl Edge {
    async fn start() -> Self {
        Self::start_with(EnvoyOptions::default()).await
    }

    async fn start_with(options: EnvoyOptions) -> Self {
        let control_plane = ScriptedControlPlane::start().await;
        let options = EnvoyOptions {
            listener_file: true,
            drain_seconds: 2,
            ..options
        };
        let envoy = Envoy::start(&options, &[control_plane.address()]).await;
        let edge = Self {
            envoy,
            control_plane,
            checks: Cell::new(0),
        };
        edge.script("abc", "https://old.example/");
        edge.assert_alive(edge.envoy.listener()).await;
        edge
    }

    /// The listener with a configuration of its own.
    fn changed(&self) -> Listener {
        let listener = self.envoy.listener();
        listener.plugin("retryAfterSeconds", 7)
    }

    async fn put(&self, listeners: &[&Listener]) {
        let listeners: Vec<Listener> = listeners.iter().copied().cloned().collect();
        assert!(self.envoy.put_listeners(&listeners).await, "refused");
    }

    fn script(&self, code: &str, url: &str) {
        let reply = Reply::Link(link(url));
        self.control_plane.script(code, Behaviour::Reply(reply));
    }

    async fn follow(&self, listener: &Listener, code: &str) -> Answer {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.port()));
        let path = format!("/{code}");
        until(
            "the listener answers",
            Duration::from_secs(10),
            async || {
                let mut connection = Connection::open(address).await.ok()?;
                connection.exchange(&Request::get(&path), b"").await.ok()
            },
        )
        .await
    }

    /// A change is seen within the time that records are fresh for, a link that was never asked for is found, and
    /// counters still count.
    async fn assert_alive(&self, listener: &Listener) {
        let check = self.checks.get() + 1;
        self.checks.set(check);
        let redirects = async || {
            let stats = self.envoy.figures().await;
            stats.sum_matching(".redirect")
        };
        let before = redirects().await;
        self.follow(listener, "abc").await;
        let url = format!("https://new.example/{check}");
        self.script("abc", &url);
        until(
            "a change is seen",
            Duration::from_millis(5_500),
            async || {
                let answer = self.follow(listener, "abc").await;
                (answer.location() == Some(&url)).then_some(())
            },
        )
        .await;
        let cold = format!("cold{check}");
        self.script(&cold, "https://cold.example/");
        let answer = self.follow(listener, &cold).await;
        assert_eq!(
            answer.location(),
            Some("https://cold.example/"),
            "{answer:?}"
        );
        until("counters count", Duration::from_secs(2), async || {
            (redirects().await > before + 1).then_some(())
        })
        .await;
        assert_eq!(self.envoy.crashes().await, 0, "a trap");
    }

    /// The plugin configuration that a listener goes by.
    async fn retry_after(&self, listener: &Listener) -> String {
        let code = format!("failing{}", self.checks.get());
        let broken = Behaviour::Bytes(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_vec());
        self.control_plane.script(&code, broken);
        let answer = self.follow(listener, &code).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        let value = answer.header("retry-after").expect("retry-after");
        value.to_owned()
    }
}

#[tokio::test]
async fn update_when_the_old_listener_drains_keeps_the_edge_alive() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let changed = edge.changed();
    edge.put(&[&changed]).await;
    edge.assert_alive(&changed).await;
    edge.envoy.await_drained().await;
    edge.assert_alive(&changed).await;
    assert_eq!(edge.retry_after(&changed).await, "7");
}

#[tokio::test]
async fn update_when_rolled_back_during_a_drain_keeps_the_edge_alive() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let (original, changed) = (edge.envoy.listener().clone(), edge.changed());
    edge.put(&[&changed]).await;
    edge.put(&[&original]).await;
    assert_eq!(edge.retry_after(&original).await, "1");
    edge.assert_alive(&original).await;
    edge.envoy.await_drained().await;
    edge.assert_alive(&original).await;
    assert_eq!(edge.retry_after(&original).await, "1");
}

#[tokio::test]
async fn update_when_envoy_refuses_it_keeps_the_edge_alive() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let original = edge.envoy.listener().clone();
    let refused = edge.changed().refused();
    assert!(!edge.envoy.put_listeners(&[refused]).await, "taken");
    edge.assert_alive(&original).await;
    assert_eq!(edge.retry_after(&original).await, "1");
}

#[tokio::test]
async fn plugin_configuration_when_refused_keeps_the_edge_alive() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let original = edge.envoy.listener().clone();
    let refused = original.plugin("tickMs", 0);
    assert!(!edge.envoy.put_listeners(&[refused]).await, "taken");
    edge.assert_alive(&original).await;
}

#[tokio::test]
async fn listeners_when_two_run_go_by_their_own_configuration() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let original = edge.envoy.listener().clone();
    let other = edge.changed().beside("other", free_port());
    edge.put(&[&original, &other]).await;
    edge.assert_alive(&original).await;
    edge.assert_alive(&other).await;
    assert_eq!(edge.retry_after(&other).await, "7");
    edge.checks.set(edge.checks.get() + 1);
    assert_eq!(edge.retry_after(&original).await, "1");

    edge.put(&[&original]).await;
    edge.envoy.await_drained().await;
    edge.assert_alive(&original).await;

    edge.put(&[&original, &other]).await;
    edge.put(&[&other]).await;
    edge.envoy.await_drained().await;
    edge.assert_alive(&other).await;
}

#[tokio::test]
async fn listeners_when_all_were_removed_come_back() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let edge = Edge::start().await;
    let original = edge.envoy.listener().clone();
    edge.put(&[]).await;
    edge.envoy.await_drained().await;
    edge.put(&[&original]).await;
    edge.assert_alive(&original).await;
}

/// Streams of the Wasm module belong to the configuration that was there first, and end with it; the native module's connection
/// belongs to none.
#[tokio::test]
async fn redis_when_the_first_configuration_has_ended_is_connected() {
    if Filter::lacks("listeners that change") {
        return;
    }
    let redis = RedisServer::start().await;
    let edge = Edge::start_with(EnvoyOptions {
        redis: Some(RedisOptions::direct(redis.port())),
        feed: "poll",
        ..EnvoyOptions::default()
    })
    .await;
    let await_connections = async |attempts: u64| {
        let is_so = |stats: &Stats| {
            let sum = |name| stats.sum_matching(name);
            sum("redis_connected.") == 1 && sum("redis_attempts.") == attempts
        };
        edge.envoy.await_figures(is_so).await;
    };
    await_connections(1).await;
    let changed = edge.changed();
    edge.put(&[&changed]).await;
    edge.assert_alive(&changed).await;
    edge.envoy.await_drained().await;
    let attempts = match edge.envoy.filter() {
        Filter::Wasm => 2,
        Filter::Native | Filter::Nginx => 1,
    };
    await_connections(attempts).await;
    edge.assert_alive(&changed).await;
    await_connections(attempts).await;
}
