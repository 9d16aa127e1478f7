//! Places for questions about clicks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long a question waits for others to be answered.
const PATIENCE: Duration = Duration::from_secs(1);

/// Places for questions: so many in all, of which a tenant leaves one to others, and a key half of them.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_tenant: Part,
    of_key: Part,
}

/// The places of each of those who have a part of all.
struct Part {
    most: usize,
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Places {
    /// So many places.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            of_tenant: Part::new(most.saturating_sub(1).max(1)),
            of_key: Part::new(most.div_ceil(2)),
        }
    }

    /// A place for a key of a tenant, as soon as there is one; `None` if there is none in time.
    pub(crate) async fn take(
        &self,
        tenant_id: u32,
        key_id: &str,
    ) -> Option<[OwnedSemaphorePermit; 3]> {
        let take = async {
            // That of all comes last, and is not held while another one is waited for.
            Some([
                self.of_key.take(key_id).await?,
                self.of_tenant.take(&tenant_id.to_string()).await?,
                self.all.clone().acquire_owned().await.ok()?,
            ])
        };
        timeout(PATIENCE, take).await.ok().flatten()
    }
}

impl Part {
    fn new(most: usize) -> Self {
        Self {
            most,
            places: Mutex::default(),
        }
    }

    async fn take(&self, name: &str) -> Option<OwnedSemaphorePermit> {
        let places = self.of(name);
        places.acquire_owned().await.ok()
    }

    fn of(&self, name: &str) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Of the others all places are free.
        places.retain(|_, places| Arc::strong_count(places) > 1);
        let places = places.entry(name.to_owned());
        places
            .or_insert_with(|| Arc::new(Semaphore::new(self.most)))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_has_half_of_the_places_and_a_tenant_leaves_one() {
        let places = Places::new(4);
        let one = [places.take(1, "a").await, places.take(1, "a").await];
        assert!(one.iter().all(Option::is_some));
        assert!(places.take(1, "a").await.is_none(), "half of them");
        let third = places.take(1, "b").await;
        assert!(third.is_some());
        assert!(places.take(1, "c").await.is_none(), "one is left");
        let other = places.take(2, "d").await;
        assert!(other.is_some());
        assert!(places.take(2, "d").await.is_none(), "all are taken");
        drop(third);
        assert!(places.take(1, "c").await.is_some());
        drop((one, other));
        assert!(places.take(1, "a").await.is_some());
        assert!(places.of_key.places.lock().unwrap().len() <= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_place_is_for_all() {
        let places = Places::new(1);
        let taken = places.take(1, "a").await;
        assert!(taken.is_some());
        assert!(places.take(2, "b").await.is_none());
        let (freed, waited) = tokio::join!(async { drop(taken) }, places.take(2, "b"));
        assert_eq!((freed, waited.is_some()), ((), true));
    }
}
