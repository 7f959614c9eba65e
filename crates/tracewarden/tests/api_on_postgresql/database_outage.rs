//! The PostgreSQL server of the application database accepts no connections.

use crate::every_operation::{Fixture, WITHOUT_DATABASE, operations};

#[tokio::test]
async fn without_its_database_nothing_is_shown_or_changed() {
    let fixture = Fixture::make(&[]).await;
    let all = operations(&fixture.service).await.into_iter();
    let (others, needing): (Vec<_>, Vec<_>) =
        all.partition(|each| WITHOUT_DATABASE.contains(&each.name().as_str()));
    assert_eq!(others.len(), WITHOUT_DATABASE.len());
    let prepared_requests = fixture.prepared_requests(needing).await;
    let before = fixture.stored_data().await;
    fixture.service.reject_connections();
    fixture.assert_unavailable(&prepared_requests).await;
    for operation in &others {
        fixture.perform(operation).await;
    }
    fixture.service.accept_connections();
    fixture.service.wait_until_ready().await;
    assert_eq!(fixture.stored_data().await, before);
    fixture.assert_successful(&prepared_requests).await;
}
