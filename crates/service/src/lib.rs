//! The use cases: authenticates, authorises, audits.
