//! A value that threads read side by side, and change in turns.
//!
//! A reader writes a cache line of its own and no other: it takes its seat, and sees that there is no turn. A turn is for one thread at a
//! time, which waits until all seats are empty; a reader that meets a turn waits for its end. Each seat has notes, which belong to its
//! thread while it reads, and to the turn otherwise: what readers change goes there.

#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// The most threads that have a seat at a time. Others get turns.
const SEATS: usize = 256;

/// Times that a turn looks at a seat before it lets other threads run: a reader is done within a microsecond, unless the system has
/// stopped it.
const SPINS: u32 = 128;

/// A value, and notes of each thread that reads it.
pub(crate) struct Turns<T, N> {
    value: UnsafeCell<T>,
    /// Held for a turn.
    turn: Mutex<()>,
    is_turn: Padded<AtomicBool>,
    seats: Box<[ReaderSeat<N>]>,
}

/// A value with cache lines of its own; two, as processors fetch them in pairs.
#[repr(align(128))]
struct Padded<A>(A);

/// The place of a thread.
#[repr(align(128))]
struct ReaderSeat<N> {
    is_taken: AtomicBool,
    notes: UnsafeCell<N>,
}

// SAFETY: readers on several threads get `&T`, and turns on any thread `&mut T`. Notes are lent to one thread at a time.
unsafe impl<T: Send + Sync, N: Send> Sync for Turns<T, N> {}

/// A turn. The value and the notes of all threads are its own.
pub(crate) struct HeldTurn<'a, T, N> {
    turns: &'a Turns<T, N>,
    _held: MutexGuard<'a, ()>,
}

impl<T, N: Default> Turns<T, N> {
    /// A value without readers.
    pub(crate) fn new(value: T) -> Self {
        let seat = || ReaderSeat {
            is_taken: AtomicBool::new(false),
            notes: UnsafeCell::default(),
        };
        Self {
            value: UnsafeCell::new(value),
            turn: Mutex::new(()),
            is_turn: Padded(AtomicBool::new(false)),
            seats: (0..SEATS).map(|_| seat()).collect(),
        }
    }
}

impl<T, N> Turns<T, N> {
    /// Reads the value, with the notes of this thread; `None` if the thread has no seat, or reads already.
    #[inline(always)]
    pub(crate) fn read<R>(&self, act: impl FnOnce(&T, &mut N) -> R) -> Option<R> {
        let seat = self.seats.get(seat_number())?;
        let taken = TakenSeat::take(seat)?;
        // Either this sees the turn, or the turn sees that the seat is taken: both write first, in one order for all threads.
        if self.is_turn.0.load(Ordering::SeqCst) {
            drop(taken);
            return self.read_after_turn(seat, act);
        }
        // SAFETY: the seat is taken, so that no turn begins before it is left. The notes are those of this thread, which takes its seat
        // once at a time.
        let (value, notes) = unsafe { (&*self.value.get(), &mut *seat.notes.get()) };
        Some(act(value, notes))
    }

    /// Waits for the end of the turn, and keeps others from having one.
    #[cold]
    #[inline(never)]
    fn read_after_turn<R>(
        &self,
        seat: &ReaderSeat<N>,
        act: impl FnOnce(&T, &mut N) -> R,
    ) -> Option<R> {
        let _no_turn = lock(&self.turn);
        let _taken = TakenSeat::take(seat)?;
        // SAFETY: there is no turn while the lock is held. The notes are those of this thread, which has taken its seat.
        let (value, notes) = unsafe { (&*self.value.get(), &mut *seat.notes.get()) };
        Some(act(value, notes))
    }

    /// A turn, once the ones before it have ended and no thread reads.
    pub(crate) fn turn(&self) -> HeldTurn<'_, T, N> {
        let held = lock(&self.turn);
        self.is_turn.0.store(true, Ordering::SeqCst);
        for seat in self.used_seats() {
            seat.wait();
        }
        HeldTurn {
            turns: self,
            _held: held,
        }
    }

    /// The seats that threads may have taken.
    fn used_seats(&self) -> &[ReaderSeat<N>] {
        let used = USED_SEATS.load(Ordering::SeqCst);
        self.seats.get(..used).unwrap_or(&self.seats)
    }
}

impl<N> ReaderSeat<N> {
    /// Waits until it is empty.
    #[inline(always)]
    fn wait(&self) {
        let mut spins = 0;
        while self.is_taken.load(Ordering::SeqCst) {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

/// A seat that its thread has taken.
struct TakenSeat<'s>(&'s AtomicBool);

impl<'s> TakenSeat<'s> {
    /// Takes a seat; `None` if its thread has it already.
    #[inline(always)]
    fn take<N>(seat: &'s ReaderSeat<N>) -> Option<Self> {
        let is_taken = seat.is_taken.swap(true, Ordering::SeqCst);
        (!is_taken).then_some(Self(&seat.is_taken))
    }
}

impl Drop for TakenSeat<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T, N> HeldTurn<'_, T, N> {
    /// The value, and the notes of all threads.
    pub(crate) fn parts(&mut self) -> (&mut T, Notes<'_, N>) {
        let notes = Notes(self.turns.used_seats().iter());
        // SAFETY: nothing is read during a turn, which lends the value once at a time.
        (unsafe { &mut *self.turns.value.get() }, notes)
    }
}

/// The notes of all threads, lent by a turn.
pub(crate) struct Notes<'t, N>(slice::Iter<'t, ReaderSeat<N>>);

