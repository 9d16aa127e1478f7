//! The module as nginx sees it: directives, configurations, and begin and end of processes.

use super::worker::{self, Running};
use super::zone::Zone;
use super::{ERROR, OK, request, variables, wake, zone};
use edgelink_filter_core::settings::Settings;
use edgelink_process::{HostLog, panics};
use edgelink_wire::settings::InvalidField;
use nginx_sys::{
    NGX_CONF_NOARGS, NGX_CONF_TAKE1, NGX_HTTP_LOC_CONF, NGX_HTTP_LOC_CONF_OFFSET,
    NGX_HTTP_MAIN_CONF, NGX_HTTP_MAIN_CONF_OFFSET, NGX_HTTP_MODULE, NGX_HTTP_SRV_CONF, NGX_LOG_ERR,
    NGX_LOG_WARN, NGX_PROCESS_SINGLE, NGX_PROCESS_WORKER, ngx_array_push, ngx_command_t,
    ngx_conf_full_name, ngx_conf_t, ngx_cycle, ngx_cycle_t, ngx_http_conf_ctx_t,
    ngx_http_core_loc_conf_t, ngx_http_core_main_conf_t, ngx_http_core_module, ngx_http_handler_pt,
    ngx_http_module, ngx_http_module_t, ngx_http_phases_NGX_HTTP_PRECONTENT_PHASE,
    ngx_http_request_t, ngx_int_t, ngx_log_error_core, ngx_module_t, ngx_parse_size, ngx_pcalloc,
    ngx_pnalloc, ngx_pool_cleanup_add, ngx_process, ngx_str_t, ngx_terminate, ngx_uint_t,
};
use std::cell::OnceCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, addr_of, addr_of_mut, null, null_mut};
use std::{mem, slice};

/// The configuration of a cycle of nginx. It ends with the cycle.
#[derive(Default)]
pub(crate) struct MainConfig {
    roots: Vec<SettingsFile>,
    /// Size of the zone in bytes; `None` for the default.
    zone_size: Option<usize>,
    zone: Option<Zone>,
    /// True if a request may say that it is part of a trace; `None` without the directive.
    trace_parents: Option<bool>,
    /// The edges of this worker process, in the order of the roots; `None` for one that could not begin.
    running: OnceCell<Vec<Option<Running>>>,
}

/// A file of settings.
pub(crate) struct SettingsFile {
    pub(crate) file: String,
    pub(crate) settings: Settings,
}

/// The configuration of a location, in memory that nginx has zeroed.
#[repr(C)]
struct LocationConfig {
    /// [`UNSET`], [`OFF`], or from [`FIRST_ROOT`] on the place of its root.
    root: usize,
}

const UNSET: usize = 0;
const OFF: usize = 1;
const FIRST_ROOT: usize = 2;

/// Writes to the error log of the cycle, from any thread.
fn write_log(level: log::Level, message: &str) {
    let level = match level {
        log::Level::Error => NGX_LOG_ERR,
        _ => NGX_LOG_WARN,
    };
    let text = ngx_str_t {
        len: message.len(),
        data: message.as_ptr().cast_mut(),
    };
    // SAFETY: the cycle and its log live as long as the threads of the module; a line is written by one system call.
    unsafe {
        let log = (*ngx_cycle).log;
        if (*log).log_level >= level as usize {
            ngx_log_error_core(
                level as _,
                log,
                0,
                c"edgelink: %V".as_ptr(),
                &raw const text,
            );
        }
    }
}

/// The index of the module among those of HTTP.
pub(super) fn index() -> usize {
    // SAFETY: nginx sets it before it calls anything of the module, and never again.
    unsafe { (*addr_of!(MODULE)).ctx_index }
}

