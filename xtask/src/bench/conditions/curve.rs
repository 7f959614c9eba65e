//! Search time against the number of spans.

use super::handwritten::ONE_PASS;
use super::measure::Measured;
use crate::bench::clickhouse::ClickHouseKind;
use crate::bench::interleaved::Figures;

/// Number of spans in the smallest data set. Each further data set has twice as many spans.
const SMALLEST: u64 = 10_000;

/// Measurements of one cell on one kind of ClickHouse.
pub struct Curve {
    pub store: ClickHouseKind,
    pub cell: &'static str,
    /// Measurements, ordered by size.
    pub points: Vec<Point>,
}

/// Measurement at one data set size.
pub struct Point {
    pub spans: u64,
    pub service: Figures,
    pub one_pass: Figures,
    pub statements: u64,
}

/// Returns the data set sizes up to `largest`.
pub fn sizes(largest: u64) -> Vec<u64> {
    // 10,000 doubled eleven times is 20,480,000, which counts as 20 million.
    std::iter::successors(Some(SMALLEST), |spans| spans.checked_mul(2))
        .take_while(|spans| *spans <= largest + largest / 40)
        .collect()
}

/// Groups measurements, which are ordered by size, into curves.
pub fn curves(measured: &[Measured]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for one in measured {
        let (store, cell) = (one.data.store, one.page.cell.name);
        let point = Point {
            spans: one.data.spans,
            service: one.service,
            one_pass: one.handwritten.get(ONE_PASS).copied().unwrap_or_default(),
            statements: one.statements,
        };
        match curves.iter_mut().find(|curve| curve.store == store && curve.cell == cell) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { store, cell, points: vec![point] }),
        }
    }
    curves
}

impl Curve {
    /// Returns the highest ratio of a search time to the time with half as many spans, or NaN with fewer than two sizes.
    pub fn growth(&self) -> f64 {
        let pairs = self.points.iter().zip(self.points.iter().skip(1));
        pairs
            .map(|(one, twice)| twice.service.milliseconds / one.service.milliseconds)
            .fold(f64::NAN, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_up_to_twenty_million() {
        let sizes = sizes(20_000_000);
        assert_eq!((sizes.len(), sizes.last()), (12, Some(&20_480_000)));
        assert_eq!(super::sizes(30_000), [10_000, 20_000]);
    }

    #[test]
    fn the_costliest_doubling_counts() {
        let point = |spans, milliseconds| Point {
            spans,
            service: Figures { milliseconds, ..Figures::default() },
            one_pass: Figures::default(),
            statements: 1,
        };
        let points = vec![point(1, 10.0), point(2, 15.0), point(4, 45.0), point(8, 50.0)];
        assert_eq!(Curve { store: ClickHouseKind::Engine, cell: "", points }.growth(), 3.0);
    }
}
