//! Finds free loopback ports.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

/// Returns the preferred port, or the next free one that is not in `taken`. Another process may bind it before it is used; the
/// program that fails to listen on it then reports that and exits.
pub fn free(preferred: u16, taken: &[SocketAddr]) -> Result<SocketAddr> {
    (preferred..preferred.saturating_add(200))
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .find(|address| !taken.contains(address) && TcpListener::bind(address).is_ok())
        .with_context(|| {
            format!("there is no free port between {preferred} and {}", preferred.saturating_add(199))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_or_spoken_for_is_passed_over() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = held.local_addr().unwrap();
        let first = free(address.port(), &[]).unwrap();
        assert!(first.port() > address.port());
        let second = free(address.port(), &[first]).unwrap();
        assert!(second.port() > first.port());
    }
}
