//! Requests: their headers and bodies, answers, and those that wait.
//!
//! nginx comes to [`decide`] in the PRECONTENT phase: behind limits and access rules, before what a location answers. A request
//! that waits is kept by its phase and a [`Context`] in its pool; once woken it runs through the phase again, which then finds
//! what has become of it. Nothing of nginx that may end a request is called while the edge is lent: it would come back.

use super::conf::{believes_trace_parents, bytes_of, index, running_of, zone_of};
use super::variables;
use super::wake::LoopWaker;
use super::worker::{self, Running};
use super::{DECLINED, DONE, ERROR, OK};
use crate::processes;
use edgelink_filter_core::host::Clients;
use edgelink_filter_core::request::{Head, Headers};
use edgelink_filter_core::settings::Described;
use edgelink_process::reply::LocalReply;
use edgelink_process::stream::{Flow, Stream};
use edgelink_process::{Request, Wake, panics};
use edgelink_wire::TRACEPARENT;
use nginx_sys::{
    ngx_add_timer, ngx_buf_t, ngx_chain_t, ngx_del_timer, ngx_event_t, ngx_handle_read_event,
    ngx_http_block_reading, ngx_http_core_run_phases, ngx_http_discard_request_body,
    ngx_http_finalize_request, ngx_http_output_filter, ngx_http_read_client_request_body,
    ngx_http_request_empty_handler, ngx_http_request_t, ngx_http_run_posted_requests,
    ngx_http_send_header, ngx_http_test_reading, ngx_int_t, ngx_list_part_t, ngx_list_push,
    ngx_pcalloc, ngx_pool_cleanup_add, ngx_post_event, ngx_posted_events, ngx_str_t,
    ngx_table_elt_t,
};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{self, NonNull, addr_of_mut};
use std::{mem, slice};

/// After so many milliseconds a waiting request is answered 503, whatever the edge thinks: it gives lookups up much earlier. The
/// timer also keeps a worker that is to end until its requests are answered.
const DEADLINE_MILLIS: usize = 60_000;

const BAD_REQUEST: ngx_int_t = 400;
const SPECIAL_RESPONSE: ngx_int_t = 300;
const SERVER_ERROR: ngx_int_t = 500;

/// State of a request, in its pool, which ends with it.
pub(super) struct Context {
    request: *mut ngx_http_request_t,
    /// The place of the file of settings that has decided it.
    root: Cell<usize>,
    state: Cell<ContextState>,
    /// While it waits.
    stream: RefCell<Option<Stream<LoopWaker>>>,
    /// By which it is woken; 0 if it has not waited.
    number: Cell<u64>,
    deadline: UnsafeCell<ngx_event_t>,
    /// The values of variables.
    described: [Cell<ngx_str_t>; 3],
}

#[derive(Clone, Copy)]
enum ContextState {
    /// It was described only.
    New,
    /// It waits for an answer.
    Waiting,
    /// It is a form whose body is being read.
    Reading,
    /// The headers of its answer are written; this is the page.
    Answered(ngx_str_t),
    /// It could not be answered for lack of memory.
    Failed,
    /// It goes on to what the location has.
    Passed,
    /// It is nginx's own.
    Ended,
}

