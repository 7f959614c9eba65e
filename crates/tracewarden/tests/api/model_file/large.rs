//! Files of the maximum size.

use super::*;

#[tokio::test]
async fn too_many_tests_are_rejected_with_their_position() {
    let store = Store::start();
    let service = store.service();
    let admin = service.admin().await;
    let mut file = model_with_tests();
    let user = |number: usize| json!({"username": format!("user{number}")});
    file["users"].as_array_mut().unwrap().extend((1..2_001).map(user));
    let plan = admin.post("/schema/plan?seconds=0", file.clone()).await.expect(200).body;
    assert_eq!(plan["tests"]["failed"][0]["name"], "cannot be run: /users", "{}", plan["tests"]);
    let refused = import(&admin, &file).await.problem(422, "invalid_value");
    let error = (&refused.first_error()["pointer"], &refused.first_error()["detail"]);
    assert_eq!(error, (&json!("/users"), &json!("at most 2000 users, and there are 2001")));
    file["users"].as_array_mut().unwrap().pop();
    import(&admin, &file).await.expect(200);

    let spans = vec![json!({"SpanAttributes": {"team": "red"}}); 20_000];
    file["tests"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "many", "user": "ada", "spans": spans, "visible": true}));
    let refused = import(&admin, &file).await.problem(422, "invalid_value");
    let error = (&refused.first_error()["pointer"], &refused.first_error()["detail"]);
    assert_eq!(error, (&json!("/tests/1/spans"), &json!("at most 20000 spans in all, and there are 20001")));
}

/// Sends enough files at once to keep every request thread busy.
#[tokio::test]
async fn large_files_do_not_delay_other_requests() {
    let service = Service::start();
    let admin = service.admin().await;
    // The error is at the end, so the whole file is read before it is rejected.
    let text = format!(
        "binding: null\nfields: []\nroles: []\ntraces:\n{}nothing: 1\n",
        "  - {name: a, spans: [{a: b, c: d}]}\n".repeat(20_000)
    );
    let threads = std::thread::available_parallelism().unwrap().get();
    let send = || {
        let (admin, text) = (admin.clone(), text.clone());
        tokio::spawn(async move {
            let path = "/schema/plan?seconds=0";
            send(&admin, Method::POST, path, "application/yaml", &text).await.problem(400, "invalid_request");
        })
    };
    // Twice as many files as there are request threads.
    let files: Vec<_> = (0..2 * threads).map(|_| send()).collect();
    let mut others = 0;
    while !files.iter().all(tokio::task::JoinHandle::is_finished) {
        admin.get("/me").await.expect(200);
        others += 1;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    for file in files {
        file.await.unwrap();
    }
    // If the files were parsed on request threads, only one or two other requests would be answered meanwhile.
    println!("{others} other requests were answered in the meantime");
    assert!(others > 10, "only {others} other requests were answered while files were parsed");
}

#[tokio::test]
async fn two_hundred_roles_are_planned_and_applied() {
    let store = Store::start();
    let (_service, admin) = bound_service(&store, &[]).await;
    let (mut file, _) = export(&admin).await;
    let role = |number: usize| {
        let policy = |at: usize| {
            json!({"title": format!("Policy {at}"),
            "expression": format!("SpanAttributes[\"team\"] == \"team-{number}-{at}\" && ServiceName != user.attributes.service")})
        };
        json!({"name": format!("role-{number}"), "policies": (0..5).map(policy).collect::<Vec<_>>()})
    };
    file["roles"] = (0..200).map(role).collect();
    let begun = std::time::Instant::now();
    let plan = admin.post("/schema/plan", file.clone()).await.expect(200).body;
    let planned = begun.elapsed();
    assert_eq!(plan["changes"].as_array().unwrap().len(), 200);
    import(&admin, &file).await.expect(200);
    println!("plan {planned:?}, import {:?}", begun.elapsed() - planned);
    let plan = admin.post("/schema/plan", file).await.expect(200).body;
    assert_eq!(plan["empty"], true);
    assert_eq!(export(&admin).await.0["roles"].as_array().unwrap().len(), 201);
}
