//! Verifies the tarball and extracts the library.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha512};

use super::package::{LIBRARY, Package};

/// Compares the tarball with the pinned checksum, before anything is extracted.
pub fn verify(tarball: &Path, package: &Package) -> Result<()> {
    let mut file = File::open(tarball).with_context(|| format!("cannot open `{}`", tarball.display()))?;
    let mut hash = Sha512::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length =
            file.read(&mut buffer).with_context(|| format!("cannot read `{}`", tarball.display()))?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else { break };
        hash.update(read);
    }
    let integrity = format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(hash.finalize()));
    if integrity != package.integrity {
        bail!(
            "the package {} that npm delivered is not the one that was pinned\n  expected {}\n  got      {integrity}\n\
             nothing was installed; the download may have been damaged (run the command again), or the configured \
             registry serves something else (`npm config get registry`)",
            package.specification(),
            package.integrity
        );
    }
    Ok(())
}

/// Extracts the library to `destination` and syncs it to disk.
pub fn library(tarball: &Path, package: &Package, destination: &Path) -> Result<()> {
    let file = File::open(tarball).with_context(|| format!("cannot open `{}`", tarball.display()))?;
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::with_capacity(1 << 20, file)));
    for entry in archive.entries().context("cannot read the engine's package")? {
        let mut entry = entry.context("cannot read the engine's package")?;
        if entry.path().is_ok_and(|path| path.ends_with(LIBRARY)) {
            let written = write(&mut entry, destination).map_err(|error| explained(error, destination))?;
            if written != package.library_bytes {
                bail!("{LIBRARY} has {written} bytes, and {} were expected", package.library_bytes);
            }
            return Ok(());
        }
    }
    bail!("the package {} holds no {LIBRARY}", package.specification())
}

fn write(source: &mut impl Read, destination: &Path) -> io::Result<u64> {
    let mut file = io::BufWriter::with_capacity(1 << 20, File::create(destination)?);
    let written = io::copy(source, &mut file)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(written)
}

fn explained(error: io::Error, destination: &Path) -> anyhow::Error {
    let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let text = format!("cannot write `{}`", destination.display());
    let advice = if full {
        "; free some space, or set XDG_CACHE_HOME to a directory on a larger file system"
    } else {
        ""
    };
    anyhow::Error::from(error).context(format!("{text}{advice}"))
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::engine::package::tests::tiny;

    fn tarball(name: &str, content: &[u8]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_cksum();
        builder.append_data(&mut header, format!("package/{name}"), content).unwrap();
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn stored(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn the_library_comes_out_of_a_verified_tarball() {
        let bytes = tarball(LIBRARY, b"engine");
        let (file, directory) = (stored(&bytes), tempfile::tempdir().unwrap());
        let package = Package { library_bytes: 6, ..tiny(&bytes) };
        let destination = directory.path().join(LIBRARY);
        verify(file.path(), &package).unwrap();
        library(file.path(), &package, &destination).unwrap();
        assert_eq!(std::fs::read(destination).unwrap(), b"engine");
    }

    #[test]
    fn a_changed_tarball_is_refused() {
        let bytes = tarball(LIBRARY, b"engine");
        let package = tiny(&bytes);
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        let error = verify(stored(&changed).path(), &package).unwrap_err().to_string();
        assert!(error.contains("nothing was installed") && error.contains(&package.integrity), "{error}");
        let cut = &bytes[..bytes.len() / 2];
        assert!(verify(stored(cut).path(), &package).is_err());
    }

    #[test]
    fn a_tarball_without_the_library_or_with_another_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let destination = directory.path().join(LIBRARY);
        let other = tarball("index.js", b"engine");
        assert!(library(stored(&other).path(), &tiny(&other), &destination).is_err());
        let short = tarball(LIBRARY, b"engine");
        let package = Package { library_bytes: 7, ..tiny(&short) };
        assert!(library(stored(&short).path(), &package, &destination).is_err());
    }
}