thread_local! {
    /// The requests that wait, or whose body is being read.
    static WAITING: RefCell<HashMap<u64, NonNull<Context>>> = RefCell::new(HashMap::new());
    static LAST_NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// The context of a request, if it has one. nginx forgets contexts where it redirects a request internally, but not cleanups.
    ///
    /// # Safety
    /// It must be a request that lives.
    pub(super) unsafe fn of<'r>(r: *mut ngx_http_request_t) -> Option<&'r Self> {
        // SAFETY: guaranteed by the caller. Contexts and cleanups of the module are what `create` has put there.
        unsafe {
            let context: *const Self = (*(*r).ctx.add(index())).cast();
            if !context.is_null() {
                return Some(&*context);
            }
            if (*r).internal() == 0 {
                return None;
            }
            let mut cleanup = (*(*r).pool).cleanup;
            while !cleanup.is_null() {
                if (*cleanup)
                    .handler
                    .is_some_and(|handler| ptr::fn_addr_eq(handler, on_end as EndHandler))
                {
                    return Some(&*(*cleanup).data.cast());
                }
                cleanup = (*cleanup).next;
            }
            None
        }
    }

    /// The context of a request, which is created if it has none; `None` if there is no memory.
    ///
    /// # Safety
    /// It must be a request that lives.
    unsafe fn create<'r>(r: *mut ngx_http_request_t, root: usize) -> Option<&'r Self> {
        // SAFETY: guaranteed by the caller; there is room for a context, in memory that is aligned for anything.
        unsafe {
            if let Some(context) = Self::of(r) {
                // It may be that from before an internal redirect.
                *(*r).ctx.add(index()) = ptr::from_ref(context).cast_mut().cast();
                context.root.set(root);
                return Some(context);
            }
            let cleanup = ngx_pool_cleanup_add((*r).pool, size_of::<Self>());
            if cleanup.is_null() {
                return None;
            }
            let context: *mut Self = (*cleanup).data.cast();
            context.write(Self {
                request: r,
                root: Cell::new(root),
                state: Cell::new(ContextState::New),
                stream: RefCell::new(None),
                number: Cell::new(0),
                deadline: UnsafeCell::new(mem::zeroed()),
                described: [const { Cell::new(ngx_str_t::empty()) }; 3],
            });
            (*cleanup).handler = Some(on_end);
            *(*r).ctx.add(index()) = context.cast();
            Some(&*context)
        }
    }

    /// The value of a variable, by its place.
    pub(super) fn described(&self, place: usize) -> Option<ngx_str_t> {
        let value = self.described.get(place)?.get();
        (!value.data.is_null()).then_some(value)
    }

    /// True if nginx has redirected the request since it began to wait, to answer it itself.
    fn is_taken_away(&self) -> bool {
        // SAFETY: the request lives as long as its context.
        let own = unsafe { *(*self.request).ctx.add(index()) };
        !ptr::eq(own.cast_const().cast(), self)
    }

    /// It begins to wait.
    fn enter(&self, stream: Stream<LoopWaker>, number: u64, state: ContextState) {
        self.stream.replace(Some(stream));
        self.number.set(number);
        self.state.set(state);
        let count = WAITING.with_borrow_mut(|waiting| {
            waiting.insert(number, NonNull::from(self));
            waiting.len()
        });
        worker::note_waiting(count);
    }

    /// It waits no longer.
    fn leave(&self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        self.disarm();
        let count = WAITING.with_borrow_mut(|waiting| {
            waiting.remove(&self.number.get());
            waiting.len()
        });
        worker::note_waiting(count);
        stream.on_end();
    }

    fn arm(&self) {
        let deadline = self.deadline.get();
        // SAFETY: the event lives as long as the request, and is disarmed before its end. The debug log reads behind `data`, as if
        // it were a connection: a context is longer than that.
        unsafe {
            (*deadline).handler = Some(on_deadline);
            (*deadline).data = ptr::from_ref(self).cast_mut().cast();
            (*deadline).log = (*(*self.request).connection).log;
            ngx_add_timer(deadline, DEADLINE_MILLIS);
        }
    }

    fn disarm(&self) {
        let deadline = self.deadline.get();
        // SAFETY: this is the thread of the loop, which has timers.
        unsafe {
            if (*deadline).timer_set() != 0 {
                ngx_del_timer(deadline);
            }
        }
    }

    /// Takes over what has become of the request. Returns false if it goes on waiting.
    fn settle(&self, verdict: Option<Disposition>) -> bool {
        let state = match verdict {
            None => return false,
            Some(Disposition::Answered(page)) => ContextState::Answered(page),
            Some(Disposition::Failed) => ContextState::Failed,
            Some(Disposition::Passes) => ContextState::Passed,
        };
        let was_reading = matches!(self.state.replace(state), ContextState::Reading);
        if was_reading && !matches!(state, ContextState::Passed) {
            // nginx discards no body that is being read: the connection must not serve what is left of it as a request.
            // SAFETY: the request lives as long as its context.
            unsafe {
                (*self.request).set_keepalive(0);
                (*self.request).set_lingering_close(1);
            }
        }
        self.leave();
        // What follows in nginx needs all of the body: it goes on when that is there.
        !(was_reading && matches!(state, ContextState::Passed))
    }

    /// Runs the phases again, in which it finds its state.
    ///
    /// # Safety
    /// Nothing of the request may be used afterwards.
    unsafe fn run(&self) {
        let r = self.request;
        // SAFETY: the request lives, and is in the phase of the module.
        unsafe {
            (*r).read_event_handler = Some(ngx_http_block_reading);
            (*r).write_event_handler = Some(ngx_http_core_run_phases);
            ngx_http_core_run_phases(r);
        }
    }
}

