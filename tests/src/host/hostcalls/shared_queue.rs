//! The shared queue hostcalls.
//!
//! Whoever registers a queue last is told of new data, on its own thread and never from within the call that brought it.

use crate::host::call::{Call, link_hostcalls};
use crate::host::shared::Thread;
use crate::host::state::VmState;
use crate::host::status::{Answer, Status};
use std::collections::{BTreeMap, VecDeque};
use wasmtime::Linker;

/// The queues of the process.
#[derive(Debug, Default)]
pub(crate) struct SharedQueues {
    tokens: BTreeMap<(String, Vec<u8>), u32>,
    queues: BTreeMap<u32, Queue>,
    /// What threads are yet to be told.
    pub(crate) posts: VecDeque<Post>,
}

#[derive(Debug)]
struct Queue {
    thread: Thread,
    context: u32,
    items: VecDeque<Vec<u8>>,
}

/// Data came into a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Post {
    pub(crate) thread: Thread,
    pub(crate) context: u32,
    pub(crate) token: u32,
}

impl SharedQueues {
    fn register(&mut self, vm_id: &str, name: Vec<u8>, thread: Thread, context: u32) -> u32 {
        let next = u32::try_from(self.tokens.len()).expect("fewer than 4 G queues") + 1;
        let token = *self.tokens.entry((vm_id.to_owned(), name)).or_insert(next);
        let queue = self.queues.entry(token).or_insert_with(|| Queue {
            thread,
            context,
            items: VecDeque::new(),
        });
        (queue.thread, queue.context) = (thread, context);
        token
    }

    fn enqueue(&mut self, token: u32, item: Vec<u8>) -> Result<(), Status> {
        let queue = self.queues.get_mut(&token).ok_or(Status::NotFound)?;
        queue.items.push_back(item);
        self.posts.push_back(Post {
            thread: queue.thread,
            context: queue.context,
            token,
        });
        Ok(())
    }

    fn dequeue(&mut self, token: u32) -> Result<Vec<u8>, Status> {
        let queue = self.queues.get_mut(&token).ok_or(Status::NotFound)?;
        queue.items.pop_front().ok_or(Status::Empty)
    }
}

pub(super) fn link(linker: &mut Linker<VmState>) -> wasmtime::Result<()> {
    link_hostcalls! { linker;
        "proxy_register_shared_queue" => register_shared_queue(name, name_size, token_at);
        "proxy_resolve_shared_queue" => resolve_shared_queue(vm_id, vm_id_size, name, name_size, token_at);
        "proxy_dequeue_shared_queue" => dequeue_shared_queue(token, data_at, size_at);
        "proxy_enqueue_shared_queue" => enqueue_shared_queue(token, data, size);
    }
    Ok(())
}

fn register_shared_queue(call: &mut Call<'_>, name: u32, name_size: u32, token_at: u32) -> Answer {
    let name = call.read(name, name_size)?;
    let state = call.state();
    let root = state.root_of(state.context());
    let mut queues = state.shared.queues.borrow_mut();
    let token = queues.register(&state.plugin.vm_id, name, state.thread, root);
    drop(queues);
    Ok(call.write_word(token_at, token)?)
}

/// No VM id is the own one.
fn resolve_shared_queue(
    call: &mut Call<'_>,
    vm_id: u32,
    vm_id_size: u32,
    name: u32,
    name_size: u32,
    token_at: u32,
) -> Answer {
    let vm_id = call.read(vm_id, vm_id_size)?;
    let name = call.read(name, name_size)?;
    let state = call.state();
    let vm_id = if vm_id.is_empty() {
        state.plugin.vm_id.clone()
    } else {
        String::from_utf8(vm_id).map_err(|_| Status::NotFound)?
    };
    let token = state
        .shared
        .queues
        .borrow()
        .tokens
        .get(&(vm_id, name))
        .copied();
    Ok(call.write_word(token_at, token.ok_or(Status::NotFound)?)?)
}

fn dequeue_shared_queue(call: &mut Call<'_>, token: u32, data_at: u32, size_at: u32) -> Answer {
    let item = call.state().shared.queues.borrow_mut().dequeue(token)?;
    call.give(&item, data_at, size_at)
}

fn enqueue_shared_queue(call: &mut Call<'_>, token: u32, data: u32, size: u32) -> Answer {
    let item = call.read(data, size)?;
    let state = call.state();
    Ok(state.shared.queues.borrow_mut().enqueue(token, item)?)
}
