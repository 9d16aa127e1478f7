//! Listeners that Envoy reads from a file, so that a test can change, remove and restore them while it runs.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Markers before and after the listener in the bootstrap.
const BEGIN: &str = "  listeners:\n";
const END: &str = "\n  clusters:\n";
/// Marker before the plugin configuration in the listener.
const PLUGIN: &str = "value: \"";

/// The file that Envoy watches.
#[derive(Debug)]
pub(crate) struct ListenerFile {
    path: PathBuf,
    original: Listener,
}

/// The listener `edge` of the bootstrap, or a variant of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    text: String,
    port: u16,
}

impl ListenerFile {
    /// Moves the listener from a filled-in bootstrap to a file in `folder`. Returns the bootstrap that reads it from
    /// there.
    pub(crate) fn take_out(bootstrap: &str, port: u16, folder: &Path) -> (Self, String) {
        let (head, rest) = bootstrap.split_once(BEGIN).expect("listeners");
        let (listener, tail) = rest.split_once(END).expect("clusters behind the listeners");
        let file = Self {
            path: folder.join("listeners.yaml"),
            original: Listener {
                text: listener.to_owned(),
                port,
            },
        };
        file.write(std::slice::from_ref(&file.original));
        let path = serde_json::to_string(&file.path).expect("a path of text");
        let dynamic = format!(
            "dynamic_resources:\n  lds_config: {{ path_config_source: {{ path: {path} }} }}\n"
        );
        (file, format!("{dynamic}\n{head}{END}{tail}"))
    }

    /// The listener as in the bootstrap.
    pub(crate) fn original(&self) -> &Listener {
        &self.original
    }

    /// Has Envoy replace all its listeners by these at once: it reloads the file when it is replaced.
    pub(crate) fn write(&self, listeners: &[Listener]) {
        let resources: String = listeners.iter().map(Listener::resource).collect();
        let text = match listeners {
            [] => "resources: []\n".to_owned(),
            _ => format!("resources:\n{resources}"),
        };
        let next = self.path.with_extension("next");
        fs::write(&next, text).expect("a file");
        fs::rename(&next, &self.path).expect("a file");
    }
}

impl Listener {
    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The plugin configuration.
    #[must_use]
    pub fn plugin_configuration(&self) -> Value {
        self.split_plugin().1
    }

    /// The plugin configuration, with the text before and after it.
    fn split_plugin(&self) -> (&str, Value, &str) {
        let (head, rest) = self.text.split_once(PLUGIN).expect("a plugin");
        let (json, tail) = rest.split_once('\n').expect("a line that ends");
        let json: String = serde_json::from_str(&format!("\"{json}")).expect("a quoted text");
        (head, serde_json::from_str(&json).expect("JSON"), tail)
    }

    /// A copy with another value of a field of the plugin configuration.
    #[must_use]
    pub fn plugin(&self, field: &str, value: impl Into<Value>) -> Self {
        let (head, mut plugin, tail) = self.split_plugin();
        plugin[field] = value.into();
        let json = serde_json::to_string(&plugin.to_string()).expect("a text");
        let json = json.trim_start_matches('"');
        Self {
            text: format!("{head}{PLUGIN}{json}\n{tail}"),
            port: self.port,
        }
    }

    /// A copy under another name and on another port.
    #[must_use]
    pub fn beside(&self, name: &str, port: u16) -> Self {
        let from = format!("port_value: {} ", self.port);
        assert!(self.text.contains(&from), "the port");
        let text = self
            .text
            .replacen(&from, &format!("port_value: {port} "), 1);
        Self {
            text: text.replacen("- name: edge\n", &format!("- name: {name}\n"), 1),
            port,
        }
    }

    /// A copy that Envoy refuses, but only after it has created the plugin: the filter is followed by two routers, and a
    /// router must be the last filter.
    #[must_use]
    pub fn refused(&self) -> Self {
        const ROUTER: &str = "          - name: envoy.filters.http.router\n";
        let router = format!(
            "{ROUTER}            typed_config:\n              \"@type\": \
             type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n{ROUTER}"
        );
        assert!(self.text.contains(ROUTER), "a router");
        Self {
            text: self.text.replacen(ROUTER, &router, 1),
            port: self.port,
        }
    }

    /// The listener as an element of the list `resources`.
    fn resource(&self) -> String {
        const TYPE: &str = "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n";
        let lines = self.text.lines().map(|line| {
            let line = line.strip_prefix("  ").unwrap_or(line);
            match line.strip_prefix("- name:") {
                Some(name) => format!("  name:{name}\n"),
                None => format!("{line}\n"),
            }
        });
        lines.fold(TYPE.to_owned(), |text, line| text + &line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn original() -> Listener {
        Listener {
            text: concat!(
                "  - name: edge\n",
                "    address: { port_value: 80 }\n",
                "    http_filters:\n",
                "          - name: edgelink\n",
                "            value: \"{\\\"a\\\": 1}\"\n",
                "          - name: envoy.filters.http.router\n",
                "            typed_config: {}\n",
            )
            .to_owned(),
            port: 80,
        }
    }

    #[test]
    fn listener_when_made_a_resource_has_name_and_port() {
        let resource = original().beside("other", 81).resource();
        let head = "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: other\n  address: \
                    { port_value: 81 }\n";
        assert!(resource.starts_with(head), "{resource}");
        assert!(
            resource.contains("\n        - name: edgelink\n"),
            "{resource}"
        );
    }

    #[test]
    fn plugin_field_when_set_is_changed_or_added() {
        let changed = original().plugin("a", 2).plugin("b", "\"");
        assert!(
            changed
                .text
                .contains(r#"value: "{\"a\":2,\"b\":\"\\\"\"}""#),
            "{}",
            changed.text
        );
        assert_eq!(
            changed.plugin("b", "x").plugin("a", 2),
            original().plugin("b", "x").plugin("a", 2)
        );
    }

    #[test]
    fn listener_when_refused_has_two_routers() {
        let text = original().refused().text;
        assert_eq!(text.matches("name: envoy.filters.http.router").count(), 2);
    }
}