type EndHandler = unsafe extern "C" fn(*mut c_void);

/// The pool of a request is freed.
unsafe extern "C" fn on_end(context: *mut c_void) {
    let context: *mut Context = context.cast();
    // SAFETY: the pool cleans up once, before its memory is freed.
    unsafe {
        let _counted = panics::catch("leave", || (*context).leave());
        ptr::drop_in_place(context);
    }
}

/// The outcome of a hook for a request.
#[derive(Clone, Copy)]
enum Disposition {
    /// The headers of its answer are written; this is the page.
    Answered(ngx_str_t),
    /// It goes on to what the location has.
    Passes,
    /// There is no memory for its answer.
    Failed,
}

/// A request of nginx, as a process with an edge sees it.
struct NginxRequest {
    request: *mut ngx_http_request_t,
    root: usize,
    verdict: Cell<Option<Disposition>>,
    number: Cell<u64>,
}

impl NginxRequest {
    fn new(request: *mut ngx_http_request_t, root: usize, number: u64) -> Self {
        Self {
            request,
            root,
            verdict: Cell::new(None),
            number: Cell::new(number),
        }
    }

    fn of(context: &Context) -> Self {
        Self::new(context.request, context.root.get(), context.number.get())
    }

    fn headers(&self) -> HeaderList<'_> {
        // SAFETY: the request lives while a hook for it runs.
        unsafe { headers_of(self.request) }
    }

    /// The host that the request is for: of the request line, if that has one, or else of the header.
    fn authority(&self) -> &[u8] {
        // SAFETY: the request lives while a hook for it runs. Positions within the request line are of the same buffer.
        unsafe {
            let r = self.request;
            let line = bytes_of(&(*r).request_line);
            if !(*r).host_start.is_null()
                && let Some(start) = (*r).host_start.addr().checked_sub(line.as_ptr().addr())
                && let Some(rest) = line.get(start..)
            {
                let end = rest.iter().position(|byte| b"/?# ".contains(byte));
                return rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            }
            let host = (*r).headers_in.host;
            if host.is_null() {
                return bytes_of(&(*r).headers_in.server);
            }
            bytes_of(&(*host).value)
        }
    }

    /// The parts of the body that were read.
    fn body_parts(&self) -> impl Iterator<Item = &ngx_buf_t> {
        // SAFETY: the request lives while a hook for it runs, and its body does not change.
        let mut link = unsafe {
            let body = (*self.request).request_body;
            if body.is_null() {
                ptr::null_mut()
            } else {
                (*body).bufs
            }
        };
        std::iter::from_fn(move || {
            if link.is_null() {
                return None;
            }
            // SAFETY: a chain that nginx has made ends with null.
            unsafe {
                let buffer = &*(*link).buf;
                link = (*link).next;
                Some(buffer)
            }
        })
    }

    /// Writes status and headers of an answer, and copies its page.
    fn write(&self, reply: &LocalReply) -> Option<ngx_str_t> {
        let r = self.request;
        // SAFETY: the request lives while a hook for it runs. Headers are zeroed first, for later versions of nginx have more fields;
        // the names live as long as the program.
        unsafe {
            for (name, value) in reply.headers() {
                let value = ngx_str_t::from_bytes((*r).pool, value)?;
                let key = ngx_str_t {
                    len: name.len(),
                    data: name.as_ptr().cast_mut(),
                };
                if name == "content-type" {
                    let bytes = bytes_of(&value);
                    let plain = bytes.iter().position(|byte| *byte == b';');
                    (*r).headers_out.content_type = value;
                    (*r).headers_out.content_type_len = plain.unwrap_or(bytes.len());
                    continue;
                }
                let header: *mut ngx_table_elt_t =
                    ngx_list_push(&raw mut (*r).headers_out.headers).cast();
                if header.is_null() {
                    return None;
                }
                header.write_bytes(0, 1);
                (*header).hash = 1;
                (*header).key = key;
                (*header).lowcase_key = key.data;
                (*header).value = value;
            }
            let page = reply.page().as_bytes();
            (*r).headers_out.status = reply.status().into();
            (*r).headers_out.content_length_n = page.len() as _;
            if page.is_empty() {
                return Some(ngx_str_t::empty());
            }
            ngx_str_t::from_bytes((*r).pool, page)
        }
    }
}