/// The place of a request's root, and the edge of it, if its location has one.
///
/// # Safety
/// It must be a request that nginx has passed to the module.
pub(super) unsafe fn running_of<'r>(r: *mut ngx_http_request_t) -> Option<(usize, &'r Running)> {
    // SAFETY: nginx has created both configurations by the hooks below.
    unsafe {
        let location: *const LocationConfig = (*(*r).loc_conf.add(index())).cast();
        let place = (*location).root.checked_sub(FIRST_ROOT)?;
        let main: *const MainConfig = (*(*r).main_conf.add(index())).cast();
        let running = (*main).running.get()?.get(place)?.as_ref()?;
        Some((place, running))
    }
}

/// True if the request may say that it is part of a trace.
///
/// # Safety
/// It must be a request that nginx has passed to the module.
pub(super) unsafe fn believes_trace_parents(r: *mut ngx_http_request_t) -> bool {
    // SAFETY: nginx has created the configuration by the hook below.
    unsafe {
        let main: *const MainConfig = (*(*r).main_conf.add(index())).cast();
        (*main).trace_parents == Some(true)
    }
}

/// The zone of a request's cycle.
///
/// # Safety
/// It must be a request that nginx has passed to the module.
pub(super) unsafe fn zone_of(r: *mut ngx_http_request_t) -> Option<Zone> {
    // SAFETY: nginx has created the configuration by the hook below.
    unsafe {
        let main: *const MainConfig = (*(*r).main_conf.add(index())).cast();
        (*main).zone
    }
}

/// Copies bytes into a pool; null if there is no memory.
///
/// # Safety
/// The pool must live.
unsafe fn copy_into(pool: *mut nginx_sys::ngx_pool_t, bytes: &[u8]) -> *mut u8 {
    // SAFETY: guaranteed by the caller; there is room for as many bytes.
    unsafe {
        let copy: *mut u8 = ngx_pnalloc(pool, bytes.len()).cast();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        }
        copy
    }
}

/// Refusal of a directive's arguments: nginx writes the text behind its name, with the place, and does not start.
///
/// # Safety
/// It must be the configuration that is being read.
unsafe fn refuse(cf: *mut ngx_conf_t, reason: &str) -> *mut c_char {
    let reason: Vec<u8> = reason
        .bytes()
        .filter(|byte| *byte != 0)
        .chain([0])
        .collect();
    // SAFETY: guaranteed by the caller.
    let copy = unsafe { copy_into((*cf).pool, &reason) };
    if copy.is_null() {
        return ptr::without_provenance_mut(usize::MAX); // NGX_CONF_ERROR
    }
    copy.cast()
}

/// # Safety
/// It must be the configuration that is being read.
unsafe fn main_of<T>(cf: *mut ngx_conf_t, index: usize) -> *mut T {
    // SAFETY: guaranteed by the caller: within `http` its context is that of HTTP.
    unsafe {
        let context: *mut ngx_http_conf_ctx_t = (*cf).ctx.cast();
        (*(*context).main_conf.add(index)).cast()
    }
}

/// # Safety
/// It must be the configuration that is being read, at a directive with that argument.
unsafe fn argument(cf: *mut ngx_conf_t) -> ngx_str_t {
    // SAFETY: guaranteed by the caller; the name of the directive comes first.
    unsafe { *(*(*cf).args).elts.cast::<ngx_str_t>().add(1) }
}

/// `edgelink FILE | off`.
unsafe extern "C" fn set_edgelink(
    cf: *mut ngx_conf_t,
    _: *mut ngx_command_t,
    location: *mut c_void,
) -> *mut c_char {
    // SAFETY: nginx calls this for the directive, with what the hooks below have created. The name ends with a zero.
    unsafe {
        let location: *mut LocationConfig = location.cast();
        if (*location).root != UNSET {
            return refuse(cf, "is duplicate");
        }
        let mut name = argument(cf);
        if name.as_bytes() == b"off" {
            (*location).root = OFF;
            return null_mut();
        }
        if ngx_conf_full_name((*cf).cycle, &raw mut name, 1) != OK {
            return refuse(cf, "has no memory");
        }
        let main: *mut MainConfig = main_of(cf, index());
        let file = String::from_utf8_lossy(name.as_bytes()).into_owned();
        let place = panics::catch("settings", || (*main).place_of(file));
        match place {
            Ok(Ok(place)) => (*location).root = FIRST_ROOT + place,
            Ok(Err(wrong)) => return refuse(cf, &wrong),
            Err(_) => return refuse(cf, "could not be read: the module has panicked"),
        }
        null_mut()
    }
}

