//! Which versions of ClickHouse are supported.

use super::Catalogue;
use crate::sql::Statement;
use crate::{ClickHouseError, Result};

/// The oldest supported version: earlier ones ignore settings of formats that come with a form (ClickHouse pull request
/// 85570), and write times without their zone.
const MIN_VERSION: &str = "25.8";

/// Parses year and number of a version such as `25.8.2.1`.
fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether a version is older than the oldest supported one. A version that cannot be parsed counts as older.
fn is_too_old(version: &str) -> bool {
    parse_version(version) < parse_version(MIN_VERSION)
}

impl Catalogue {
    /// Refuses a server of an unsupported version.
    ///
    /// # Errors
    /// [`ClickHouseError::Unusable`] for a version that is too old, or failures of the statement.
    pub(crate) async fn verify_version(&self) -> Result<()> {
        let rows: Vec<(String,)> = self.client.rows(Statement::new("SELECT version()")).await?;
        let version = rows.into_iter().next().map(|(version,)| version).unwrap_or_default();
        check_version("the server", &version)
    }

    /// Refuses endpoints of an unsupported version. Endpoints that do not answer are skipped, unless none does.
    ///
    /// # Errors
    /// As [`Self::verify_version`].
    pub(crate) async fn verify_versions(&self) -> Result<()> {
        let mut answered = Err(ClickHouseError::Internal("no endpoint is configured".to_owned()));
        for endpoint in self.client.endpoints() {
            let catalogue = Self { client: self.client.for_endpoint(endpoint), ..self.clone() };
            match catalogue.verify_version().await {
                Err(error @ ClickHouseError::Unavailable { .. }) => answered = answered.or(Err(error)),
                result => answered = Ok(result?),
            }
        }
        answered
    }
}

/// Refuses a server of an unsupported version; `server` describes it in the message.
///
/// # Errors
/// [`ClickHouseError::Unusable`].
pub(crate) fn check_version(server: &str, version: &str) -> Result<()> {
    if is_too_old(version) {
        return Err(ClickHouseError::Unusable(format!(
            "{server} is ClickHouse {version}, and {MIN_VERSION} is the oldest version that is supported: upgrade it"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for old in ["24.8.4.1", "25.5.2.47", "25.7", "9.10", "", "nightly", "25"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["25.8", "25.8.2.1", "25.10.1", "26.1.1.1-testing", "100.1"] {
            assert!(!is_too_old(new), "{new}");
        }
    }
}
