//! The shared queue hostcalls.

use crate::abi::{
    NOWHERE, Out, address, proxy_dequeue_shared_queue, proxy_enqueue_shared_queue,
    proxy_register_shared_queue, proxy_resolve_shared_queue, size,
};
use crate::report::{Report, name};

fn dequeue(label: &str, token: u32, report: &mut Report) {
    let mut out = Out::new();
    let status = proxy_dequeue_shared_queue(token, out.at(0), out.at(1));
    report.bytes(label, status, &out);
}

fn enqueue(token: u32, data: &str) -> u32 {
    proxy_enqueue_shared_queue(token, address(data), size(data.as_bytes()))
}

fn register(queue: &str, out: &mut Out) -> u32 {
    proxy_register_shared_queue(address(queue), size(queue.as_bytes()), out.at(0))
}

fn resolve(vm_id: &str, queue: &str, out: &mut Out) -> u32 {
    let (vm_id_size, queue_size) = (size(vm_id.as_bytes()), size(queue.as_bytes()));
    proxy_resolve_shared_queue(
        address(vm_id),
        vm_id_size,
        address(queue),
        queue_size,
        out.at(0),
    )
}

pub(crate) fn run(report: &mut Report) {
    let mut out = Out::new();
    report.status(
        "resolve unknown queue",
        resolve("probe-vm", "no-such-queue", &mut out),
    );
    report.status(
        "resolve in an unknown vm",
        resolve("no-such-vm", "queue", &mut out),
    );
    dequeue("dequeue unknown", 9_999, report);
    report.status("enqueue unknown", enqueue(9_999, "data"));
    report.status("register", register("queue", &mut out));
    let token = out.word(0);
    report.status("register again", register("queue", &mut out));
    report.text("same token", &(out.word(0) == token).to_string());
    report.status("resolve", resolve("probe-vm", "queue", &mut out));
    report.text("same token", &(out.word(0) == token).to_string());
    report.status("resolve in the own vm", resolve("", "queue", &mut out));
    dequeue("dequeue empty", token, report);
    report.status("enqueue", enqueue(token, "one"));
    report.status("enqueue again", enqueue(token, "two"));
    report.status("enqueue nothing", enqueue(token, ""));
    dequeue("dequeue", token, report);

    report.status(
        "register nowhere",
        proxy_register_shared_queue(NOWHERE, 32, out.at(0)),
    );
    report.status(
        "register, token nowhere",
        proxy_register_shared_queue(address("queue"), 5, NOWHERE),
    );
    report.status(
        "enqueue nowhere",
        proxy_enqueue_shared_queue(token, NOWHERE, 32),
    );
}

/// Takes one item out, and says what it was.
pub(crate) fn drain(token: u32) -> String {
    let mut out = Out::new();
    match proxy_dequeue_shared_queue(token, out.at(0), out.at(1)) {
        0 => format!("{:?}", String::from_utf8_lossy(&out.take())),
        status => name(status),
    }
}
