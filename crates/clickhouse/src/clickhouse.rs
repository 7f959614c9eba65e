//! The client, with what it caches.

use crate::catalogue::{Catalogue, VerifiedClusters};
use crate::schema::{CachedSchema, LayoutCache, SearchHistory, TraceSizes};
use crate::{ClickHouseConfig, Cost, Result};
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tracewarden_model::Entropy;

/// Client for ClickHouse. Cheap to clone.
#[derive(Clone)]
pub struct ClickHouse {
    pub(crate) client: crate::client::Client,
    pub(crate) config: Arc<ClickHouseConfig>,
    pub(crate) layouts: Arc<LayoutCache>,
    pub(crate) trace_sizes: Arc<TraceSizes>,
    pub(crate) cached_schema: Arc<CachedSchema>,
    pub(crate) search_history: Arc<SearchHistory>,
    pub(crate) verified: Arc<VerifiedClusters>,
}

impl ClickHouse {
    /// Creates a client. It connects with the first statement.
    ///
    /// # Errors
    /// When an endpoint is not a valid address.
    pub fn new(config: ClickHouseConfig, entropy: Arc<dyn Entropy>) -> Result<Self> {
        let config = Arc::new(config);
        let client = crate::client::Client::new(Arc::clone(&config), entropy)?;
        Ok(Self {
            client,
            config,
            layouts: Arc::default(),
            trace_sizes: Arc::default(),
            cached_schema: Arc::default(),
            search_history: Arc::default(),
            verified: Arc::default(),
        })
    }

    /// Registers the metrics of the statements in a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.client.register_metrics(registry);
    }

    /// Returns the same client for the statements of one request. They stay with the endpoint that answered the first
    /// of them as long as it works: another replica may lag behind and would return fewer spans than were counted.
    #[must_use]
    pub fn session(&self) -> Self {
        Self { client: self.client.session(), ..self.clone() }
    }

    /// Returns the same client with a meter for the cost of its statements from here on. The meter omits statements whose
    /// answers are streamed, such as those that read spans: their cost is unknown when the answer begins. All other answers
    /// are sent when they are complete, and then ClickHouse knows the cost.
    #[must_use]
    pub fn metered(&self) -> Self {
        Self { client: self.client.metered(), ..self.clone() }
    }

    /// Returns the cost of this client's statements since [`Self::metered`] created it; zero for a client without a meter.
    /// Abandoned statements are not included.
    pub fn cost(&self) -> Cost {
        self.client.cost()
    }
    /// Returns the reader of ClickHouse's system tables. Its statements belong to this client's session, and their cost to
    /// its meter.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue {
            client: self.client.clone(),
            config: Arc::clone(&self.config),
            layouts: Arc::clone(&self.layouts),
            verified: Arc::clone(&self.verified),
        }
    }
}
