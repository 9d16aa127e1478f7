//! Number of distinct visitors, estimated by HyperLogLog.
//!
//! Flajolet, Fusy, Gandouet, Meunier: "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm" (2007), as
//! Apache DataSketches has it: a list of coupons for few visitors, 2^14 registers for many. Its standard error is then 0.8 %.
//! The bytes are those of DataSketches ("HLL sketch", serial version 1), which its other implementations read as well.

use datasketches::hll::{HllSketch, HllType, HllUnion};

/// The binary logarithm of the number of registers.
const LOG_REGISTERS: u8 = 14;

/// A set of visitors that can only estimate its size.
#[derive(Clone, Debug, Default)]
pub struct Sketch(Option<Box<HllSketch>>);

/// Bytes that are no sketch.
#[derive(Debug, thiserror::Error)]
#[error("the sketch of visitors is malformed: {0}")]
pub struct MalformedSketch(String);

impl Sketch {
    /// Reads what [`Sketch::to_bytes`] has written.
    ///
    /// # Errors
    /// The bytes are no sketch of this size.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedSketch> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let sketch =
            HllSketch::deserialize(bytes).map_err(|error| MalformedSketch(error.to_string()))?;
        if sketch.lg_config_k() != LOG_REGISTERS {
            return Err(MalformedSketch(format!(
                "2^{} registers",
                sketch.lg_config_k()
            )));
        }
        Ok(Self(Some(Box::new(sketch))))
    }

    /// The bytes; none for no visitor.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |sketch| sketch.serialize())
    }

    /// Adds a visitor.
    pub fn insert(&mut self, token: u64) {
        if self.0.is_none() {
            self.0 = new_sketch();
        }
        if let Some(sketch) = &mut self.0 {
            sketch.update(token);
        }
    }

    /// Adds the visitors of another sketch.
    pub fn merge(&mut self, other: &Self) {
        let Some(added) = &other.0 else {
            return;
        };
        let Some(sketch) = &mut self.0 else {
            self.0 = Some(added.clone());
            return;
        };
        if let Ok(mut union) = HllUnion::new(LOG_REGISTERS) {
            union.update(sketch);
            union.update(added);
            **sketch = union.to_sketch(HllType::Hll8);
        }
    }

    /// About how many visitors there are.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |sketch| sketch.estimate().round() as u64)
    }
}

/// Union of many sketches, added one by one: cheaper than merging them in pairs.
#[derive(Clone, Debug, Default)]
pub struct SketchUnion(Option<Box<HllUnion>>);

impl SketchUnion {
    /// Adds the visitors of a sketch.
    pub fn add(&mut self, sketch: &Sketch) {
        let Some(added) = &sketch.0 else {
            return;
        };
        if self.0.is_none() {
            self.0 = HllUnion::new(LOG_REGISTERS).ok().map(Box::new);
        }
        if let Some(union) = &mut self.0 {
            union.update(added);
        }
    }

    /// About how many visitors there are.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |union| union.estimate().round() as u64)
    }
}

/// Creates an empty sketch. It is `Some` for every number of registers in range, as this constant is.
fn new_sketch() -> Option<Box<HllSketch>> {
    HllSketch::new(LOG_REGISTERS, HllType::Hll8)
        .ok()
        .map(Box::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    fn of(tokens: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        for token in tokens {
            sketch.insert(token);
        }
        sketch
    }

    fn error(estimate: u64, exact: u64) -> f64 {
        (estimate as f64 - exact as f64).abs() / exact as f64
    }

    #[test]
    fn sketch_when_visitors_are_a_million_errs_below_two_percent() {
        let mut random = StdRng::seed_from_u64(1);
        let tokens: Vec<u64> = (0..1_000_000).map(|_| random.random()).collect();
        let whole = of(tokens.iter().copied());
        assert!(error(whole.estimate(), 1_000_000) < 0.02);
        let mut merged = Sketch::default();
        let mut union = SketchUnion::default();
        // Each visitor is in two parts.
        for part in tokens.windows(200_000).step_by(100_000) {
            let part = of(part.iter().copied());
            let read = Sketch::from_bytes(&part.to_bytes()).unwrap();
            assert_eq!(read.estimate(), part.estimate());
            merged.merge(&read);
            union.add(&read);
        }
        assert_eq!(union.estimate(), merged.estimate());
        assert!(error(merged.estimate(), 1_000_000) < 0.02);
        assert!(merged.to_bytes().len() < 17_000);
    }

    #[test]
    fn sketch_when_visitors_are_few_counts_exactly() {
        assert_eq!(Sketch::default().estimate(), 0);
        assert!(Sketch::default().to_bytes().is_empty());
        let sketch = of([1, 2, 3, 2, 1]);
        assert_eq!(sketch.estimate(), 3);
        assert_eq!(sketch.to_bytes().len(), 8 + 3 * 4);
        let mut hundred = of(0..100);
        hundred.merge(&of(50..150));
        assert_eq!(hundred.estimate(), 150);
    }

    #[test]
    fn sketch_when_bytes_are_malformed_is_refused() {
        let bytes = of([1]).to_bytes();
        for cut in 1..bytes.len() {
            assert!(Sketch::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut other = HllSketch::new(12, HllType::Hll8).unwrap();
        other.update(1_u64);
        assert!(Sketch::from_bytes(&other.serialize()).is_err());
    }
}
