//! Generators, sample traces, a whole application in process, a fault-injecting proxy. Development only.

pub mod shop;
