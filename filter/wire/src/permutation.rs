//! A keyed permutation of `[0, 62^length)`, so that codes are unique by construction and yet not enumerable.
//!
//! A balanced Feistel network of 8 rounds with SipHash-2-4 as round function, over the smallest even number of bits
//! that holds the range, cycle-walking into it: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
//! 2002. SipHash: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
//!
//! Without a key the permutation is the identity, and codes are plain counters.

use crate::base62::CodeLength;
use siphasher::sip::SipHasher24;
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

const ROUNDS: u8 = 8;

/// The 128-bit secret of a permutation. With it every code can be turned into its number.
#[derive(Clone, PartialEq, Eq)]
pub struct PermutationKey([u8; 16]);

impl PermutationKey {
    /// Wraps the bytes of a key.
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for PermutationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermutationKey(secret)")
    }
}

/// The text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a permutation key is 32 hexadecimal digits")]
pub struct PermutationKeyError;

impl FromStr for PermutationKey {
    type Err = PermutationKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(PermutationKeyError);
        }
        u128::from_str_radix(text, 16)
            .map(|key| Self(key.to_be_bytes()))
            .map_err(|_| PermutationKeyError)
    }
}

/// A bijection of `[0, 62^length)` onto itself.
#[derive(Clone, Debug)]
pub struct Permutation {
    length: CodeLength,
    key: Option<PermutationKey>,
}

impl Permutation {
    /// The permutation of the numbers of `length` under `key`; the identity without one.
    #[must_use]
    pub fn new(length: CodeLength, key: Option<PermutationKey>) -> Self {
        Self { length, key }
    }

    /// The image of `number`; `None` if it is outside of the range.
    #[must_use]
    pub fn permute(&self, number: u64) -> Option<u64> {
        self.walk(number, |network, value| network.forward(value))
    }

    /// The number whose image is `image`; `None` if it is outside of the range.
    #[must_use]
    pub fn invert(&self, image: u64) -> Option<u64> {
        self.walk(image, |network, value| network.backward(value))
    }

    /// Steps along the network's cycle until the value is back in the range. The range is more than a quarter of the
    /// network's domain, so this takes fewer than four steps on average; it ends because the cycle started inside.
    fn walk(&self, start: u64, step: impl Fn(&FeistelNetwork<'_>, u64) -> u64) -> Option<u64> {
        let count = self.length.count();
        if start >= count {
            return None;
        }
        let Some(key) = &self.key else {
            return Some(start);
        };
        let network = FeistelNetwork::new(key, self.length);
        let mut value = step(&network, start);
        while value >= count {
            value = step(&network, value);
        }
        Some(value)
    }
}

/// The Feistel network over `2 * half_bits` bits.
struct FeistelNetwork<'a> {
    key: &'a PermutationKey,
    length: u8,
    half_bits: u32,
}

impl<'a> FeistelNetwork<'a> {
    fn new(key: &'a PermutationKey, length: CodeLength) -> Self {
        Self {
            key,
            length: length.get(),
            half_bits: half_bits(length.count()),
        }
    }

    fn forward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.split(value);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        (left << self.half_bits) | right
    }

    fn backward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.split(value);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        (left << self.half_bits) | right
    }

    fn split(&self, value: u64) -> (u64, u64) {
        (value >> self.half_bits, value & self.mask())
    }

    fn mask(&self) -> u64 {
        (1 << self.half_bits) - 1
    }

    /// SipHash-2-4 of the round, the code length and one half (little endian), cut to half the bits. The length is in
    /// it so that one key gives unrelated permutations at different lengths.
    fn round(&self, round: u8, half: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key.0);
        let mut input = [0; 10];
        let (head, tail) = input.split_at_mut(2);
        head.copy_from_slice(&[round, self.length]);
        tail.copy_from_slice(&half.to_le_bytes());
        hasher.write(&input);
        hasher.finish() & self.mask()
    }
}

/// Half the bits of the smallest even width that holds every number below `count`.
fn half_bits(count: u64) -> u32 {
    (u64::BITS - (count - 1).leading_zeros()).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> PermutationKey {
        "000102030405060708090a0b0c0d0e0f".parse().unwrap()
    }

    #[test]
    fn network_when_domain_is_small_is_bijective() {
        for half_bits in 1..=7 {
            let key = key();
            let network = FeistelNetwork {
                key: &key,
                length: 7,
                half_bits,
            };
            let size = 1u64 << (2 * half_bits);
            let mut seen = vec![false; size as usize];
            for value in 0..size {
                let image = network.forward(value);
                assert!(!std::mem::replace(&mut seen[image as usize], true));
                assert_eq!(network.backward(image), value);
            }
        }
    }

    #[test]
    fn cycle_walking_when_range_is_no_power_of_two_is_bijective() {
        let key = key();
        let count = 62u64.pow(2);
        let network = FeistelNetwork {
            key: &key,
            length: 2,
            half_bits: half_bits(count),
        };
        let mut seen = vec![false; count as usize];
        for start in 0..count {
            let mut value = network.forward(start);
            while value >= count {
                value = network.forward(value);
            }
            assert!(!std::mem::replace(&mut seen[value as usize], true));
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn number_when_outside_range_has_no_image() {
        for key in [None, Some(key())] {
            let permutation = Permutation::new(CodeLength::DEFAULT, key);
            let count = CodeLength::DEFAULT.count();
            for number in [count, count + 1, u64::MAX] {
                assert_eq!(permutation.permute(number), None);
                assert_eq!(permutation.invert(number), None);
            }
        }
    }

    #[test]
    fn permutation_when_keyless_is_identity() {
        let permutation = Permutation::new(CodeLength::DEFAULT, None);
        assert_eq!(permutation.permute(42), Some(42));
        assert_eq!(permutation.invert(42), Some(42));
    }

    #[test]
    fn permutation_when_keyed_scatters_neighbours() {
        let with = |key: u128, length| {
            Permutation::new(
                CodeLength::new(length).unwrap(),
                Some(PermutationKey::new(key.to_be_bytes())),
            )
        };
        let images: Vec<u64> = (0..64).map(|n| with(1, 7).permute(n).unwrap()).collect();
        let ascending = images.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((16..48).contains(&ascending), "{ascending} of 63 ascend");
        assert_ne!(with(1, 7).permute(0), with(2, 7).permute(0));
        assert_ne!(with(1, 7).permute(0), with(1, 8).permute(0));
    }

    #[test]
    fn permutation_key_when_parsed_is_equal_and_never_printed() {
        assert_eq!("000102030405060708090a0b0c0d0e0f".parse(), Ok(key()));
        assert_eq!(format!("{:?}", key()), "PermutationKey(secret)");
        for text in [
            "",
            "00",
            &"0".repeat(33),
            &"g".repeat(32),
            &format!("+{}", "0".repeat(31)),
        ] {
            assert_eq!(text.parse::<PermutationKey>(), Err(PermutationKeyError));
        }
    }

    proptest! {
        #[test]
        fn permutation_when_inverted_gives_back_number(
            length in 6u8..=10,
            secret in any::<u128>(),
            fraction in 0.0..1.0f64,
        ) {
            let length = CodeLength::new(length).unwrap();
            let number = (length.count() as f64 * fraction) as u64;
            let permutation = Permutation::new(length, Some(PermutationKey::new(secret.to_be_bytes())));
            let image = permutation.permute(number).unwrap();
            prop_assert!(image < length.count());
            prop_assert_eq!(permutation.invert(image), Some(number));
            let preimage = permutation.invert(number).unwrap();
            prop_assert_eq!(permutation.permute(preimage), Some(number));
        }
    }
}
