//! Binding, marking of fields and roles, and the conflicts between them.

use crate::support::*;
use tracewarden_model::{Binding, Clock as _, LogicalType};
use tracewarden_service::*;

on_both_databases!(checks_are_repeated_after_a_concurrent_change);

fn version(version: u64) -> Option<IfMatch> {
    Some(IfMatch::Versions(vec![version]))
}

#[tokio::test]
async fn a_binding_is_checked_and_versioned() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let source = fixture.service.source();
    let bind = |binding, if_match| source.put_binding(&administrator, binding, if_match);
    assert_eq!(fixture.service.source().access_model(&administrator).await.unwrap().model.version, 0);
    for database in ["system", "INFORMATION_SCHEMA"] {
        let binding = Binding { database: database.to_owned(), ..otel_binding() };
        assert_eq!(pointers(bind(binding, None).await)[0].0, "/database");
    }
    let binding = Binding { trace_id: "Blob".to_owned(), ..otel_binding() };
    assert_eq!(pointers(bind(binding, None).await)[0].0, "/trace_id");
    let bound = bind(otel_binding(), None).await.unwrap();
    assert_eq!((bound.current.model.version, bound.current.model.binding), (1, Some(otel_binding())));
    assert_eq!(code(bind(otel_binding(), None).await), "precondition_required");
    assert_eq!(code(bind(otel_binding(), version(0)).await), "precondition_failed");
    let same = bind(otel_binding(), version(1)).await.unwrap().current;
    assert_eq!((same.version, same.model.version), (2, 1), "binding the same table again makes no change");
    let mut binding = otel_binding();
    binding.display.service = Some("ServiceName".to_owned());
    let other = bind(binding, version(1)).await.unwrap().current;
    assert_eq!((other.version, other.model.version), (3, 2));
}

#[tokio::test]
async fn fields_are_resolved_or_refused_with_a_pointer() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let source = fixture.service.source();
    let put = |marks, if_match| source.put_fields(&administrator, marks, if_match);
    assert_eq!(code(put(vec![], None).await), "precondition_required");
    assert_eq!(code(put(vec![], version(0)).await), "not_bound");
    fixture.service.source().put_binding(&administrator, otel_binding(), None).await.unwrap();
    assert_eq!(code(put(vec![], version(0)).await), "precondition_failed");

    let typed = |mark: FieldMark, logical| FieldMark { logical: Some(logical), ..mark };
    let wrong = vec![
        mark(None, "ServiceNam", true, true),
        mark(Some("SpanAttribute"), "a", true, false),
        mark(None, "Duration", true, true),
        mark(None, "SpanAttributes", true, false),
        mark(Some("ServiceName"), "a", true, false),
        mark(None, "Blob", true, false),
        typed(mark(None, "ServiceName", true, false), LogicalType::Number),
        mark(Some("SpanAttributes"), "a", true, false),
        mark(Some("SpanAttributes"), "a", false, true),
        mark(None, "SpanId", false, false),
        mark(Some("SpanAttributes"), "", true, false),
    ];
    let error = put(wrong.clone(), version(1)).await.unwrap_err();
    let detail = error.errors()[0].detail.clone();
    assert!(detail.contains("did you mean `ServiceName`"), "{detail}");
    let expected = [
        ("/fields/0/name", "unknown_field"),
        ("/fields/1/map", "unknown_field"),
        ("/fields/2/policy", "invalid_value"),
        ("/fields/3/name", "invalid_value"),
        ("/fields/4/map", "invalid_value"),
        ("/fields/5/name", "invalid_value"),
        ("/fields/6/type", "invalid_value"),
        ("/fields/8/name", "invalid_value"),
        ("/fields/9/filterable", "invalid_value"),
        ("/fields/10/name", "invalid_value"),
    ];
    let seen = pointers(put(wrong, version(1)).await);
    let seen: Vec<_> = seen.iter().map(|(pointer, code)| (pointer.as_str(), *code)).collect();
    assert_eq!(seen, expected);

    let key = |name: &str, logical| typed(mark(Some("SpanAttributes"), name, true, false), logical);
    let good = vec![
        mark(None, "ServiceName", true, true),
        mark(None, "Duration", true, false),
        mark(None, "Events.Name", true, true),
        mark(Some("SpanAttributes"), "a\"b", true, true),
        key("http.status_code", LogicalType::Number),
        key("flag", LogicalType::Boolean),
    ];
    let CurrentModel { version: all, model } = put(good, version(1)).await.unwrap();
    let types: Vec<_> = model.fields.iter().map(|field| field.logical.as_str()).collect();
    assert_eq!(types, ["string", "number", "string_array", "string", "number", "boolean"]);
    assert_eq!(model.fields[3].column_type.to_string(), "String", "the type of the map's values");
    assert_eq!((all, model.version), (3, 2));
    let record = fixture.last_audit(&admin).await;
    assert_eq!((record.action.as_str(), &record.detail["version"]), ("schema.put_fields", &3.into()));
}

