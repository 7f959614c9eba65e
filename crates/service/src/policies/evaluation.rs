//! Evaluation of a policy on spans that an administrator sends, to test it before it is stored.

use std::sync::Arc;

use tracewarden_model::{AccessModel, Caller};
use tracewarden_policy::{self as policy, Span, Verdict};

use crate::core::{Administrator, CancelOnDrop, Core, FieldError, Result, ServiceError, validate};

/// Maximum number of spans in a request.
pub const EVALUATED_SPANS_MAX: usize = 1_000;

/// Evaluation of policies and advice about them.
#[derive(Clone)]
pub struct Policies {
    pub(crate) core: Arc<Core>,
}

impl Policies {
    /// Evaluates a policy on spans for a user who need not exist. `spans` parses the spans for the current access model.
    /// Reads no data from ClickHouse.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] with `policy_invalid` for the expression, for an attribute that no user can have, or with
    /// the errors of `spans`; or a failure of the application database.
    pub async fn evaluate_policy(
        &self,
        _admin: &Administrator<'_>,
        expression: String,
        user: Caller,
        spans: impl FnOnce(&AccessModel) -> Result<Vec<Span>, Vec<FieldError>> + Send + 'static,
    ) -> Result<Vec<Verdict>> {
        let mut errors = Vec::new();
        validate::attributes(&user.attributes, &mut errors);
        for error in &mut errors {
            error.pointer.insert_str(0, "/user");
        }
        validate::no_errors(errors)?;
        let model = self.core.db.access_model().await?;
        let cancel = CancelOnDrop(Arc::default());
        let stopped = Arc::clone(&cancel.0);
        let evaluated = self.core.permits.analysis.run(move || {
            let refused = |diagnostics: Vec<_>| {
                diagnostics.into_iter().map(|found| FieldError::policy("/expression", found)).collect()
            };
            // The policy is checked first: it determines which fields of the spans are used.
            policy::check(&expression, &model).map_err(refused)?;
            policy::explain(&expression, &model, &user, &spans(&model)?, &stopped).map_err(refused)
        });
        evaluated.await?.map_err(ServiceError::Refused)
    }
}
