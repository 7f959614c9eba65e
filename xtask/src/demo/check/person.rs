//! Signs in with the identity provider, and reads the traces of the mapped role.

use anyhow::Result;
use serde_json::json;

use super::{DemoUnderTest, Findings};
use crate::demo::company::{Company, PERSON, access_of};
use crate::demo::demo_users::PAYMENTS_ON_CALL;

/// Requests each landmark as the person: found if their colleague with the same role sees it, otherwise as if it did not exist.
pub fn traces_of_a_mapped_role(subject: &DemoUnderTest<'_>, findings: &mut Findings) -> Result<()> {
    let (Some(company), Some((colleague, _))) = (subject.company, Company::colleague()) else {
        return Ok(());
    };
    let signed_in = company.sign_in(subject.base, subject.anonymous);
    let Some(client) = findings.take(signed_in, || format!("sign-in of {PERSON}"))? else { return Ok(()) };
    let access = access_of(&client)?;
    let expected = json!({"roles": [PAYMENTS_ON_CALL.name], "attributes": {"team": "payments"}});
    findings.assert(access == expected, || format!("{PERSON} has {access}, must have {expected}"));
    for landmark in &subject.expectations.landmarks {
        let status = client.send("GET", &format!("/traces/{}", landmark.id), None, None)?.status;
        let expected = if landmark.visible.get(colleague).copied().unwrap_or_default() { 200 } else { 404 };
        findings.assert(status == expected, || {
            format!("{PERSON}, trace `{}`: status {status}, must be {expected}", landmark.name)
        });
    }
    Ok(())
}