impl MainConfig {
    /// The place of a file among the roots, which it joins the first time.
    fn place_of(&mut self, file: String) -> Result<usize, String> {
        if let Some(place) = self.roots.iter().position(|root| root.file == file) {
            return Ok(place);
        }
        let wrong = |reason: &dyn std::fmt::Display| format!("{file}: {reason}");
        let json = std::fs::read(&file).map_err(|error| wrong(&error))?;
        let settings = Settings::parse(&json).and_then(|settings| settings.for_process(1));
        let settings = settings.map_err(|error| wrong(&error))?;
        edgelink_process::check(&settings).map_err(|InvalidField { field, reason }| {
            wrong(&format_args!("field '{field}': {reason}"))
        })?;
        self.roots.push(SettingsFile { file, settings });
        Ok(self.roots.len() - 1)
    }
}

/// `edgelink_metrics`.
unsafe extern "C" fn set_metrics(
    cf: *mut ngx_conf_t,
    _: *mut ngx_command_t,
    location: *mut c_void,
) -> *mut c_char {
    // SAFETY: the directive stands in a location only, whose context is that of HTTP, and whose configuration a hook below has created.
    unsafe {
        let location: *mut LocationConfig = location.cast();
        if (*location).root != UNSET {
            return refuse(cf, "must stand in a location of its own");
        }
        (*location).root = OFF;
        let context: *mut ngx_http_conf_ctx_t = (*cf).ctx.cast();
        let core = (*context)
            .loc_conf
            .add((*addr_of!(ngx_http_core_module)).ctx_index);
        let core: *mut ngx_http_core_loc_conf_t = (*core).cast();
        (*core).handler = Some(request::answer_metrics);
    }
    null_mut()
}

/// `edgelink_zone SIZE`.
unsafe extern "C" fn set_zone(
    cf: *mut ngx_conf_t,
    _: *mut ngx_command_t,
    main: *mut c_void,
) -> *mut c_char {
    // SAFETY: nginx calls this for the directive, with what the hook below has created.
    unsafe {
        let main: *mut MainConfig = main.cast();
        if (*main).zone_size.is_some() {
            return refuse(cf, "is duplicate");
        }
        let mut size = argument(cf);
        match usize::try_from(ngx_parse_size(&raw mut size)) {
            Ok(size) if size >= zone::MIN_SIZE => (*main).zone_size = Some(size),
            Ok(_) => return refuse(cf, zone::TOO_SMALL),
            Err(_) => return refuse(cf, "must have a size such as 32m"),
        }
    }
    null_mut()
}

/// `edgelink_trace_parents on | off`.
unsafe extern "C" fn set_trace_parents(
    cf: *mut ngx_conf_t,
    _: *mut ngx_command_t,
    main: *mut c_void,
) -> *mut c_char {
    // SAFETY: nginx calls this for the directive, with what the hook below has created.
    unsafe {
        let main: *mut MainConfig = main.cast();
        let value = match argument(cf).as_bytes() {
            b"on" => true,
            b"off" => false,
            _ => return refuse(cf, "must be on or off"),
        };
        if (*main).trace_parents.replace(value).is_some() {
            return refuse(cf, "is duplicate");
        }
    }
    null_mut()
}

/// Ends with the pool of its cycle.
unsafe extern "C" fn free_main(main: *mut c_void) {
    // SAFETY: it is the box that the hook below has put there, and a pool cleans up once.
    let main: Box<MainConfig> = unsafe { Box::from_raw(main.cast()) };
    let _counted = panics::catch("forget_settings", || drop(main));
}

