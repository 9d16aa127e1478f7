//! Arbitrary events in any order.

use super::*;
use crate::fake::answer;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Visit(u8),
    Leave(u8),
    End(u8, u64),
    Absent(u8, u64),
    Fail(u8),
    TimeOut(u8),
    Refuse(u8),
    Pass(u64),
    /// The wall clock is set back.
    Back(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0u8..6).prop_map(Event::Visit),
        2 => (0u8..12).prop_map(Event::Leave),
        3 => (0u8..8, 0u64..9).prop_map(|(at, rev)| Event::End(at, rev)),
        1 => (0u8..8, 0u64..9).prop_map(|(at, rev)| Event::Absent(at, rev)),
        1 => (0u8..8).prop_map(Event::Fail),
        1 => (0u8..8).prop_map(Event::TimeOut),
        1 => (0u8..8).prop_map(Event::Refuse),
        2 => (0u64..7_000).prop_map(Event::Pass),
        1 => (0u64..9_000).prop_map(Event::Back),
    ];
    prop::collection::vec(event, 0..120)
}

proptest! {
    /// With arbitrary events in any order, each waiter that stays is answered exactly once, at the latest by
    /// the tick after the timeout, and no other stream is.
    #[test]
    fn waiter_when_events_are_random_is_answered_exactly_once(events in events()) {
        let mut world = World::new();
        let mut waiting: Vec<StreamId> = Vec::new();
        let mut sent: Vec<(Token, String)> = Vec::new();
        let answered = |waiting: &mut Vec<StreamId>, resumed: &Resumed| {
            for waiter in &resumed.waiters {
                let at = waiting.iter().position(|each| *each == waiter.stream);
                waiting.remove(at.expect("a waiter"));
            }
        };
        for event in events {
            let pick = |at: u8, of: usize| usize::from(at) % of.max(1);
            let mut ended = None;
            match event {
                Event::Visit(code) => {
                    let (became, token) = world.visit_and_send(&format!("/c{code}"));
                    if let Waiting(stream) = became { waiting.push(stream); }
                    if let Some(token) = token { sent.push((token, format!("go.example/c{code}"))); }
                }
                Event::Leave(at) if !waiting.is_empty() => {
                    let stream = waiting.remove(pick(at, waiting.len()));
                    world.edge.on_stream_end(stream);
                }
                Event::End(at, rev) if !sent.is_empty() => {
                    let (token, key) = sent.remove(pick(at, sent.len()));
                    ended = Some((token, answer(&key, link("https://e/", rev)), "200"));
                }
                Event::Absent(at, rev) if !sent.is_empty() => {
                    let (token, key) = sent.remove(pick(at, sent.len()));
                    ended = Some((token, answer(&key, Record::Absent { rev }), "404"));
                }
                Event::Fail(at) if !sent.is_empty() => {
                    ended = Some((sent.remove(pick(at, sent.len())).0, Vec::new(), ""));
                }
                Event::TimeOut(at) if !sent.is_empty() => {
                    ended = Some((sent.remove(pick(at, sent.len())).0, Vec::new(), "504"));
                }
                Event::Refuse(code) => {
                    world.last_stream += 1;
                    let stream = world.last_stream;
                    let path = format!("/c{code}");
                    let callout = match world.request(stream, &get(&path)) {
                        Step::Wait(callout) => { waiting.push(stream); callout }
                        Step::Answer(_, callout) => callout,
                        Step::Hold(..) => unreachable!("no form"),
                        Step::Pass => None,
                    };
                    let refused = callout.map(|callout| world.edge.on_lookup_refused(&mut world.host, callout.flight));
                    for action in refused.unwrap_or_default() {
                        if let Action::Resume(resumed) = action {
                            answered(&mut waiting, &resumed);
                        }
                    }
                }
                Event::Back(millis) => world.wall -= millis,
                Event::Pass(millis) => {
                    for action in world.tick(millis) {
                        if let Action::Resume(resumed) = action {
                            answered(&mut waiting, &resumed);
                        }
                    }
                }
                _ => {}
            }
            if let Some((token, body, status)) = ended {
                let response = Response {
                    status: status.as_bytes(),
                    content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
                    body: &body,
                };
                let now = Moment::from_millis(world.now);
                for action in world.edge.on_callout_end(&mut world.host, token, response, now) {
                    if let Action::Resume(resumed) = action {
                        answered(&mut waiting, &resumed);
                    }
                }
            }
            prop_assert!(waiting.len() <= 7, "the bound of waiters");
        }
        for action in world.tick(10_000) {
            if let Action::Resume(resumed) = action {
                answered(&mut waiting, &resumed);
            }
        }
        prop_assert!(waiting.is_empty());
    }
}