impl Request for NginxRequest {
    type Headers<'h> = HeaderList<'h>;
    type Waker = LoopWaker;

    #[inline(always)]
    fn with_head<R>(&self, act: impl FnOnce(&Head<'_, HeaderList<'_>>) -> R) -> R {
        // SAFETY: the request lives while a hook for it runs.
        let (method, path) = unsafe {
            let r = &*self.request;
            (bytes_of(&r.method_name), bytes_of(&r.unparsed_uri))
        };
        act(&Head {
            method,
            path,
            authority: self.authority(),
            headers: self.headers(),
        })
    }

    fn waker(&self) -> LoopWaker {
        if self.number.get() == 0 {
            let number = LAST_NUMBER.get() + 1;
            LAST_NUMBER.set(number);
            self.number.set(number);
        }
        LoopWaker(self.number.get())
    }

    #[inline(always)]
    fn answer(&self, reply: &LocalReply) {
        let page = self.write(reply);
        let verdict = page.map_or(Disposition::Failed, Disposition::Answered);
        self.verdict.set(Some(verdict));
    }

    fn go_on(&self) {
        self.verdict.set(Some(Disposition::Passes));
    }

    fn body_length(&self) -> usize {
        self.body_parts().map(length_of).sum()
    }

    fn body(&self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in self.body_parts() {
            if part.in_file() != 0 {
                let mut read = vec![0; length_of(part).min(limit)];
                // SAFETY: nginx keeps the file open as long as the request, and there is room for as many bytes.
                let count = unsafe {
                    let fd = (*part.file).fd;
                    libc::pread(fd, read.as_mut_ptr().cast(), read.len(), part.file_pos)
                };
                read.truncate(usize::try_from(count).unwrap_or_default());
                bytes.append(&mut read);
            } else if !part.pos.is_null() {
                // SAFETY: nginx has read as many bytes.
                bytes
                    .extend_from_slice(unsafe { slice::from_raw_parts(part.pos, length_of(part)) });
            }
        }
        bytes.truncate(limit);
        bytes
    }
}

fn length_of(part: &ngx_buf_t) -> usize {
    if part.in_file() != 0 {
        let length = part.file_last.saturating_sub(part.file_pos);
        return usize::try_from(length).unwrap_or_default();
    }
    part.last.addr().saturating_sub(part.pos.addr())
}

impl Clients for NginxRequest {
    /// As `set_real_ip_from` has left it.
    fn client_address(&self) -> Option<IpAddr> {
        // SAFETY: the connection lives as long as its requests, and its address is as long as that of its family.
        unsafe {
            let address = (*(*self.request).connection).sockaddr;
            match i32::from((*address).sa_family) {
                libc::AF_INET => {
                    let address: *const libc::sockaddr_in = address.cast();
                    let bits = u32::from_be((*address).sin_addr.s_addr);
                    Some(Ipv4Addr::from_bits(bits).into())
                }
                libc::AF_INET6 => {
                    let address: *const libc::sockaddr_in6 = address.cast();
                    Some(Ipv6Addr::from((*address).sin6_addr.s6_addr).into())
                }
                _ => None,
            }
        }
    }

    fn cookies(&self) -> Vec<u8> {
        self.headers().get("cookie").to_vec()
    }

    fn user_agent(&self) -> Vec<u8> {
        self.headers().get("user-agent").to_vec()
    }

    fn describe(&self, what: Described, value: &[u8]) {
        // SAFETY: the request lives while a hook for it runs.
        unsafe {
            let context = Context::create(self.request, self.root);
            let place = context.and_then(|context| context.described.get(variables::place(what)));
            if let Some(place) = place
                && let Some(value) = ngx_str_t::from_bytes((*self.request).pool, value)
            {
                place.set(value);
            }
        }
    }
}

/// The headers of a request.
///
/// # Safety
/// It must be one that lives.
#[inline(always)]
unsafe fn headers_of<'h>(r: *mut ngx_http_request_t) -> HeaderList<'h> {
    // SAFETY: guaranteed by the caller, and its headers do not change. `ssl` is set for connections with TLS.
    unsafe {
        HeaderList {
            first: &(*r).headers_in.headers.part,
            is_secure: !(*(*r).connection).ssl.is_null(),
            has_trace_parents: believes_trace_parents(r),
        }
    }
}