unsafe extern "C" fn create_main(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: the pool is that of the cycle.
    unsafe {
        let cleanup = ngx_pool_cleanup_add((*cf).pool, 0);
        if cleanup.is_null() {
            return null_mut();
        }
        let main: *mut c_void = Box::into_raw(Box::<MainConfig>::default()).cast();
        (*cleanup).handler = Some(free_main);
        (*cleanup).data = main;
        main
    }
}

unsafe extern "C" fn create_location(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: the pool is that of the cycle. Zeros are a location without the directive.
    unsafe { ngx_pcalloc((*cf).pool, size_of::<LocationConfig>()) }
}

unsafe extern "C" fn merge_location(
    _: *mut ngx_conf_t,
    outer: *mut c_void,
    inner: *mut c_void,
) -> *mut c_char {
    // SAFETY: both were created by the hook above.
    unsafe {
        let (outer, inner): (*mut LocationConfig, *mut LocationConfig) =
            (outer.cast(), inner.cast());
        if (*inner).root == UNSET {
            (*inner).root = (*outer).root;
        }
    }
    null_mut()
}

unsafe extern "C" fn before_configuration(cf: *mut ngx_conf_t) -> ngx_int_t {
    static LOG: HostLog = HostLog::new(write_log);
    LOG.install();
    // SAFETY: variables may be added now.
    unsafe { variables::add(cf) }
}

unsafe extern "C" fn after_configuration(cf: *mut ngx_conf_t) -> ngx_int_t {
    // SAFETY: the configurations are complete, and phases and zones may be added now.
    unsafe {
        let core: *mut ngx_http_core_main_conf_t =
            main_of(cf, (*addr_of!(ngx_http_core_module)).ctx_index);
        let phase = ngx_http_phases_NGX_HTTP_PRECONTENT_PHASE as usize;
        let phases = &raw mut (*core).phases;
        let handlers = &raw mut (*phases.cast::<nginx_sys::ngx_http_phase_t>().add(phase)).handlers;
        let place: *mut ngx_http_handler_pt = ngx_array_push(handlers).cast();
        if place.is_null() {
            return ERROR;
        }
        place.write(Some(request::decide));
        let main: *mut MainConfig = main_of(cf, index());
        let is_used = !(*main).roots.is_empty();
        let described = variables::used(core);
        for root in &mut (*main).roots {
            let others = described
                .iter()
                .filter(|it| !root.settings.describe.contains(it));
            let others: Vec<_> = others.copied().collect();
            root.settings.describe.extend(others);
        }
        if is_used || (*main).zone_size.is_some() {
            let size = (*main).zone_size.unwrap_or(zone::DEFAULT_SIZE);
            (*main).zone = Zone::add(cf, size, addr_of_mut!(MODULE).cast());
            if (*main).zone.is_none() {
                return ERROR;
            }
        }
        OK
    }
}

/// The configuration of the `http` of a cycle; `None` without one.
///
/// # Safety
/// It must be a cycle that nginx has passed to a hook.
unsafe fn configured<'c>(cycle: *mut ngx_cycle_t) -> Option<&'c MainConfig> {
    // SAFETY: guaranteed by the caller. Without `http` there is no context.
    unsafe {
        let http = *(*cycle).conf_ctx.add((*addr_of!(ngx_http_module)).index);
        let http: *mut ngx_http_conf_ctx_t = http.cast();
        let main = (*http.as_ref()?.main_conf.add(index())).cast::<MainConfig>();
        main.as_ref().filter(|main| !main.roots.is_empty())
    }
}

