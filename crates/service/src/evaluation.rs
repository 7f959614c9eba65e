//! What a policy says about spans that an administrator sends: for trying one out before it is stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{self as policy, Span, Verdict};

use crate::error::{FieldError, ServiceError};
use crate::principal::Administrator;
use crate::service::Service;
use crate::validate;

/// Most spans of one request.
pub const EVALUATED_SPANS_MAX: usize = 1_000;

/// A request whose answer is awaited; when it is dropped, nobody waits any more.
pub(crate) struct Asked(pub(crate) Arc<AtomicBool>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Service {
    /// Evaluates a policy on spans for a user who need not exist. `spans` reads them for the access model in force. No
    /// data of the trace store is looked at.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with `policy_invalid` for the expression, for an attribute that no user can have, or
    /// with what `spans` refuses; or a failure of the own database.
    pub async fn evaluate_policy(
        &self,
        _admin: &Administrator<'_>,
        expression: String,
        user: Caller,
        spans: impl FnOnce(&AccessModel) -> Result<Vec<Span>, Vec<FieldError>> + Send + 'static,
    ) -> Result<Vec<Verdict>, ServiceError> {
        let mut errors = Vec::new();
        validate::attributes(&user.attributes, &mut errors);
        for error in &mut errors {
            error.pointer.insert_str(0, "/user");
        }
        validate::no_errors(errors)?;
        let model = self.db().access_model().await?;
        let asked = Asked(Arc::default());
        let stopped = Arc::clone(&asked.0);
        let evaluated = self.examining().run(move || {
            let refused = |diagnostics: Vec<_>| {
                diagnostics.into_iter().map(|found| FieldError::policy("/expression", found)).collect()
            };
            // What is wrong with the policy comes first: which fields of the spans count depends on it.
            policy::check(&expression, &model).map_err(refused)?;
            policy::explain(&expression, &model, &user, &spans(&model)?, &stopped).map_err(refused)
        });
        evaluated.await?.map_err(ServiceError::Refused)
    }
}