/// The headers of a request, in the list of nginx.
#[derive(Clone, Copy)]
struct HeaderList<'h> {
    first: &'h ngx_list_part_t,
    is_secure: bool,
    has_trace_parents: bool,
}

impl<'h> HeaderList<'h> {
    #[inline(always)]
    fn entries(self) -> impl Iterator<Item = &'h ngx_table_elt_t> {
        let mut part: *const ngx_list_part_t = self.first;
        let mut place = 0;
        std::iter::from_fn(move || {
            // SAFETY: the list lives for `'h`, each part with as many elements as it says, and the last one with no next.
            unsafe {
                while place >= (*part).nelts {
                    part = (*part).next;
                    place = 0;
                    if part.is_null() {
                        return None;
                    }
                }
                let entry = &*(*part).elts.cast::<ngx_table_elt_t>().add(place);
                place += 1;
                Some(entry)
            }
        })
        .fuse()
    }

    /// Name, in lower case, and value.
    #[inline(always)]
    fn pair(entry: &ngx_table_elt_t) -> (&'h [u8], &'h [u8]) {
        // SAFETY: names and values live as long as the request; the name in lower case is as long as the other one.
        unsafe {
            let name = ngx_str_t {
                len: entry.key.len,
                data: entry.lowcase_key,
            };
            (bytes_of(&name), bytes_of(&entry.value))
        }
    }
}

impl Headers for HeaderList<'_> {
    #[inline(always)]
    fn get(&self, name: &str) -> &[u8] {
        // Who terminates TLS knows.
        if self.is_secure && name == "x-forwarded-proto" {
            return b"https";
        }
        // Else any client could have each of its requests traced.
        if !self.has_trace_parents && name == TRACEPARENT {
            return b"";
        }
        let mut entries = self.entries().filter(|entry| entry.key.len == name.len());
        let found = entries.find(|entry| Self::pair(entry).0 == name.as_bytes());
        found.map_or(&[], |entry| Self::pair(entry).1)
    }

    #[inline(always)]
    fn each<'h>(&'h self, lengths: u64, mut found: impl FnMut(&'h [u8], &'h [u8])) {
        for entry in self.entries() {
            if lengths.wrapping_shr(entry.key.len as u32) & 1 != 0 {
                let (name, value) = Self::pair(entry);
                found(name, value);
            }
        }
    }
}

/// nginx has come to the phase of the module with a request, for the first time or again.
pub(super) unsafe extern "C" fn decide(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx passes a request that lives.
    unsafe {
        if r != (*r).main {
            return DECLINED;
        }
        let Some((root, running)) = running_of(r) else {
            return DECLINED;
        };
        #[cfg(feature = "testing")]
        panics::asked::arm(headers_of(r).get("x-edgelink-panic"));
        let decided = panics::catch("decide", || match Context::of(r) {
            Some(context) => go_on(r, context, root).unwrap_or_else(|| begin(r, root, running)),
            None => begin(r, root, running),
        });
        decided.unwrap_or(ERROR)
    }
}

/// A request comes again. `None` if it is to be decided.
///
/// # Safety
/// It must be a request in the phase of the module.
unsafe fn go_on(r: *mut ngx_http_request_t, context: &Context, root: usize) -> Option<ngx_int_t> {
    match context.state.get() {
        ContextState::New => None,
        ContextState::Waiting | ContextState::Reading if context.is_taken_away() => {
            context.state.set(ContextState::Ended);
            context.leave();
            Some(DECLINED)
        }
        ContextState::Waiting | ContextState::Reading => Some(DONE),
        ContextState::Answered(page) => {
            context.state.set(ContextState::Ended);
            // SAFETY: guaranteed by the caller; the headers of an answer were written.
            Some(unsafe { send(r, page) })
        }
        ContextState::Failed => {
            context.state.set(ContextState::Ended);
            Some(SERVER_ERROR)
        }
        // Another location of an internal redirect may have other settings.
        ContextState::Passed if context.root.get() != root => None,
        ContextState::Passed | ContextState::Ended => Some(DECLINED),
    }
}

