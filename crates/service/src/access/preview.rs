//! Preview: an administrator temporarily reads traces with the roles and attributes of another user. It is stored in the
//! session's row and ends with the session or with the role `admin`. A preview of a user follows that user: each request
//! reads the user's access, as it does for callers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tracewarden_appdb::{Preview, Session, User};
use tracewarden_model::AttributeValue;

use crate::access::Account;
use crate::core::{Administrator, Me, Result, SessionOnly, audit_detail, find_user, validate};

/// Request for a preview.
#[derive(Debug, Clone)]
pub enum PreviewRequest {
    /// Preview of these roles and attributes.
    RolesAndAttributes {
        /// Roles that exist.
        roles: BTreeSet<String>,
        /// Attributes; none when absent.
        attributes: Option<BTreeMap<String, AttributeValue>>,
    },
    /// Preview of this user, with the roles and attributes that the user has at each request.
    User(String),
}

impl Account {
    /// Begins a preview in the caller's session.
    ///
    /// # Errors
    /// `ServiceError::SessionRequired` if the caller uses an API key, `unknown_role`, `ServiceError::NotFound` for an
    /// unknown user.
    pub async fn set_preview(&self, admin: &Administrator<'_>, request: PreviewRequest) -> Result<Me> {
        const ACTION: &str = SessionOnly::BeginPreview.action();
        let result = async {
            let session = admin.require_session()?;
            let mut tx = self.core.begin_change(admin).await?;
            let preview = match request {
                PreviewRequest::RolesAndAttributes { roles, attributes } => {
                    let attributes = attributes.unwrap_or_default();
                    let mut errors = Vec::new();
                    let roles = validate::roles(&mut tx, roles, &mut errors).await?;
                    validate::attributes(&attributes, &mut errors);
                    validate::no_errors(errors)?;
                    Preview { roles, attributes, ..Preview::default() }
                }
                PreviewRequest::User(name) => {
                    let User { id, username, .. } = find_user(&mut tx, &name).await?;
                    Preview { username: Some(username), user_id: Some(id), ..Preview::default() }
                }
            };
            tx.set_session_preview(&session.id, Some(&preview)).await?;
            let session = Session { preview: Some(preview), ..session.clone() };
            let preview = self.core.refresh_preview(&mut tx, session).await?.preview.unwrap_or_default();
            let detail = json!({ "roles": preview.roles, "attributes": audit_detail::attributes(&preview.attributes) });
            self.core.commit_change(tx, admin, ACTION, preview.username.as_deref(), detail).await?;
            Ok(Me { preview: Some(preview.into()), ..admin.me() })
        };
        self.core.audit_denial(admin, ACTION, None, result.await).await
    }

    /// Ends the preview of the caller's session, if there is one.
    ///
    /// # Errors
    /// `ServiceError::SessionRequired` if the caller uses an API key, or a failure of the application database.
    pub async fn clear_preview(&self, admin: &Administrator<'_>) -> Result<()> {
        let result = async {
            let session = admin.require_session()?;
            if session.preview.is_some() {
                let mut tx = self.core.begin_change(admin).await?;
                tx.set_session_preview(&session.id, None).await?;
                self.core.commit_change(tx, admin, SessionOnly::EndPreview.action(), None, json!({})).await?;
            }
            Ok(())
        };
        self.core.audit_denial(admin, SessionOnly::EndPreview.action(), None, result.await).await
    }
}
