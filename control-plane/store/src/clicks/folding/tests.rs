use super::*;
use crate::{BatchHead, ClickReport};
use edgelink_settings::config::StoreConfig;
use edgelink_wire::clicks::{ClickBatch, encode};
use std::sync::Arc;

const KEPT: ClickRetention = ClickRetention {
    hours: 35,
    days: 730,
    raw: 30,
};

#[tokio::test]
async fn account_when_too_many_exist_is_folded_before_its_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("links.db").display());
    let store = crate::open_store(&StoreConfig::at(&url))
        .await
        .expect("a store");
    let now = 1_767_225_600_000;
    for number in 0..10 {
        let batch = ClickBatch {
            worker: [u8::try_from(number).expect("a number"); 16],
            seq: 1,
            total: 1,
            clicks: vec![("a.example/x", 1)],
            ..ClickBatch::default()
        };
        let at = now - number * 60 * 60 * 1000;
        let report = ClickReport {
            received_at: at,
            edge: Arc::default(),
            heads: vec![BatchHead::of(&batch)],
            body: encode(&[batch]).into(),
        };
        store.count_clicks(&[report]).await.expect("a commit");
    }
    let fold = async |most| store.fold_click_accounts(now, KEPT, (most, 100)).await;
    assert_eq!(fold(10).await.expect("folded"), 0);
    assert_eq!(fold(6).await.expect("folded"), 4);
    // Of 4 hours of edges, 1 is one too many, and so are 5 of workers.
    assert_eq!(fold(3).await.expect("folded"), 3 + 4);
    assert_eq!(fold(3).await.expect("folded"), 0);
    assert_eq!(store.click_accounts().await.expect("accounts").sent, 10);
}