#[tokio::test]
async fn model_changes_that_break_stored_policies_are_refused() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let roles = fixture.service.roles();
    let put_role = |policies| roles.put_role(&administrator, "tenant", policies, None);
    for bad in ["ServiceName ==", "Duration > 1", "SpanAttributes[\"other\"] == \"x\"", "\"text\"", ""] {
        let seen = pointers(put_role(vec![policy("true == true"), policy(bad)]).await);
        assert_eq!(seen[0], ("/policies/1/expression".to_owned(), "policy_invalid"), "{bad}");
    }
    assert_eq!(
        code(fixture.service.roles().role(&administrator, "tenant").await),
        "not_found",
        "nothing was stored"
    );
    let tenant = policy("SpanAttributes[\"tenant.id\"] == \"t1\"");
    let stored = put_role(vec![tenant.clone()]).await.unwrap();
    assert_eq!((stored.created, stored.revision, stored.policies.len()), (true, 2, 1));

    let without = vec![mark(None, "ServiceName", true, true)];
    let error =
        fixture.service.source().put_fields(&administrator, without.clone(), version(2)).await.unwrap_err();
    assert_eq!(error.code(), "conflict");
    assert!(error.detail().contains("role `tenant`, policy `a policy`"), "{}", error.detail());
    let mut other = otel_binding();
    fixture.store.set(|answers| answers.columns.retain(|(name, _)| name != "SpanAttributes"));
    other.display.service = Some("ServiceName".to_owned());
    let error = fixture.service.source().put_binding(&administrator, other, version(2)).await.unwrap_err();
    assert_eq!((error.code(), error.errors().len()), ("conflict", 1));
    assert_eq!(fixture.service.source().access_model(&administrator).await.unwrap().model.version, 2);

    fixture.service.roles().delete_role(&administrator, "tenant", None).await.unwrap();
    assert_eq!(
        fixture.service.source().put_fields(&administrator, without, version(2)).await.unwrap().model.version,
        3
    );
}

async fn checks_are_repeated_after_a_concurrent_change(database: DatabaseKind) {
    let fixture = fixture_on(database, Settings::default()).await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let tenant = vec![policy("SpanAttributes[\"tenant.id\"] == \"t1\"")];
    let (service, policies) = (&fixture.service, || tenant.clone());
    let (roles, source) = (service.roles(), service.source());

    // A role is stored while another replica removes its field from the model.
    let mut writer = fixture.other_writer().await;
    let put = roles.put_role(&administrator, "tenant", policies(), None);
    let meanwhile = async {
        writer.wait_for_waiting_writers(1).await;
        let mut model = writer.tx.access_model().await.unwrap();
        model.version += 1;
        model.fields.retain(|marked| marked.field.name != "tenant.id");
        writer.tx.insert_access_model(&model, fixture.clock.now(), ("usr_other", "other")).await.unwrap();
        writer.tx.commit().await.unwrap();
    };
    let (refused, ()) = futures::join!(put, meanwhile);
    assert_eq!(pointers(refused)[0], ("/policies/0/expression".to_owned(), "policy_invalid"));
    assert_eq!(code(service.roles().role(&administrator, "tenant").await), "not_found");

    // A field is removed from the model while another replica stores a role that names it.
    let marks =
        vec![mark(None, "ServiceName", true, true), mark(Some("SpanAttributes"), "tenant.id", false, true)];
    service.source().put_fields(&administrator, marks.clone(), version(3)).await.unwrap();
    let mut writer = fixture.other_writer().await;
    let put = source.put_fields(&administrator, marks[..1].to_vec(), version(4));
    let meanwhile = async {
        writer.wait_for_waiting_writers(1).await;
        writer.tx.put_role("tenant", &tenant, fixture.clock.now()).await.unwrap();
        writer.tx.commit().await.unwrap();
    };
    let (refused, ()) = futures::join!(put, meanwhile);
    assert_eq!(code(refused), "conflict");
    assert_eq!(service.source().access_model(&administrator).await.unwrap().model.version, 4);

    // A change of another replica that does not conflict: this one proceeds.
    let mut writer = fixture.other_writer().await;
    let more = marks.into_iter().chain([mark(None, "Duration", true, false)]).collect();
    let put = source.put_fields(&administrator, more, version(4));
    let meanwhile = async {
        writer.wait_for_waiting_writers(1).await;
        writer.tx.put_role("other", &tenant, fixture.clock.now()).await.unwrap();
        writer.tx.commit().await.unwrap();
    };
    let (done, ()) = futures::join!(put, meanwhile);
    assert_eq!(done.unwrap().model.version, 5);
}

