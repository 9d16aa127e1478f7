//! Connections that come back from a call and are lent to the next one.
//!
//! The driver's pool pings each connection that comes back to it, which costs every call a round trip. Here, a connection that is lent
//! again within [`MAX_IDLE`] is not pinged: it worked just now. One that stays longer goes back to the pool, and so do all of them
//! when a call fails in a way in which a lost server does.

use sqlx::MySql;
use sqlx::mysql::{MySqlConnection, MySqlPool};
use sqlx::pool::PoolConnection;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Idle time up to which a connection is lent again without a ping: the server may restart meanwhile.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(1);

/// Time from one visit to the pool to the next, where old connections are replaced.
const MAX_AWAY: Duration = Duration::from_mins(1);

/// Connections of one pool that came back a moment ago, the last one in the back.
#[derive(Debug, Default)]
pub(super) struct ReturnedConnections(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    connections: VecDeque<IdleConnection>,
    /// Number of calls that wait for the pool: a connection that comes back goes there, for one of them.
    waiting: usize,
    /// True while a task returns those that stay idle.
    is_watched: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<MySql>,
    from_pool: Instant,
    since: Instant,
}

/// A connection lent to a call.
#[derive(Debug)]
pub struct LentConnection {
    connection: PoolConnection<MySql>,
    from_pool: Instant,
    returned: Arc<ReturnedConnections>,
}

/// A call that waits for the pool.
struct AwaitedConnection<'r>(&'r ReturnedConnections);

impl ReturnedConnections {
    /// The connection that came back last, or one of the pool. `is_current` says whether a connection that was checked so long ago
    /// leads to the server in use.
    pub(super) async fn lend(
        self: &Arc<Self>,
        pool: &MySqlPool,
        is_current: impl Fn(Duration) -> bool,
    ) -> Result<LentConnection, sqlx::Error> {
        let lent = |connection, from_pool| LentConnection {
            connection,
            from_pool,
            returned: Arc::clone(self),
        };
        let _waiting = match self.take(is_current) {
            Ok(idle) => return Ok(lent(idle.connection, idle.from_pool)),
            Err(waiting) => waiting,
        };
        // Before: the servers may switch while it is lent.
        let from_pool = Instant::now();
        Ok(lent(pool.acquire().await?, from_pool))
    }

    fn take(
        &self,
        is_current: impl Fn(Duration) -> bool,
    ) -> Result<IdleConnection, AwaitedConnection<'_>> {
        let mut idle = self.lock();
        while let Some(last) = idle.connections.pop_back() {
            let away = last.from_pool.elapsed();
            if last.since.elapsed() < MAX_IDLE && away < MAX_AWAY && is_current(away) {
                return Ok(last);
            }
        }
        idle.waiting += 1;
        Err(AwaitedConnection(self))
    }

    fn put(self: &Arc<Self>, connection: PoolConnection<MySql>, from_pool: Instant) {
        let mut idle = self.lock();
        if idle.waiting > 0 {
            return;
        }
        idle.connections.push_back(IdleConnection {
            connection,
            from_pool,
            since: Instant::now(),
        });
        if !std::mem::replace(&mut idle.is_watched, true) {
            let returned = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    sleep(MAX_IDLE).await;
                    let Some(returned) = returned.upgrade() else {
                        return;
                    };
                    if !returned.return_idle() {
                        return;
                    }
                }
            });
        }
    }

    /// Returns those to the pool that stay idle. False if none is left.
    fn return_idle(&self) -> bool {
        let mut idle = self.lock();
        let is_old = |one: &IdleConnection| one.since.elapsed() >= MAX_IDLE;
        while idle.connections.front().is_some_and(is_old) {
            idle.connections.pop_front();
        }
        idle.is_watched = !idle.connections.is_empty();
        idle.is_watched
    }

    /// Returns all of them to the pool, which pings each.
    pub(super) fn clear(&self) {
        self.lock().connections.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReturnedConnections {
    /// Without the pool, to which they could not return outside of a runtime.
    fn drop(&mut self) {
        for idle in self.lock().connections.drain(..) {
            drop(idle.connection.detach());
        }
    }
}

impl Drop for AwaitedConnection<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl LentConnection {
    /// Ends a call after which the connection is known to be usable.
    pub(super) fn give_back(self) {
        self.returned.put(self.connection, self.from_pool);
    }

    /// Ends a call after which it is not.
    pub(super) fn close(mut self) {
        self.connection.close_on_drop();
    }
}

impl Deref for LentConnection {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.connection
    }
}

impl DerefMut for LentConnection {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.connection
    }
}
