//! The REST API: routes, wire types, OpenAPI, cookies, headers.
