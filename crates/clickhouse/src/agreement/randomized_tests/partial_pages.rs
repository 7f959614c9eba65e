//! Pages of which a caller takes only the first traces: the next page continues after these.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Query;
use crate::ClickHouse;

const LIMIT: u32 = 8;

/// Pages that are cut anywhere after their first trace list every trace once.
pub(super) async fn check_partial_pages(store: &ClickHouse, query: &Query<'_>, expected: &[String]) {
    // With a random generator of its own, so that a seed still creates the same data sets.
    let mut random = ChaCha8Rng::seed_from_u64(expected.len() as u64);
    let Query { filter, window, .. } = *query;
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let request = query.request(LIMIT, after);
        let page = store.select(request).await.unwrap();
        assert_eq!(page.position(page.len()), None);
        let Some(last) = page.len().checked_sub(1) else { break };
        assert!(page.next().is_none_or(|next| page.position(last) == Some(next)));
        let last = random.random_range(0..=last);
        ids.extend(page.trace_ids().take(last + 1).map(str::to_owned));
        after = page.position(last).cloned();
    }
    assert_eq!(ids, expected, "{filter:?}, {window:?}");
}
