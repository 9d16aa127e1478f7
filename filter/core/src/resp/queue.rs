//! Requests that wait for a reply. RESP replies come in the order of their requests, so it is a queue; answers of a client of the host's
//! come by number.

use std::collections::VecDeque;

/// Unanswered requests, oldest first. A request that timed out keeps its place, as its reply may still come and must not be
/// taken for the reply to the next one.
#[derive(Debug)]
pub struct Queue<T> {
    requests: VecDeque<QueuedRequest<T>>,
    /// Number of the request at the front.
    first: u32,
    /// Number of requests at the front that timed out.
    expired: usize,
    /// Number of requests that were answered by number, behind the first unanswered one.
    answered: usize,
    bytes: usize,
}

#[derive(Debug)]
struct QueuedRequest<T> {
    /// `None` once it timed out, or was answered.
    token: Option<T>,
    /// True if it was answered by number, and only waits for earlier ones to be removed.
    is_answered: bool,
    sent_millis: u64,
    bytes: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            first: 0,
            expired: 0,
            answered: 0,
            bytes: 0,
        }
    }
}

impl<T> Queue<T> {
    /// Appends a request of `bytes` bytes. `sent_millis` must not be before the previous request's.
    pub fn push(&mut self, token: T, sent_millis: u64, bytes: usize) {
        self.bytes += bytes;
        self.requests.push_back(QueuedRequest {
            token: Some(token),
            is_answered: false,
            sent_millis,
            bytes,
        });
    }

    /// Removes the oldest request, whose reply has arrived. The inner `None` means that it timed out before, the
    /// outer one that there is no request.
    pub fn pop(&mut self) -> Option<Option<T>> {
        let request = self.requests.pop_front()?;
        self.bytes -= request.bytes;
        self.expired = self.expired.saturating_sub(1);
        self.first = self.first.wrapping_add(1);
        Some(request.token)
    }

    /// Number of the next request that is pushed.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        // Requests are bounded far below 2^32.
        self.first.wrapping_add(self.requests.len() as u32)
    }

    /// Takes the token of a request by its number. `None` if it has timed out, or was answered before.
    pub fn answer(&mut self, number: u32) -> Option<T> {
        let place = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        let request = self.requests.get_mut(place)?;
        let token = request.token.take();
        if !std::mem::replace(&mut request.is_answered, true) {
            self.answered += 1;
            self.bytes -= std::mem::take(&mut request.bytes);
        }
        while self.requests.front().is_some_and(|it| it.is_answered) {
            self.pop();
            self.answered -= 1;
        }
        token
    }

    /// Takes the token of the oldest request that was sent at or before `sent_millis` and has not timed out yet.
    pub fn expire(&mut self, sent_millis: u64) -> Option<T> {
        loop {
            let request = self.requests.get_mut(self.expired)?;
            if request.sent_millis > sent_millis {
                return None;
            }
            self.expired += 1;
            if let Some(token) = request.token.take() {
                return Some(token);
            }
        }
    }

    /// Send time of the oldest request, timed out or not.
    #[must_use]
    pub fn oldest_millis(&self) -> Option<u64> {
        self.requests.front().map(|request| request.sent_millis)
    }

    /// Number of outstanding replies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len() - self.answered
    }

    /// True if no reply is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The bytes of the requests whose replies are outstanding.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_when_expired_keeps_its_position() {
        let mut queue = Queue::default();
        queue.push('a', 1, 10);
        queue.push('b', 2, 20);
        queue.push('c', 3, 30);
        assert_eq!(queue.expire(2), Some('a'));
        assert_eq!(queue.expire(2), Some('b'));
        assert_eq!(queue.expire(2), None);
        assert_eq!(
            (queue.len(), queue.bytes(), queue.oldest_millis()),
            (3, 60, Some(1))
        );
        assert_eq!(queue.pop(), Some(None));
        assert_eq!(
            (queue.len(), queue.bytes(), queue.oldest_millis()),
            (2, 50, Some(2))
        );
        assert_eq!(queue.expire(3), Some('c'));
        assert_eq!(queue.pop(), Some(None));
        assert_eq!(queue.pop(), Some(None));
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn request_when_answered_in_time_does_not_expire() {
        let mut queue = Queue::default();
        queue.push('a', 1, 1);
        queue.push('b', 1, 1);
        assert_eq!(queue.pop(), Some(Some('a')));
        assert_eq!(queue.expire(1), Some('b'));
        assert_eq!(queue.expire(1), None);
    }

    #[test]
    fn request_when_answered_by_number_leaves_the_others() {
        let mut queue = Queue::default();
        let numbers = ['a', 'b', 'c', 'd'].map(|token| {
            let number = queue.next_number();
            queue.push(token, 1, 10);
            number
        });
        assert_eq!(queue.answer(numbers[1]), Some('b'));
        assert_eq!(queue.answer(numbers[1]), None, "once");
        assert_eq!((queue.len(), queue.bytes()), (3, 30));
        assert_eq!(queue.answer(numbers[0]), Some('a'));
        assert_eq!((queue.len(), queue.bytes()), (2, 20));
        assert_eq!(queue.answer(numbers[3]), Some('d'));
        assert_eq!((queue.len(), queue.bytes()), (1, 10));
        assert_eq!(queue.expire(1), Some('c'));
        assert_eq!(queue.expire(1), None);
        assert_eq!(queue.answer(numbers[2]), None, "it has timed out");
        assert!(queue.is_empty());
        assert_eq!(queue.next_number(), 4);
        assert_eq!(queue.answer(4), None, "never asked");
    }
}
