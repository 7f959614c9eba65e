//! `tracewarden check-config`: what applies, with secrets left out.

use crate::configuration::Configuration;

/// Prints every setting as it was understood.
pub fn print(configuration: &Configuration) {
    // The derived form names each field once, and `Secret` hides itself.
    println!("{configuration:#?}");
    println!("the configuration is valid");
}