/// A request begins.
///
/// # Safety
/// It must be a request in the phase of the module.
unsafe fn begin(r: *mut ngx_http_request_t, root: usize, running: &Running) -> ngx_int_t {
    let visitor = NginxRequest::new(r, root, 0);
    let stream = Stream::new(running.process, running.root);
    let flow = panics::catch("headers", || stream.on_headers(&visitor, None));
    let flow = flow.unwrap_or_else(|_| stream.on_panic(&visitor));
    // SAFETY: guaranteed by the caller. The edge is released.
    unsafe {
        match (visitor.verdict.get(), flow) {
            (Some(Disposition::Answered(page)), _) => {
                stream.on_end();
                if let Some(context) = Context::of(r) {
                    context.state.set(ContextState::Ended);
                }
                send(r, page)
            }
            (Some(Disposition::Failed), _) => {
                stream.on_end();
                SERVER_ERROR
            }
            (Some(Disposition::Passes), _) | (None, Flow::Continue) => {
                stream.on_end();
                if let Some(context) = Context::create(r, root) {
                    context.state.set(ContextState::Passed);
                }
                DECLINED
            }
            (None, flow) => {
                let Some(context) = Context::create(r, root) else {
                    stream.on_end();
                    return SERVER_ERROR;
                };
                if flow == Flow::Hold {
                    context.enter(stream, visitor.number.get(), ContextState::Reading);
                    read_form(r, context)
                } else {
                    context.enter(stream, visitor.number.get(), ContextState::Waiting);
                    await_answer(context)
                }
            }
        }
    }
}

/// A request waits until it is woken or its client leaves.
fn await_answer(context: &Context) -> ngx_int_t {
    context.arm();
    let r = context.request;
    // SAFETY: the request lives as long as its context.
    unsafe {
        (*r).read_event_handler = Some(ngx_http_test_reading);
        (*r).write_event_handler = Some(ngx_http_request_empty_handler);
        let read = (*(*r).connection).read;
        // What came before is not notified again.
        if (*read).ready() != 0 {
            ngx_post_event(read, addr_of_mut!(ngx_posted_events));
            return DONE;
        }
        if ngx_handle_read_event(read, 0) == OK {
            return DONE;
        }
    }
    context.state.set(ContextState::Ended);
    context.leave();
    SERVER_ERROR
}

/// Reads the body of a form.
///
/// # Safety
/// It must be a request in the phase of the module.
unsafe fn read_form(r: *mut ngx_http_request_t, context: &Context) -> ngx_int_t {
    // SAFETY: guaranteed by the caller. Reading has raised the count of the request, which `finalize` lowers, as
    // ngx_http_mirror_module does in this phase; the request may have ended then.
    unsafe {
        (*r).set_request_body_in_single_buf(1);
        let read = ngx_http_read_client_request_body(r, Some(on_form));
        if read >= SPECIAL_RESPONSE {
            context.state.set(ContextState::Ended);
            context.leave();
            return read;
        }
        ngx_http_finalize_request(r, DONE);
        DONE
    }
}

/// The body of a form is there.
unsafe extern "C" fn on_form(r: *mut ngx_http_request_t) {
    // SAFETY: nginx calls this once, for a request that has a context. The count of the request keeps it until this returns.
    unsafe {
        let Some(context) = Context::of(r) else {
            return ngx_http_finalize_request(r, BAD_REQUEST);
        };
        // Over HTTP/2 the end of a body comes here even after an answer that is still being sent.
        if matches!(context.state.get(), ContextState::Ended) {
            return;
        }
        if matches!(context.state.get(), ContextState::Reading) {
            context.state.set(ContextState::Waiting);
            let visitor = NginxRequest::of(context);
            let flow = with_stream(context, |stream| {
                let flow = panics::catch("form", || stream.on_body(&visitor, true));
                flow.unwrap_or_else(|_| stream.on_panic(&visitor))
            });
            let passes = flow == Some(Flow::Continue);
            let verdict = visitor.verdict.get();
            if !context.settle(verdict.or(passes.then_some(Disposition::Passes))) {
                if await_answer(context) != DONE {
                    ngx_http_finalize_request(r, SERVER_ERROR);
                }
                return;
            }
        }
        context.run();
    }
}

/// Lends the stream of a request that waits.
fn with_stream<R>(context: &Context, act: impl FnOnce(&Stream<LoopWaker>) -> R) -> Option<R> {
    context.stream.borrow().as_ref().map(act)
}

