//! Shared code of fuzz targets. It is not a module of this crate: each crate with targets includes it by its path, because the
//! crates that this one depends on cannot depend on it.
//!
//! A target is an ordinary test over bytes. In an ordinary run, its inputs are stored failures, seeds, and mutations of both.
//! Under `cargo xtask soak fuzz`, the fuzzer mutates them, guided by code coverage.
#![allow(dead_code, reason = "not every crate needs all of it")]
#![allow(clippy::disallowed_methods, reason = "nothing here runs in the service")]

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use bolero::{Driver, ValueGenerator};

/// Number of inputs in an ordinary run, in addition to the unchanged seeds. `BOLERO_RANDOM_ITERATIONS` has an effect only where
/// no number is set.
pub(crate) const ITERATIONS: usize = 1_000;

/// Environment variable with the folder into which a guided run writes its seeds.
const SEED_DIRECTORY: &str = "TRACEWARDEN_FUZZ_SEEDS";

/// Maximum time for an input of a few kilobytes, in a build without optimisation.
const MAX_SECONDS: f64 = 2.0;

/// Fragments that are difficult for parsers.
const FRAGMENTS: [&[u8]; 34] = [
    b"\0",
    b"\"",
    b"'",
    b"`",
    b"\\",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b",",
    b":",
    b";",
    b"=",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"&",
    b"%",
    b"%00",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc3",
    "ß".as_bytes(),
    "漢".as_bytes(),
    "\u{202e}".as_bytes(),
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"null",
    b"NaN",
];

/// Prints the seed when the test panics.
struct SeedGuard<'a>(&'a [u8]);

impl Drop for SeedGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed on a seed: b\"{}\"", self.0.escape_ascii());
        }
    }
}

/// An input, whose `Debug` output is readable text.
pub(crate) struct Input(pub(crate) Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "b\"{}\"", self.0.escape_ascii())
    }
}

/// Seeds, to which a few mutations are applied.
#[derive(Debug)]
pub(crate) struct MutatedSeeds(Vec<Vec<u8>>);

impl MutatedSeeds {
    /// Creates the list from these seeds and from the inputs below `fuzz/TARGET` of the crate, which once failed. Tests each of
    /// them unchanged.
    pub(crate) fn new(manifest: &str, test: &str, seeds: Vec<Vec<u8>>, property: impl Fn(&[u8])) -> Self {
        // The name of the test ends with the name of a function inside it.
        let target = test.rsplit("::").nth(1).unwrap_or(test);
        let mut all = stored_failures(&Path::new(manifest).join("fuzz").join(target));
        all.extend(seeds);
        assert!(!all.is_empty(), "`{test}` has no seeds");
        if !is_guided() {
            for seed in &all {
                let guard = SeedGuard(seed);
                property(seed);
                drop(guard);
            }
        }
        Self(all)
    }

    /// Writes the seeds to the folder where the fuzzer expects them.
    pub(crate) fn write_seeds(&self) {
        let Some(directory) = std::env::var_os(SEED_DIRECTORY).map(PathBuf::from) else { return };
        for (at, seed) in self.0.iter().enumerate() {
            fs::write(directory.join(format!("seed-{at}")), seed).unwrap();
        }
    }

    fn seed<D: Driver>(&self, driver: &mut D) -> Option<&[u8]> {
        self.0.get((0..self.0.len()).generate(driver)?).map(Vec::as_slice)
    }
}

fn stored_failures(directory: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Whether the fuzzer selects the inputs.
pub(crate) fn is_guided() -> bool {
    static GUIDED: OnceLock<bool> = OnceLock::new();
    *GUIDED.get_or_init(|| std::env::var_os("BOLERO_LIBFUZZER_ARGS").is_some())
}

impl ValueGenerator for MutatedSeeds {
    type Output = Input;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Input> {
        let mut text = self.seed(driver)?.to_vec();
        for _ in 0..(1..5_usize).generate(driver)? {
            let start = (0..=text.len()).generate(driver)?;
            let length = (0..=(text.len() - start).min(40)).generate(driver)?;
            let part = start..start + length;
            match (0..8_u8).generate(driver)? {
                0 => drop(text.drain(part)),
                1 => {
                    let copy = text[part].to_vec();
                    let times = (1..40_usize).generate(driver)?;
                    text.splice(start..start, copy.repeat(times));
                }
                2 => text.truncate(start),
                3 => {
                    let byte = (0..=u8::MAX).generate(driver)?;
                    text.splice(part, [byte]);
                }
                4 => {
                    if let Some(byte) = text.get_mut(start) {
                        *byte ^= 1 << (0..8_u8).generate(driver)?;
                    }
                }
                5 => {
                    let other = self.seed(driver)?;
                    let from = (0..=other.len()).generate(driver)?;
                    let to = (from..=other.len()).generate(driver)?;
                    text.splice(part, other[from..to].iter().copied());
                }
                _ => {
                    let piece = FRAGMENTS[(0..FRAGMENTS.len()).generate(driver)?];
                    text.splice(part, piece.iter().copied());
                }
            }
        }
        Some(Input(text))
    }
}

/// Runs `work` and fails if it took too long. The limit applies to the smaller of elapsed time and processor time, so a busy
/// machine does not matter. The fuzzer has its own limit.
pub(crate) fn within_time_limit<T>(work: impl FnOnce() -> T) -> T {
    if is_guided() {
        return work();
    }
    let (begun, before) = (Instant::now(), processor_seconds());
    let done = work();
    let took = begun.elapsed().as_secs_f64().min(processor_seconds() - before);
    assert!(took < MAX_SECONDS, "it took {took} s");
    done
}

fn processor_seconds() -> f64 {
    // In ticks, a hundred per second. The program name before these fields may contain spaces.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// Splits an input at zero bytes, for targets that read several texts at once.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut parts = input.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Converts texts to seeds.
pub(crate) fn texts<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    texts.into_iter().map(|text| text.as_ref().to_vec()).collect()
}

/// Runs a target with its seeds, its property and optionally the number of inputs of an ordinary run. It is a macro because the
/// fuzzer needs the name of the test itself.
macro_rules! target {
    ($seeds:expr, $property:expr) => {
        target!($seeds, $property, fuzzing::ITERATIONS)
    };
    ($seeds:expr, $property:expr, $iterations:expr) => {{
        let property = $property;
        let seeds = fuzzing::MutatedSeeds::new(
            env!("CARGO_MANIFEST_DIR"),
            bolero::__item_path__!(),
            $seeds,
            property,
        );
        if fuzzing::is_guided() {
            seeds.write_seeds();
            bolero::check!().for_each(move |input: &[u8]| property(input));
        } else {
            let target = bolero::check!().with_generator(seeds).with_iterations($iterations);
            target.for_each(move |input: &fuzzing::Input| property(&input.0));
        }
    }};
}
pub(crate) use target;
