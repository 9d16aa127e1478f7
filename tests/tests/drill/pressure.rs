//! Pressure: what one client, one row, one crowd or one long transaction takes from all others. `make pressure` runs all rows; each prints
//! what others got beside the goal.

mod crowds;
mod far_edge;
mod hosts;
mod locked_row;
mod many_leases;
mod memory;
mod one_time_links;
mod passwords;
mod restart;
mod snapshot_transaction;
mod tenants;

use edgelink_tests::scenario::Answer;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A connection from another address of this machine.
async fn connect_from(address: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::from(address), 0).into())?;
    socket.connect(to).await
}

/// Sends a request whose body does not come, again and again, until it is dropped.
async fn be_silent(address: [u8; 4], to: SocketAddr, head: String) {
    loop {
        let Ok(mut stream) = connect_from(address, to).await else {
            tokio::task::yield_now().await;
            continue;
        };
        if stream.write_all(head.as_bytes()).await.is_err() {
            continue;
        }
        // Until it is answered, and closed.
        let mut buffer = [0; 1_024];
        while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
    }
}

/// What others got of one kind of request.
struct Tally {
    what: &'static str,
    asked: usize,
    unavailable: usize,
    strange: usize,
}

impl Tally {
    fn of(what: &'static str) -> Self {
        Self {
            what,
            asked: 0,
            unavailable: 0,
            strange: 0,
        }
    }

    fn add(&mut self, status: u16, expected: u16) {
        self.asked += 1;
        self.unavailable += usize::from(status == 503);
        self.strange += usize::from(status != 503 && status != expected);
    }

    fn note(&mut self, answer: &Answer, expected: u16) {
        self.add(answer.status, expected);
    }

    /// Prints it, and fails if one was 503, or of a kind that was not expected.
    fn show(&self) {
        let Self {
            what,
            asked,
            unavailable,
            strange,
        } = self;
        println!("{what:<44} {unavailable} of {asked} are 503 (goal: 0), {strange} others");
    }

    fn is_met(&self) -> bool {
        self.unavailable == 0 && self.strange == 0
    }
}
