use super::*;
use crate::fake::hasher;

fn room_for(links: usize) -> KeyTallies {
    KeyTallies::new(links * (3 + LINK_BYTES), hasher())
}

#[test]
fn tally_when_taken_yields_summed_clicks_once() {
    let mut tally = room_for(2);
    tally.add(b"d/a", LinkClicks::plain(2));
    tally.add(b"d/a", LinkClicks::plain(3));
    tally.add(b"d/b", LinkClicks::plain(0));
    let taken = tally.take();
    assert_eq!(
        taken.clicks,
        [(b"d/a".to_vec().into_boxed_slice(), LinkClicks::plain(5))]
    );
    assert_eq!(tally.take(), Tallied::default());
}

#[test]
fn clicks_when_the_tally_is_full_are_counted_as_lost() {
    let mut tally = room_for(1);
    tally.add(b"d/a", LinkClicks::plain(1));
    tally.add(b"d/b", LinkClicks::plain(7));
    tally.add(b"d/a", LinkClicks::plain(1));
    let taken = tally.take();
    assert_eq!((taken.clicks.len(), taken.lost), (1, 7));
    tally.add(b"d/b", LinkClicks::plain(1));
    assert_eq!(tally.take().lost, 0, "there is room again");
}

#[test]
fn entry_when_its_count_is_full_passes_clicks_to_the_tally() {
    let (count, mut touched, mut tally) = (AtomicU16::new(0), Vec::new(), room_for(1));
    for _ in 0..70_000 {
        let entry = Some(EntryClicks {
            count: &count,
            slot: 4,
            touched: &mut touched,
        });
        let clicker = Clicker {
            entry,
            key: b"d/a",
            tally: &mut tally,
        };
        clicker.count(Counting::Plain);
    }
    assert_eq!((count.into_inner(), touched), (MAX_COUNT, vec![4]));
    let taken = tally.take().clicks;
    assert_eq!(
        taken.first().unwrap().1.count,
        70_000 - u64::from(MAX_COUNT)
    );
}

#[test]
fn clicks_when_too_many_entries_have_some_go_to_the_tally() {
    let mut tally = room_for(1);
    let (count, mut touched) = (AtomicU16::new(0), vec![0; MAX_TOUCHED]);
    let entry = Some(EntryClicks {
        count: &count,
        slot: 4,
        touched: &mut touched,
    });
    Clicker {
        entry,
        key: b"d/a",
        tally: &mut tally,
    }
    .count(Counting::Plain);
    assert_eq!((count.into_inner(), touched.len()), (0, MAX_TOUCHED));
    assert_eq!(tally.take().clicks.len(), 1);
}

#[test]
fn clicks_when_undescribed_are_marked_so_in_the_tally() {
    let mut tally = room_for(1);
    for key in [b"d/a", b"d/a", b"d/b"] {
        let (count, mut touched) = (AtomicU16::new(0), Vec::new());
        let entry = Some(EntryClicks {
            count: &count,
            slot: 4,
            touched: &mut touched,
        });
        let tally = &mut tally;
        Clicker { entry, key, tally }.count(Counting::Undescribed);
        assert_eq!(count.into_inner(), 0);
    }
    tally.add(b"d/a", LinkClicks::plain(3));
    let taken = tally.take();
    let expected = LinkClicks {
        count: 5,
        undescribed: 2,
    };
    assert_eq!(taken.clicks[0].1, expected);
    assert_eq!((taken.clicks.len(), taken.lost), (1, 1));
}
