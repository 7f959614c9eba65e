//! A ClickHouse engine in its own process, speaking ClickHouse's HTTP protocol, with an OTLP receiver.
