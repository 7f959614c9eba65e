//! The traces that a statement reads.

use super::trace_bounds::TraceBounds;

/// The traces that a statement reads.
#[derive(Clone, Copy)]
pub(crate) enum TraceSet<'a> {
    /// All traces that have a span in the window.
    Window,
    /// These.
    Given(&'a [String]),
    /// These, with known bounds.
    Bounded(BoundedTraces<'a>),
    /// A sample of the traces of the window.
    Sample(Sample),
}

/// Traces with their bounds.
#[derive(Clone, Copy)]
pub(crate) struct BoundedTraces<'a> {
    pub(crate) traces: &'a [String],
    pub(crate) bounds: &'a TraceBounds,
}

/// A sample of one in `one_in` traces, a power of two, chosen by their ids: each trace has the same chance, and a larger
/// sample contains the smaller ones. ClickHouse evaluates predicates only for the spans of the sample; for a small sample, an
/// index on ids excludes most granules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    one_in: u64,
}

impl Sample {
    /// Creates a sample of about this share of all traces, at most all.
    pub(crate) fn new(share: f64) -> Self {
        Self { one_in: 1 << (1.0 / share).log2().round().clamp(0.0, 50.0) as u32 }
    }

    /// Returns the sample's share of the traces.
    pub(crate) fn fraction(self) -> f64 {
        1.0 / self.one_in as f64
    }

    /// SQL: whether a trace of this id, a string, is sampled.
    pub(crate) fn condition(self, id: &str) -> String {
        match self.one_in {
            1 => "1".to_owned(),
            one_in => format!("cityHash64({id}) % {one_in} = 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_share_or_everything() {
        for (share, one_in) in [(1.0, 1), (7.0, 1), (0.25, 4), (1.0 / 64.0, 64), (0.2, 4), (0.0, 1 << 50)] {
            assert_eq!(Sample::new(share), Sample { one_in }, "{share}");
        }
        assert_eq!(Sample::new(0.125).fraction(), 0.125);
    }
}