impl<'t, N> Iterator for Notes<'t, N> {
    type Item = &'t mut N;

    fn next(&mut self) -> Option<&'t mut N> {
        let seat = self.0.next()?;
        // SAFETY: nothing is read during a turn, which lends the notes once at a time; each seat comes once.
        Some(unsafe { &mut *seat.notes.get() })
    }
}

/// Something that is used in turns alone, so that readers may share what it is a part of.
pub(crate) struct OfTurns<T>(T);

// SAFETY: a shared reference gives no access to it.
unsafe impl<T: Send> Sync for OfTurns<T> {}

impl<T> OfTurns<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T, N> Deref for HeldTurn<'_, T, N> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: only this turn changes the value, and it is borrowed.
        unsafe { &*self.turns.value.get() }
    }
}

impl<T, N> DerefMut for HeldTurn<'_, T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nothing is read during a turn, which lends the value once at a time.
        unsafe { &mut *self.turns.value.get() }
    }
}

impl<T, N> Drop for HeldTurn<'_, T, N> {
    #[inline(always)]
    fn drop(&mut self) {
        self.turns.is_turn.0.store(false, Ordering::Release);
    }
}

/// One more than the greatest number of a seat so far.
static USED_SEATS: AtomicUsize = AtomicUsize::new(0);

/// The numbers of seats that threads have left.
static LEFT_SEATS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The number of the seats of this thread, which ends with it.
struct SeatNumber(usize);

thread_local! {
    static SEAT_NUMBER: SeatNumber = SeatNumber::next();
}

/// The number of the seats of this thread.
#[inline(always)]
fn seat_number() -> usize {
    SEAT_NUMBER.try_with(|number| number.0).unwrap_or(SEATS)
}

impl SeatNumber {
    fn next() -> Self {
        if let Some(left) = lock(&LEFT_SEATS).pop() {
            return Self(left);
        }
        // A turn that does not see the new number is seen by the reader, as in `Turns::read`.
        Self(USED_SEATS.fetch_add(1, Ordering::SeqCst))
    }
}

impl Drop for SeatNumber {
    fn drop(&mut self) {
        lock(&LEFT_SEATS).push(self.0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is whole after a panic: the value has its own guard, and a number is taken or left at once.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Numbers that a turn makes equal, and changes one after the other.
    #[derive(Default)]
    struct Pair {
        first: AtomicU64,
        second: AtomicU64,
    }

    #[test]
    fn value_when_read_beside_turns_is_whole_and_never_older_than_the_last_turn() {
        const READS: u64 = if cfg!(miri) { 20 } else { 2_000 };
        let turns = Turns::<Pair, u64>::new(Pair::default());
        let ended = AtomicU64::new(0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        for number in 0..READS {
                            let before = ended.load(Ordering::SeqCst);
                            let read = turns.read(|pair, notes| {
                                *notes += 1;
                                let first = pair.first.load(Ordering::Relaxed);
                                if number % 2 == 0 {
                                    thread::yield_now();
                                }
                                (first, pair.second.load(Ordering::Relaxed))
                            });
                            let (first, second) = read.expect("a seat");
                            assert_eq!(first, second);
                            assert!(first >= before, "{first} after {before}");
                        }
                    })
                })
                .collect();
            let writer = scope.spawn(|| {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    number += 1;
                    let turn = turns.turn();
                    turn.first.store(number, Ordering::Relaxed);
                    (0..8).for_each(|_| thread::yield_now());
                    turn.second.store(number, Ordering::Relaxed);
                    drop(turn);
                    ended.store(number, Ordering::SeqCst);
                }
            });
            let ends: Vec<_> = readers.into_iter().map(|it| it.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            writer.join().expect("it has not panicked");
            assert!(ends.iter().all(Result::is_ok));
        });
        let mut turn = turns.turn();
        let (_, notes) = turn.parts();
        assert_eq!(notes.map(std::mem::take).sum::<u64>(), 16 * READS);
    }

    #[test]
    fn turn_when_a_reader_has_panicked_begins() {
        let turns = Turns::<u8, u8>::new(1);
        let read = || turns.read(|_, _| panic!("asked for"));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
        assert!(panicked.is_err());
        *turns.turn() += 1;
        assert_eq!(turns.read(|value, _| *value), Some(2));
    }

    #[test]
    fn reader_when_it_reads_already_gets_nothing() {
        let turns = Turns::<u8, u8>::new(1);
        let inner = turns.read(|_, _| turns.read(|value, _| *value));
        assert_eq!(inner, Some(None));
    }

    #[test]
    fn seat_when_its_thread_has_ended_is_taken_again() {
        let turns = Turns::<u8, u8>::new(0);
        for _ in 0..2 * SEATS {
            let read = thread::scope(|scope| scope.spawn(|| turns.read(|_, _| ())).join());
            assert!(read.expect("it has not panicked").is_some());
        }
    }
}
