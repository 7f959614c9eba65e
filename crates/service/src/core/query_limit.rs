//! ClickHouse limits that a query can exceed.

/// ClickHouse limits that a query can exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryLimit {
    /// Run time.
    Time,
    /// Memory in ClickHouse, of the query alone or together with others.
    Memory,
    /// Amount of data read, by ClickHouse's own settings.
    Size,
}

impl QueryLimit {
    /// Describes the exceeded limit, without advice.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Time => "the query took too long and was stopped",
            Self::Memory => "the query needed more memory in ClickHouse than it may use",
            Self::Size => "the query would read more than ClickHouse allows",
        }
    }
}
