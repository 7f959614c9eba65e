//! The service uses only ClickHouse servers of supported versions. `cargo xtask soak clickhouse` runs this with an older one, too.

use crate::real_server::{server, settings};
use crate::support::Service;
use crate::support::store::binding;

#[tokio::test]
async fn only_supported_versions_are_served() {
    let server = server("<readonly>2</readonly>", 100);
    let version = server.run("SELECT version()").unwrap();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
    let is_supported = (numbers.next().unwrap(), numbers.next().unwrap()) >= (25, 8);
    println!("ClickHouse {version}");
    let service = Service::start_with(&settings(&server.url));
    let admin = service.admin().await;
    let ready = service.anonymous().get("/readyz").await;
    let bound = admin.put("/schema/binding", binding()).await;
    let output = service.command().arg("check-config").output().unwrap();
    let findings = String::from_utf8(output.stdout).unwrap();
    let finding = findings.lines().find(|line| line.contains("25.8 or newer"));
    if is_supported {
        assert_eq!((ready.status, bound.status, finding), (200, 200, None), "{bound:?}");
        return;
    }
    for (answer, status) in [(&ready, 503), (&bound, 422)] {
        assert_eq!(answer.status, status, "{answer:?}");
        let text = answer.body.to_string();
        assert!(text.contains("25.8"), "{text}");
    }
    admin.get("/schema").await.problem(409, "not_bound");
    assert!(finding.is_some_and(|line| line.starts_with("error")), "{findings}");
}
