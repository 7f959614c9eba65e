//! Ports for the servers of tests. Each is reserved for one server until it is dropped, also while it is stopped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which Linux assigns ports to outgoing connections and to listeners on port 0, so no other program takes
/// one of these ports by accident while its server starts or is stopped.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// Ports of the loopback interface that are reserved, across processes, until this is dropped. Otherwise a response from another
/// test's server could be mistaken for one from a server that has not started.
#[derive(Debug)]
pub(crate) struct ReservedPorts<const N: usize> {
    pub(crate) ports: [u16; N],
    #[allow(dead_code, reason = "held until this is dropped, or its process ends in whatever way")]
    locks: Vec<File>,
}

impl<const N: usize> ReservedPorts<N> {
    /// Reserves different ports on which no program listens.
    ///
    /// # Errors
    /// When there are not enough ports, or the folder of the locks cannot be created.
    pub(crate) fn new() -> Result<Self, String> {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let directory = std::env::temp_dir().join("tracewarden-test-ports");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("cannot create `{}`: {error}", directory.display()))?;
        // Test processes have consecutive ids, so their first ports are spread out.
        let begin = (std::process::id() % u32::from(COUNT)) as u16;
        let mut ports = [0; N];
        let mut locks = Vec::with_capacity(N);
        let mut tried = 0;
        while let Some(place) = ports.get_mut(locks.len()) {
            if tried == COUNT {
                return Err(format!("no {N} free ports from {FIRST} to {}", FIRST + COUNT - 1));
            }
            tried += 1;
            let next = u32::from(begin) * 97 + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = FIRST + (next % u32::from(COUNT)) as u16;
            let lock = File::options().append(true).create(true).open(directory.join(port.to_string()));
            let Some(lock) = lock.ok().filter(|lock| lock.try_lock().is_ok()) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                *place = port;
                locks.push(lock);
            }
        }
        Ok(Self { ports, locks })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_is_given_once_until_it_is_free_again() {
        let mut held: Vec<ReservedPorts<3>> = (0..8)
            .map(|_| std::thread::spawn(|| ReservedPorts::new().unwrap()))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let given: BTreeSet<u16> = held.iter().flat_map(|reserved| reserved.ports).collect();
        assert_eq!(given.len(), 24);
        let [port, ..] = held[0].ports;
        let lock =
            || File::open(std::env::temp_dir().join(format!("tracewarden-test-ports/{port}"))).unwrap();
        assert!(lock().try_lock().is_err());
        held.remove(0);
        lock().try_lock().unwrap();
    }

    #[test]
    fn a_port_with_a_listener_is_passed_over() {
        let reserved = ReservedPorts::<1>::new().unwrap();
        let next = reserved.ports[0] + 1;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        let others: Vec<_> = (0..5).map(|_| ReservedPorts::<1>::new().unwrap()).collect();
        assert!(others.iter().all(|other| other.ports != [next]) || listener.is_err());
    }
}
