//! Files about policies: access models, roles, users, spans and tests, as YAML or JSON. Errors have positions. The command line
//! and the REST API use the same files.

mod document;
#[cfg(test)]
mod fuzz;
mod json;
mod json_pointer;
mod model_tests;
mod policy_file;
mod policy_suite;
mod spans;
mod strict_objects;
mod user;

pub use document::{Document, Fault, Lines, MAX_VALUES, SourcePosition, json_of, yaml};
pub use json::Json;
pub use json_pointer::{escape, pointer};
pub use model_tests::run_tests;
pub use policy_file::{MemberFault, PolicyFile};
pub use policy_suite::{SuiteFault, pluralize, resolve};
pub use spans::spans;
pub use strict_objects::StrictDeserializer;
pub use user::EvaluatedUser;
