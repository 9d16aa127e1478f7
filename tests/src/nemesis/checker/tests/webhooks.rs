//! Messages to a webhook.

use super::*;

impl Story {
    fn subscribed(mut self) -> Self {
        self.add(500, What::Subscribed);
        self
    }

    fn told(self, event: &str, id: &str, value: Option<Value>) -> Self {
        self.message(event, id, (value, &format!("of {id}")), true, 204)
    }

    fn message(
        mut self,
        event: &str,
        id: &str,
        (value, digest): (Option<Value>, &str),
        is_signed: bool,
        status: u16,
    ) -> Self {
        let delivered = What::Delivered {
            id: id.to_owned(),
            event: event.to_owned(),
            code: "x".to_owned(),
            value,
            digest: digest.to_owned(),
            is_signed,
            status,
        };
        self.add(80_000, delivered);
        self
    }
}

fn subscribed() -> Story {
    created().subscribed()
}

#[test]
fn change_when_acknowledged_is_sent_to_webhook() {
    let story = || {
        subscribed()
            .write("change", Target(2), 2000, 2010)
            .write("delete", Absent, 3000, 3010)
    };
    let told = story().told("link.created", "a", Some(Target(1))).told(
        "link.changed",
        "b",
        Some(Target(2)),
    );
    assert_eq!(told.breaks(), [Promise::WebhooksTold]);
    let told = story()
        .told("link.created", "a", Some(Target(1)))
        .told("link.changed", "b", Some(Target(2)))
        .told("link.deleted", "c", Some(Target(2)));
    assert_eq!(told.breaks(), []);
    let otherwise = story()
        .told("link.created", "a", Some(Target(1)))
        .told("link.changed", "b", Some(Target(1)))
        .told("link.deleted", "c", Some(Target(2)));
    assert_eq!(otherwise.breaks(), [Promise::WebhooksTold]);
}

#[test]
fn change_when_unacknowledged_or_early_is_not_required() {
    assert_eq!(created().breaks(), []);
    let story = Story::default()
        .write("create", Target(1), 100, 200)
        .subscribed()
        .unknown("change", Target(2), 2000, 2010);
    assert_eq!(story.breaks(), []);
}

#[test]
fn message_when_refused_is_sent_again() {
    let refused = |story: Story| {
        let content = (Some(Target(1)), "of a");
        story.message("link.created", "a", content, true, 500)
    };
    assert_eq!(refused(subscribed()).breaks(), [Promise::WebhooksTold]);
    let again = refused(subscribed()).told("link.created", "a", Some(Target(1)));
    assert_eq!(again.breaks(), []);
}

#[test]
fn changes_when_equal_are_sent_with_two_ids() {
    let story = || {
        subscribed()
            .told("link.created", "a", Some(Target(1)))
            .write("disable", Disabled, 2000, 2010)
            .write("enable", Target(1), 3000, 3010)
            .told("link.changed", "b", Some(Target(1)))
            .write("disable", Disabled, 4000, 4010)
            .told("link.changed", "c", Some(Disabled))
    };
    let once = story().told("link.changed", "c", Some(Disabled));
    assert_eq!(once.breaks(), [Promise::WebhooksTold]);
    let twice = story().told("link.changed", "d", Some(Disabled));
    assert_eq!(twice.breaks(), []);
}

#[test]
fn message_when_sent_again_is_signed_and_keeps_its_id() {
    let told = || subscribed().told("link.created", "a", Some(Target(1)));
    let content = || (Some(Target(1)), "of a");
    let unsigned = told().message("link.created", "a", content(), false, 204);
    assert_eq!(unsigned.breaks(), [Promise::WebhooksTold]);
    let renamed = told().message("link.created", "b", content(), true, 204);
    assert_eq!(renamed.breaks(), [Promise::WebhooksTold]);
    let other = (Some(Target(1)), "of another");
    let reused = told().message("link.created", "a", other, true, 204);
    assert_eq!(reused.breaks(), [Promise::WebhooksTold]);
}

#[test]
fn database_when_restored_may_forget_later_messages() {
    let story = |to| {
        subscribed()
            .told("link.created", "a", Some(Target(1)))
            .copied(5000, 5100)
            .write("change", Target(2), to - 10, to)
            .restored(20_000, 22_000)
    };
    assert_eq!(story(10_010).breaks(), []);
    assert_eq!(story(4999).breaks(), [Promise::WebhooksTold]);
    assert_eq!(story(30_000).breaks(), [Promise::WebhooksTold]);
}

#[test]
fn limit_when_reached_is_sent_to_webhook() {
    let story = || {
        Story::default()
            .subscribed()
            .limit(3, 1000, 1010)
            .visits(3, 2000)
            .count(3, 0, 3000)
    };
    let told = || story().told("link.limit-reached", "a", Some(Target(1)));
    assert_eq!(story().breaks(), [Promise::WebhooksTold]);
    assert_eq!(told().breaks(), []);
    let raised = || told().limit(5, 4000, 4010).visits(2, 5000);
    assert_eq!(raised().breaks(), []);
    let again = || raised().count(5, 0, 6000);
    assert_eq!(again().breaks(), [Promise::WebhooksTold]);
    let both = again().told("link.limit-reached", "b", Some(Target(1)));
    assert_eq!(both.breaks(), []);
}
