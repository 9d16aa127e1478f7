//! Connections to which anything may happen at any time.

use super::tests::settings;
use super::*;
use crate::resp::encode;
use proptest::prelude::*;
use std::collections::VecDeque;

/// An event on a connection.
#[derive(Clone, Debug)]
enum Step {
    Request,
    Flush,
    /// The server answers that many of its requests.
    Answer(usize),
    /// The given number of bytes written by the server arrives.
    Arrive(usize),
    Pass(u64),
    Close,
    Garbage(Vec<u8>),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Request),
        8 => Just(Step::Flush),
        6 => (1_usize..4).prop_map(Step::Answer),
        10 => (1_usize..20).prop_map(Step::Arrive),
        4 => (1_u64..120).prop_map(Step::Pass),
        1 => Just(Step::Close),
        1 => prop::collection::vec(any::<u8>(), 1..10).prop_map(Step::Garbage),
    ]
}

/// The requested numbers; none in a handshake.
fn numbers(bytes: &[u8]) -> Vec<u32> {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines = text.split("\r\n").filter(|_| text.starts_with('$'));
    lines.filter_map(|line| line.parse().ok()).collect()
}

proptest! {
    #[test]
    fn request_when_events_are_random_gets_its_own_answer_once(
        steps in prop::collection::vec(any_step(), 1..200),
        max_batch in 1_usize..4,
        is_flushed: bool,
    ) {
        let mut client = Client::new(ClientSettings { max_batch, is_flushed, ..settings() }, 7);
        let (mut now_millis, mut next, mut accepted, mut is_clean) = (0, 0, Vec::new(), true);
        let (mut asked, mut wire) = (VecDeque::<u32>::new(), Vec::new());
        let mut answered = Vec::new();
        let (mut sent, mut reopened) = (Vec::new(), false);
        for step in steps {
            let mut emit = |output: Output<'_, u32>| match output {
                Output::OpenStream => reopened = true,
                Output::Send(bytes) => sent.extend(numbers(bytes)),
                Output::Deliver(token, result) => {
                    answered.push((token, result.ok().and_then(Reply::bulk).map(<[u8]>::to_vec)));
                }
                _ => {}
            };
            match step {
                Step::Request => {
                    let write = |out: &mut Vec<u8>| encode::number(u64::from(next), out);
                    if client.request(now_millis, next, write, &mut emit).is_ok() {
                        accepted.push(next);
                    }
                    next += 1;
                }
                Step::Flush => client.flush(&mut emit),
                Step::Answer(count) => {
                    for token in asked.drain(..count.min(asked.len())) {
                        encode::argument(token.to_string().as_bytes(), &mut wire);
                    }
                }
                Step::Arrive(count) => {
                    let bytes: Vec<_> = wire.drain(..count.min(wire.len())).collect();
                    client.on_data(now_millis, &bytes, &mut emit);
                }
                Step::Pass(ms) => {
                    now_millis += ms;
                    client.on_tick(now_millis, &mut emit);
                }
                Step::Close => client.on_closed(now_millis, &mut emit),
                Step::Garbage(bytes) => {
                    is_clean = false;
                    client.on_data(now_millis, &bytes, &mut emit);
                }
            }
            asked.extend(sent.drain(..));
            if std::mem::take(&mut reopened) {
                asked.clear();
                wire = b"+OK\r\n".to_vec();
            }
        }
        client.on_closed(now_millis, &mut |output| {
            if let Output::Deliver(token, _) = output {
                answered.push((token, None));
            }
        });
        let mut tokens: Vec<_> = answered.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, accepted);
        for (token, answer) in answered {
            // Garbage may look like an answer; only the order assigns it to a request.
            if let (true, Some(answer)) = (is_clean, answer) {
                prop_assert_eq!(answer, token.to_string().into_bytes());
            }
        }
    }

    #[test]
    fn client_when_given_arbitrary_bytes_does_not_panic(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
    ) {
        let mut client = Client::new(settings(), 7);
        for (at, chunk) in (0_u64..).zip(chunks) {
            client.on_tick(at * 60, &mut |_| {});
            let _ = client.request(at * 60, 1, |out| encode::words(&[b"PING"], out), &mut |_| {});
            client.on_data(at * 60, &chunk, &mut |_| {});
        }
    }
}
