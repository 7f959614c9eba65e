//! The npm package of the engine for each platform, pinned by checksum.

use anyhow::{Result, bail};

use super::OVERRIDE;

/// Exact version of the packages. Their dist-tag `latest` is an older version.
pub const VERSION: &str = "26.7.3-stable.1";

/// File name of the library in the package.
pub const LIBRARY: &str = "libchdb.so";

/// A package in the npm registry.
#[derive(Debug)]
pub struct Package {
    pub name: &'static str,
    /// Subresource Integrity hash of the tarball, as reported by `npm view <name>@<version> dist.integrity`.
    pub integrity: String,
    pub tarball_bytes: u64,
    pub library_bytes: u64,
}

impl Package {
    pub fn of_this_machine() -> Result<Self> {
        Self::of(std::env::consts::OS, std::env::consts::ARCH)
    }

    /// Returns the package of a platform. Only tested packages are pinned: the checksum of an untested one gives no protection.
    fn of(operating_system: &str, architecture: &str) -> Result<Self> {
        let name = match (operating_system, architecture) {
            ("linux", "x86_64") => {
                return Ok(Self {
                    name: "@chdb/lib-linux-x64-gnu",
                    integrity: "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==".to_owned(),
                    tarball_bytes: 177_817_999,
                    library_bytes: 566_330_096,
                });
            }
            ("linux", "aarch64") => "@chdb/lib-linux-arm64-gnu",
            ("macos", "x86_64") => "@chdb/lib-darwin-x64",
            ("macos", "aarch64") => "@chdb/lib-darwin-arm64",
            _ => bail!(
                "there is no engine package for {operating_system} on {architecture}; set {OVERRIDE} to the path of a \
                 libchdb {VERSION}"
            ),
        };
        bail!(
            "no checksum is pinned for {name}@{VERSION} ({operating_system} on {architecture}); fetch it yourself with \
             `npm pack {name}@{VERSION}`, unpack it, and set {OVERRIDE} to the path of its {LIBRARY}"
        )
    }

    /// Returns the package specification for npm.
    pub fn specification(&self) -> String {
        format!("{}@{VERSION}", self.name)
    }
}

#[cfg(test)]
pub mod tests {
    use base64::Engine as _;
    use sha2::{Digest, Sha512};

    use super::*;

    /// Returns a package whose tarball is these bytes.
    pub fn tiny(tarball: &[u8]) -> Package {
        let digest = base64::engine::general_purpose::STANDARD.encode(Sha512::digest(tarball));
        Package {
            name: "@example/engine",
            integrity: format!("sha512-{digest}"),
            tarball_bytes: tarball.len() as u64,
            library_bytes: 0,
        }
    }

    #[test]
    fn unsupported_machines_get_advice() {
        assert_eq!(
            Package::of("linux", "x86_64").unwrap().specification(),
            "@chdb/lib-linux-x64-gnu@26.7.3-stable.1"
        );
        for (system, architecture) in
            [("linux", "aarch64"), ("macos", "aarch64"), ("macos", "x86_64"), ("windows", "x86_64")]
        {
            let error = Package::of(system, architecture).unwrap_err().to_string();
            assert!(error.contains(OVERRIDE), "{error}");
        }
    }
}
