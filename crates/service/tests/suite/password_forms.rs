//! Passwords in Unicode's normal forms: composed and decomposed input is one password, and hashes of either form stay valid.

use crate::support::*;
use secrecy::ExposeSecret as _;
use tracewarden_service::*;

/// The same text with every combined character decomposed, as some keyboards and systems type it.
const COMPOSED: &str = "gr\u{fc}ne W\u{f6}lkchen \u{fc}ber K\u{f6}ln 7";
const DECOMPOSED: &str = "gru\u{308}ne Wo\u{308}lkchen u\u{308}ber Ko\u{308}ln 7";

/// Hashes these bytes unchanged, as earlier versions and other programs do.
fn hash_as_typed(password: &str) -> String {
    use argon2::password_hash::PasswordHasher as _;
    let params = argon2::Params::new(19_456, 2, 1, None).unwrap();
    let hasher = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    hasher.hash_password_with_salt(password.as_bytes(), b"sixteen salt byt").unwrap().to_string()
}

#[tokio::test]
async fn a_password_matches_in_any_unicode_form() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    for (number, set) in [COMPOSED, DECOMPOSED].into_iter().enumerate() {
        let name = format!("user{number}");
        let new = NewUser { username: name.clone(), ..NewUser::default() };
        let created =
            fixture.service.users().create_user(&admin.require_admin().unwrap(), new).await.unwrap();
        fixture
            .replace_initial_password(&name, created.initial_password.as_ref().unwrap().expose_secret(), set)
            .await;
        for typed in [COMPOSED, DECOMPOSED] {
            fixture.sign_in(&name, typed).await.unwrap();
            assert_eq!(fixture.last_audit(&admin).await.detail["password_hash_renewed"], false);
        }
        assert_eq!(
            code(fixture.sign_in(&name, "gr\u{fc}ne Wolkchen \u{fc}ber K\u{f6}ln 7").await),
            "invalid_credentials"
        );
        // Another form of the same text is not a new password.
        let session = fixture.sign_in(&name, COMPOSED).await.unwrap();
        let principal = fixture.principal(&session).await;
        let (old, new) = (COMPOSED.to_owned().into(), DECOMPOSED.to_owned().into());
        let refused = fixture.service.account().change_password(&principal, old, new).await;
        assert_eq!(pointers(refused), [("/new_password".to_owned(), "password_rejected")]);
        let (old, new) = (DECOMPOSED.to_owned().into(), "another rather long sentence".to_owned().into());
        fixture.service.account().change_password(&principal, old, new).await.unwrap();
    }
}

#[tokio::test]
async fn a_hash_of_another_unicode_form_stays_valid_and_is_renewed() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let hash = hash_as_typed(DECOMPOSED);
    let settings = AdminSettings { username: "admin".to_owned(), password_hash: Some(hash) };
    fixture.service.bootstrap(settings, accept_password).await.unwrap();
    assert_eq!(
        code(fixture.sign_in("admin", COMPOSED).await),
        "invalid_credentials",
        "not the hashed password"
    );
    for (typed, renewed) in [(DECOMPOSED, true), (DECOMPOSED, false), (COMPOSED, false)] {
        fixture.sign_in("admin", typed).await.unwrap();
        let records = fixture
            .db
            .begin_read()
            .await
            .unwrap()
            .audit_records(&tracewarden_appdb::AuditFilter::default(), 1)
            .await;
        let detail: serde_json::Value = serde_json::from_str(&records.unwrap()[0].detail).unwrap();
        assert_eq!(detail["password_hash_renewed"], renewed, "{typed:?}");
    }
    drop(admin);
}

#[tokio::test]
async fn a_password_for_the_configuration_is_hashed_in_its_normal_form() {
    let fixture = fixture().await;
    fixture.admin().await;
    struct FixedEntropy;
    impl tracewarden_model::Entropy for FixedEntropy {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), tracewarden_model::ambient::EntropyError> {
            bytes.fill(9);
            Ok(())
        }
    }
    let hash =
        |password: &str| hash_password_phc(password, None, &Settings::default(), &FixedEntropy).unwrap();
    assert_eq!(hash(COMPOSED), hash(DECOMPOSED));
    let settings = AdminSettings { username: "admin".to_owned(), password_hash: Some(hash(DECOMPOSED)) };
    fixture.service.bootstrap(settings, accept_password).await.unwrap();
    fixture.sign_in("admin", COMPOSED).await.unwrap();
    fixture.sign_in("admin", DECOMPOSED).await.unwrap();
}