/// A request is woken, if it still waits.
pub(super) fn wake(number: u64, to: Wake) {
    let Some(context) = WAITING.with_borrow(|waiting| waiting.get(&number).copied()) else {
        return;
    };
    // SAFETY: a context leaves the table before it ends.
    let context = unsafe { context.as_ref() };
    go_on_with(context, |stream, visitor| {
        let woken = panics::catch("wake", || stream.on_woken(visitor, to));
        if woken.is_err() {
            stream.on_panic(visitor);
        }
    });
}

/// A request has waited for too long.
unsafe extern "C" fn on_deadline(event: *mut ngx_event_t) {
    // SAFETY: the timer is disarmed before its context ends.
    let context: &Context = unsafe { &*(*event).data.cast() };
    log::error!("a request has waited for {DEADLINE_MILLIS} ms; it is answered 503");
    go_on_with(context, |stream, visitor| {
        stream.on_panic(visitor);
    });
}

/// Lends a request that waits, and goes on with it if it was answered, or passes.
fn go_on_with(context: &Context, act: impl FnOnce(&Stream<LoopWaker>, &NginxRequest)) {
    if context.is_taken_away() {
        context.state.set(ContextState::Ended);
        return context.leave();
    }
    let visitor = NginxRequest::of(context);
    with_stream(context, |stream| act(stream, &visitor));
    if context.settle(visitor.verdict.get()) {
        // SAFETY: the request lives as long as its context, which may have ended after the phases, but not the connection: nginx
        // frees it when the loop comes round.
        unsafe {
            let connection = (*context.request).connection;
            context.run();
            ngx_http_run_posted_requests(connection);
        }
    }
}

/// Sends an answer whose headers are written, and ends the request.
///
/// # Safety
/// It must be a request in the phase of the module. It may have ended afterwards.
unsafe fn send(r: *mut ngx_http_request_t, page: ngx_str_t) -> ngx_int_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let sent = output(r, page);
        ngx_http_finalize_request(r, sent);
    }
    DONE
}

/// Sends an answer whose headers are written.
///
/// # Safety
/// It must be a request that lives.
unsafe fn output(r: *mut ngx_http_request_t, page: ngx_str_t) -> ngx_int_t {
    // SAFETY: guaranteed by the caller. The chain is read during the call only.
    unsafe {
        // Else the rest of the body would be read as the next request.
        let discarded = ngx_http_discard_request_body(r);
        if discarded != OK {
            return discarded;
        }
        if page.len == 0 {
            (*r).set_header_only(1);
        }
        let sent = ngx_http_send_header(r);
        // NGX_AGAIN: the header waits to be sent, and the page follows it.
        if sent == ERROR || sent > OK || (*r).header_only() != 0 {
            return sent;
        }
        let buffer: *mut ngx_buf_t = ngx_pcalloc((*r).pool, size_of::<ngx_buf_t>()).cast();
        if buffer.is_null() {
            return ERROR;
        }
        (*buffer).start = page.data;
        (*buffer).pos = page.data;
        (*buffer).last = page.data.add(page.len);
        (*buffer).end = (*buffer).last;
        (*buffer).set_memory(1);
        (*buffer).set_last_buf((r == (*r).main).into());
        (*buffer).set_last_in_chain(1);
        let mut chain = ngx_chain_t {
            buf: buffer,
            next: ptr::null_mut(),
        };
        ngx_http_output_filter(r, &raw mut chain)
    }
}

/// Answers a request for metrics, as what its location has.
pub(super) unsafe extern "C" fn answer_metrics(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx passes a request that lives.
    unsafe {
        let Some(zone) = zone_of(r) else {
            return 404;
        };
        let Ok(text) = panics::catch("metrics", || zone.metrics().text(processes::is_alive)) else {
            return SERVER_ERROR;
        };
        let Some(page) = ngx_str_t::from_bytes((*r).pool, text.as_bytes()) else {
            return SERVER_ERROR;
        };
        let content_type = b"text/plain; version=0.0.4";
        (*r).headers_out.content_type = ngx_str_t {
            len: content_type.len(),
            data: content_type.as_ptr().cast_mut(),
        };
        (*r).headers_out.content_type_len = b"text/plain".len();
        (*r).headers_out.status = 200;
        (*r).headers_out.content_length_n = page.len as _;
        output(r, page)
    }
}
