//! Classes of the rows that spans and traces become.

/// The total. `ROLLUP` gives it zeros.
pub(super) const TOTAL: u8 = 0;
pub(super) const GROUP: u8 = 1;
pub(super) const BUCKET: u8 = 2;
/// Class of the values of the first facet; that of each further facet is one more.
pub(super) const FIRST_FACET: u8 = 3;
/// Class of a span that is in no group.
pub(super) const NO_GROUP: u8 = u8::MAX;