/// A process of nginx begins. The cache manager and the cache loader come here too.
unsafe extern "C" fn begin_process(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    // SAFETY: nginx passes the cycle of the process.
    unsafe {
        let is_worker = [NGX_PROCESS_WORKER, NGX_PROCESS_SINGLE].contains(&(ngx_process as u32));
        let Some(main) = configured(cycle).filter(|_| is_worker) else {
            return OK;
        };
        if wake::begin(cycle) != OK {
            return ERROR;
        }
        let begun = wake::without_signals(|| {
            panics::catch("begin_process", || worker::begin(&main.roots, main.zone))
        });
        // After a panic, requests pass.
        let _is_first = main.running.set(begun.unwrap_or_default());
        OK
    }
}

/// It ends.
unsafe extern "C" fn end_process(cycle: *mut ngx_cycle_t) {
    // SAFETY: nginx passes the cycle of the process.
    unsafe {
        if configured(cycle).is_some_and(|main| main.running.get().is_some()) {
            let is_at_once = ngx_terminate != 0;
            let _counted = panics::catch("end_process", || worker::end(is_at_once));
            wake::end();
        }
    }
}

const fn name(name: &'static CStr) -> ngx_str_t {
    let bytes = name.to_bytes();
    ngx_str_t {
        len: bytes.len(),
        data: bytes.as_ptr().cast_mut(),
    }
}

/// A directive that stands in these places with these arguments.
const fn directive(
    name: ngx_str_t,
    places_and_arguments: u32,
    set: SetDirective,
    conf: usize,
) -> ngx_command_t {
    ngx_command_t {
        name,
        type_: places_and_arguments as ngx_uint_t,
        set: Some(set),
        conf,
        ..ngx_command_t::empty()
    }
}

type SetDirective =
    unsafe extern "C" fn(*mut ngx_conf_t, *mut ngx_command_t, *mut c_void) -> *mut c_char;

static mut COMMANDS: [ngx_command_t; 5] = {
    const AT_ONE: u32 = NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS;
    const OF_HTTP: u32 = NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1;
    const ANYWHERE: u32 =
        NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1;
    const LOCATION: usize = NGX_HTTP_LOC_CONF_OFFSET;
    const MAIN: usize = NGX_HTTP_MAIN_CONF_OFFSET;
    [
        directive(name(c"edgelink"), ANYWHERE, set_edgelink, LOCATION),
        directive(name(c"edgelink_metrics"), AT_ONE, set_metrics, LOCATION),
        directive(name(c"edgelink_zone"), OF_HTTP, set_zone, MAIN),
        directive(
            name(c"edgelink_trace_parents"),
            OF_HTTP,
            set_trace_parents,
            MAIN,
        ),
        ngx_command_t::empty(),
    ]
};

static HOOKS: ngx_http_module_t = ngx_http_module_t {
    preconfiguration: Some(before_configuration),
    postconfiguration: Some(after_configuration),
    create_main_conf: Some(create_main),
    create_loc_conf: Some(create_location),
    merge_loc_conf: Some(merge_location),
    // SAFETY: the other hooks are not there, and zeros are that.
    ..unsafe { mem::zeroed() }
};

static mut MODULE: ngx_module_t = ngx_module_t {
    ctx: addr_of!(HOOKS).cast_mut().cast(),
    commands: addr_of_mut!(COMMANDS).cast(),
    type_: NGX_HTTP_MODULE as ngx_uint_t,
    init_process: Some(begin_process),
    exit_process: Some(end_process),
    ..ngx_module_t::default()
};

/// The modules of this file, as nginx looks for them.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ngx_modules: [*const ngx_module_t; 2] = [addr_of!(MODULE), null()];

/// Their names.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ngx_module_names: [*const c_char; 2] = [c"ngx_http_edgelink_module".as_ptr(), null()];

/// The place of each among the others, which matters for filters only.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static mut ngx_module_order: [*const c_char; 1] = [null()];

/// The bytes of a string of nginx.
///
/// # Safety
/// They must be valid for `'s`.
pub(super) unsafe fn bytes_of<'s>(string: &ngx_str_t) -> &'s [u8] {
    if string.data.is_null() || string.len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { slice::from_raw_parts(string.data, string.len) }
}
