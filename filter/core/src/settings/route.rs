//! Settings of a route, for hosts with routes, such as the native module.

use super::{Settings, SettingsError, read};
use edgelink_wire::{Domain, DomainSet, LinkPaths, LinkPrefix};

edgelink_wire::settings! {
    camel_case;

    /// The configuration on a route, a virtual host or a weighted cluster.
    pub struct Route {
        /// Lets requests pass untouched.
        pub disabled: bool = false;
        /// Replaces `domains` of the plugin, unless it is empty.
        pub domains: Vec<Domain> = Vec::new();
        /// Replaces `prefix` of the plugin.
        pub prefix: Option<LinkPrefix> = None;
    }
}

impl Route {
    /// Reads it.
    ///
    /// # Errors
    /// The [`SettingsError`] that names the invalid fields.
    pub fn parse(json: &[u8]) -> Result<Self, SettingsError> {
        read(json)
    }

    /// The settings on this route.
    #[must_use]
    pub fn settings(&self, plugin: &Settings) -> Settings {
        let of_plugin = plugin.paths.clone().unwrap_or_default();
        let prefix = self.prefix.clone().unwrap_or(of_plugin.prefix);
        let domains = match self.domains.as_slice() {
            [] => plugin.domains.clone(),
            domains => DomainSet::new(domains),
        };
        Settings {
            domains,
            paths: LinkPaths::unless_plain(prefix, of_plugin.trailing_slash),
            ..plugin.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin() -> Settings {
        let json =
            br#"{"domains":["go.example"],"controlPlane":{"cluster":"c"},"trailingSlash":true}"#;
        Settings::parse(json).unwrap()
    }

    #[test]
    fn route_when_it_sets_domains_and_prefix_keeps_the_rest() {
        let route = br#"{"domains":["a.example","b.example"],"prefix":"/s/"}"#;
        let settings = Route::parse(route).unwrap().settings(&plugin());
        let domains: Vec<_> = settings.domains.iter().map(Domain::as_str).collect();
        assert_eq!(domains, ["a.example", "b.example"]);
        let paths = settings.paths.unwrap();
        assert_eq!((paths.prefix.as_str(), paths.trailing_slash), ("/s/", true));
        assert_eq!(settings.control_plane.cluster, "c");
    }

    #[test]
    fn route_when_empty_is_that_of_the_plugin() {
        let route = Route::parse(b"{}").unwrap();
        assert!(!route.disabled);
        let settings = route.settings(&plugin());
        assert_eq!(settings.domains, plugin().domains);
        assert_eq!(settings.paths, plugin().paths);
    }

    #[test]
    fn field_when_wrong_is_named() {
        for (json, field) in [
            (&br#"{"prefix":"s"}"#[..], "prefix"),
            (br#"{"domain":"x"}"#, "domain"),
            (br#"{"domains":["a b"]}"#, "domains"),
            (br#"{"disabled":1}"#, "disabled"),
        ] {
            let error = Route::parse(json).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
