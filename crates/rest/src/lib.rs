//! The REST API: routes, wire types, OpenAPI, cookies, headers.

mod accept;
mod body;
mod client;
mod code;
mod cookies;
mod cross_site;
mod edge;
mod framing;
mod headers;
mod problem;
mod query;

pub use code::Code;
pub use edge::Edge;
