//! The variables `$edgelink_outcome`, `$edgelink_tier` and `$edgelink_key`.
//!
//! The edge describes a request only in the words that the configuration uses, so that the others cost nothing.

use super::conf::bytes_of;
use super::request::Context;
use super::{ERROR, OK};
use edgelink_filter_core::settings::Described;
use nginx_sys::{
    NGX_HTTP_VAR_NOCACHEABLE, ngx_conf_t, ngx_http_add_variable, ngx_http_core_main_conf_t,
    ngx_http_request_t, ngx_http_variable_t, ngx_int_t, ngx_str_t, ngx_variable_value_t,
};
use std::ffi::CStr;

/// The variables, at the places of their values in a [`Context`].
const VARIABLES: [(&CStr, Described); 3] = [
    (c"edgelink_outcome", Described::Outcome),
    (c"edgelink_tier", Described::Tier),
    (c"edgelink_key", Described::Key),
];

/// The place of a value.
pub(super) fn place(what: Described) -> usize {
    match what {
        Described::Outcome => 0,
        Described::Tier => 1,
        Described::Key => 2,
    }
}

/// Adds them.
///
/// # Safety
/// It must be called before a configuration is read, with it.
pub(super) unsafe fn add(cf: *mut ngx_conf_t) -> ngx_int_t {
    for (name, what) in VARIABLES {
        let mut name = ngx_str_t {
            len: name.count_bytes(),
            data: name.as_ptr().cast_mut().cast(),
        };
        // SAFETY: guaranteed by the caller. nginx copies the name.
        unsafe {
            let variable =
                ngx_http_add_variable(cf, &raw mut name, NGX_HTTP_VAR_NOCACHEABLE as usize);
            if variable.is_null() {
                return ERROR;
            }
            (*variable).get_handler = Some(get);
            (*variable).data = place(what);
        }
    }
    OK
}

/// The words used by the configuration that was read.
///
/// # Safety
/// It must be called after a configuration was read.
pub(super) unsafe fn used(core: *const ngx_http_core_main_conf_t) -> Vec<Described> {
    // SAFETY: guaranteed by the caller.
    let used: &[ngx_http_variable_t] = unsafe { (*core).variables.as_slice() };
    let is_used = |name: &CStr| {
        // SAFETY: names of variables live as long as the configuration.
        used.iter()
            .any(|it| unsafe { bytes_of(&it.name) } == name.to_bytes())
    };
    let used = VARIABLES.iter().filter(|(name, _)| is_used(name));
    used.map(|(_, what)| *what).collect()
}

/// Gives the value at the place `data`.
unsafe extern "C" fn get(
    r: *mut ngx_http_request_t,
    to: *mut ngx_variable_value_t,
    data: usize,
) -> ngx_int_t {
    // SAFETY: nginx passes a request that lives, and a value to be set, which lives as long as it.
    unsafe {
        let context = Context::of((*r).main);
        let value = context.and_then(|context| context.described(data));
        match value {
            Some(value) => {
                (*to).set_len(u32::try_from(value.len).unwrap_or_default());
                (*to).data = value.data;
                (*to).set_valid(1);
                (*to).set_no_cacheable(0);
                (*to).set_not_found(0);
            }
            None => (*to).set_not_found(1),
        }
    }
    OK
}
