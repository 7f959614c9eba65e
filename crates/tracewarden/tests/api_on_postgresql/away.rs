//! The PostgreSQL server of the application database accepts no connections.

use crate::every_operation::{WITHOUT_DATABASE, World, operations};

#[tokio::test]
async fn without_its_database_nothing_is_shown_or_changed() {
    let world = World::make(&[]).await;
    let all = operations(&world.service).await.into_iter();
    let (others, needing): (Vec<_>, Vec<_>) =
        all.partition(|each| WITHOUT_DATABASE.contains(&each.name().as_str()));
    assert_eq!(others.len(), WITHOUT_DATABASE.len());
    let asking = world.asking(needing).await;
    let before = world.kept().await;
    world.service.shut_out();
    world.are_unavailable(&asking).await;
    for operation in &others {
        world.perform(operation).await;
    }
    world.service.let_in();
    world.service.comes_back().await;
    assert_eq!(world.kept().await, before);
    world.succeed(&asking).await;
}
