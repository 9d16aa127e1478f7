//! Settings of the rate limits.

use edgelink_model::token_bucket::Rate;

edgelink_wire::settings! {
    snake_case;

    /// Rate limits of the API, as token buckets: a bucket holds `capacity` requests at most and gains `per_second` a second; a
    /// request takes one, a bulk request as well, and is 429 where there is none. A capacity of 0 is no limit, and without any
    /// limit Redis is not asked. All control planes of a Redis share the buckets. Without Redis, and while it does not answer,
    /// each control plane has its own.
    pub struct LimitsConfig {
        /// Of each client address (IPv6: each /64, four times as much of each /56, and 16 times of each /48), with or without a valid key. Behind proxies set `server.trusted_proxies`.
        /// Where it is exceeded, keys are not looked up either.
        pub address_capacity: u32 = 0, 0..=1_000_000;
        /// What it gains.
        pub address_per_second: u32 = 10, 1..=1_000_000;
        /// Of each API key.
        pub key_capacity: u32 = 0, 0..=1_000_000;
        /// What it gains.
        pub key_per_second: u32 = 100, 1..=1_000_000;
        /// Of all requests with a valid key.
        pub global_capacity: u32 = 0, 0..=1_000_000;
        /// What it gains.
        pub global_per_second: u32 = 1_000, 1..=1_000_000;
        /// Buckets in this process; the one used longest ago gives way, and is full when it is needed again.
        pub max_buckets: u64 = 100_000, 100..=10_000_000;
    }
}

impl LimitsConfig {
    /// The limit of each client address; `None` if there is none.
    pub fn address(&self) -> Option<Rate> {
        Rate::new(self.address_capacity, self.address_per_second)
    }

    /// The limit of each API key; `None` if there is none.
    pub fn key(&self) -> Option<Rate> {
        Rate::new(self.key_capacity, self.key_per_second)
    }

    /// The limit of all requests together; `None` if there is none.
    pub fn global(&self) -> Option<Rate> {
        Rate::new(self.global_capacity, self.global_per_second)
    }
}
