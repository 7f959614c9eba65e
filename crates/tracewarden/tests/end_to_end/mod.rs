//! The whole path from instrumented programs to the users who read their spans, and failures on it.

mod broken_policies;
mod changed_columns;
mod client_disconnects;
mod column_types;
mod cuts;
mod exceptions;
mod failing_store;
mod faults;
mod hostile_names;
mod instrumented_program;
mod key_columns;
mod large_pages;
mod many_values;
mod marking;
mod other_tables;
mod test_requests;
mod two_stores;