#[tokio::test]
async fn roles_are_put_listed_and_deleted() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let administrator = admin.require_admin().unwrap();
    let service = &fixture.service;
    let pay = || vec![policy("ServiceName == \"pay\"")];
    for name in ["", "Te/am", "-a", "a b", &"a".repeat(65)] {
        assert_eq!(
            code(service.roles().put_role(&administrator, name, pay(), None).await),
            "invalid_value",
            "{name}"
        );
    }
    assert_eq!(
        pointers(service.roles().put_role(&administrator, "pay", vec![], None).await)[0].0,
        "/policies"
    );
    assert_eq!(
        code(service.roles().put_role(&administrator, "pay", pay(), version(1)).await),
        "precondition_failed"
    );
    service.roles().put_role(&administrator, "pay", pay(), None).await.unwrap();
    let stored = service.roles().put_role(&administrator, "pay", pay(), version(2)).await.unwrap();
    assert_eq!((stored.created, stored.revision), (false, 2), "storing the same role again makes no change");
    let other = vec![policy("ServiceName == \"cart\"")];
    service.roles().put_role(&administrator, "pay", other, version(2)).await.unwrap();
    let stored = service.roles().put_role(&administrator, "pay", pay(), version(3)).await.unwrap();
    assert_eq!((stored.created, stored.revision), (false, 4));
    assert_eq!(
        code(service.roles().put_role(&administrator, "pay", pay(), version(2)).await),
        "precondition_failed"
    );

    let user = fixture.user(&admin, "ada", &["pay"]).await;
    assert_eq!(service.roles().role(&administrator, "pay").await.unwrap().members, ["ada"]);
    let access = service.users().user_access(&administrator, "ada").await.unwrap();
    assert_eq!(access.roles[0].policies[0].expression, "ServiceName == \"pay\"");
    assert_eq!(
        code(service.roles().delete_role(&administrator, "pay", version(2)).await),
        "precondition_failed"
    );
    service.roles().delete_role(&administrator, "pay", version(4)).await.unwrap();
    assert_eq!(code(service.roles().delete_role(&administrator, "pay", None).await), "not_found");
    assert!(service.users().user(&administrator, "ada").await.unwrap().roles.is_empty());
    assert_eq!(code(service.roles().delete_role(&administrator, "admin", None).await), "conflict");
    service.roles().put_role(&administrator, "admin", vec![], None).await.unwrap();
    let names: Vec<_> =
        service.roles().list(&administrator).await.unwrap().into_iter().map(|role| role.name).collect();
    assert_eq!(names, ["admin"]);
    assert_eq!(code(user.require_admin()), "forbidden");

    let check =
        service.roles().check_policy(&administrator, "ServiceName == user.username", false).await.unwrap();
    assert_eq!((check.errors.len(), check.fields), (0, vec!["ServiceName".to_owned()]));
    assert!(check.predicate.unwrap().contains("ServiceName"));
    assert!(!service.roles().check_policy(&administrator, "nothing", false).await.unwrap().errors.is_empty());
}

#[tokio::test]
async fn only_administrators_see_policy_fields() {
    let fixture = fixture().await;
    let admin = fixture.admin().await;
    fixture.bind(&admin).await;
    let user = fixture.user(&admin, "ada", &[]).await;
    let schema = fixture.service.traces().filter_schema(&user).await.unwrap();
    let seen: Vec<_> = schema.fields.iter().map(|field| field.reference.as_str()).collect();
    assert_eq!((seen, schema.version), (vec!["ServiceName", "Duration"], 3));
    assert!(schema.fields.iter().all(|field| field.filterable.is_none() && field.policy.is_none()));
    let schema = fixture.service.traces().filter_schema(&admin).await.unwrap();
    let tenant = &schema.fields[1];
    assert_eq!(tenant.reference, "SpanAttributes[\"tenant.id\"]");
    assert_eq!((tenant.filterable, tenant.policy), (Some(false), Some(true)));
    assert_eq!(tenant.operators, None);
}

#[tokio::test]
async fn discovery_is_recorded_and_samples_can_be_disabled() {
    let settings = Settings { discovery_samples: false, ..Settings::default() };
    let fixture = fixture_with(settings).await;
    let admin = fixture.admin().await;
    let administrator = admin.require_admin().unwrap();
    let detail = fixture.service.source().table(&administrator, "otel", "otel_traces").await.unwrap();
    assert_eq!((detail.columns.len(), detail.sampled, detail.maps.len()), (9, false, 0));
    let record = fixture.last_audit(&admin).await;
    assert_eq!(record.target.as_deref(), Some("otel.otel_traces"));
    assert_eq!(fixture.store.lookups(), 0);
    assert_eq!(code(fixture.service.source().table(&administrator, "otel", "other").await), "not_found");
    assert_eq!(code(fixture.service.source().table(&administrator, "System", "users").await), "not_found");
}
