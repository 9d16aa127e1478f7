//! The token buckets that all control planes share.

use super::Redis;
use super::error::RedisError;
use super::scripts::{GIVE_BACK, ScriptCall, TAKE};
use edgelink_model::token_bucket::{KeyedBucket, Taken};
use fred::types::Value;

impl Redis {
    /// Takes the cost of a request from each bucket, or nothing if one of them holds less. In a cluster all keys must be in one
    /// slot. If it fails, tokens may have been taken.
    pub async fn take(&self, buckets: &[KeyedBucket]) -> Result<Taken, RedisError> {
        let run = call(buckets);
        let client = self.for_lookups();
        let answer = self.guarded("take", TAKE.run(&client, &run)).await?;
        read(answer, buckets.len()).ok_or(RedisError::Malformed("the levels of buckets"))
    }

    /// Returns the cost of a request to each bucket.
    pub async fn give_back(&self, buckets: &[KeyedBucket]) -> Result<(), RedisError> {
        let run = call(buckets);
        let client = self.for_lookups();
        let given_back = self.guarded("give_back", GIVE_BACK.run(&client, &run));
        given_back.await.map(drop)
    }
}

/// The run of a script for these buckets.
fn call(buckets: &[KeyedBucket]) -> ScriptCall {
    let arguments = |bucket: &KeyedBucket| {
        let rate = bucket.rate;
        let numbers = [rate.capacity, rate.per_second, rate.cost];
        numbers.map(|number| Value::from(number.to_string()))
    };
    ScriptCall {
        keys: buckets.iter().map(|bucket| bucket.key.clone()).collect(),
        arguments: buckets.iter().flat_map(arguments).collect(),
    }
}

fn read(answer: Value, count: usize) -> Option<Taken> {
    let mut numbers = answer.convert::<Vec<u64>>().ok()?.into_iter();
    let refused_by = usize::try_from(numbers.next()?).ok()?.checked_sub(1);
    let levels: Vec<u64> = numbers.collect();
    let is_whole = levels.len() == count && refused_by.is_none_or(|index| index < count);
    is_whole.then_some(Taken { refused_by, levels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_when_of_another_form_is_refused() {
        let read = |numbers: &[i64]| {
            let numbers = numbers.iter().copied().map(Value::from);
            super::read(Value::Array(numbers.collect()), 2)
        };
        let taken = |refused_by| Taken {
            refused_by,
            levels: vec![5, 7],
        };
        assert_eq!(read(&[0, 5, 7]), Some(taken(None)));
        assert_eq!(read(&[2, 5, 7]), Some(taken(Some(1))));
        for numbers in [
            &[][..],
            &[0],
            &[0, 5],
            &[0, 5, 7, 9],
            &[3, 5, 7],
            &[0, -5, 7],
        ] {
            assert_eq!(read(numbers), None, "{numbers:?}");
        }
    }
}
