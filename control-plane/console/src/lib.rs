//! The WebAssembly module of the console's pages: the checks of the API while a form is filled in and the dry run of rules, by
//! the code of edgelink-wire that API and edges run; charts; QR codes.
//!
//! The functions here are called by `console/assets/console.js`. They take and return texts, JSON for more than one value; a
//! refusal is thrown as the text of its reason. The other modules do not depend on browsers and are tested natively.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod chart;
pub mod dry_run;
mod json;
pub mod qr;
pub mod settings;

use settings::ConsoleSettings;
use wasm_bindgen::prelude::wasm_bindgen;

/// The checks of links by the settings of an installation.
#[wasm_bindgen]
pub struct Checks(ConsoleSettings);

#[wasm_bindgen]
impl Checks {
    /// Reads the settings, JSON embedded in a page.
    ///
    /// # Errors
    /// The reason why they are invalid.
    #[wasm_bindgen(constructor)]
    pub fn new(settings: &str) -> Result<Self, String> {
        ConsoleSettings::read(settings).map(Self)
    }

    /// Checks an alias.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn slug(&self, text: &str) -> Result<(), String> {
        settings::check_slug(text)
    }

    /// Checks the domain of a new link; returns its normal form.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn domain(&self, text: &str) -> Result<String, String> {
        self.0.check_domain(text)
    }

    /// Checks a target; returns it in the form sent to visitors.
    ///
    /// # Errors
    /// The reason why it is refused.
    pub fn target(&self, text: &str) -> Result<String, String> {
        self.0.check_target(text)
    }

    /// Checks rules, which are JSON; returns all errors as a list of `{"path", "reason"}`.
    #[must_use]
    pub fn rules(&self, text: &str) -> String {
        settings::as_json(&self.0.read_rules(text).err().unwrap_or_default())
    }

    /// Evaluates a link with these rules for a visitor; see [`dry_run::run`].
    ///
    /// # Errors
    /// The reason why link, rules or visitor are invalid.
    pub fn dry_run(&self, link: &str, rules: &str, visitor: &str) -> Result<String, String> {
        let rules = self.0.read_rules(rules);
        let rules = rules.map_err(|errors| settings::first_reason(&errors))?;
        dry_run::run(link, &rules, visitor)
    }
}

/// Merges the query of a visitor into the target, as edges do.
#[wasm_bindgen]
#[must_use]
pub fn merge_query(target: &str, query: &str) -> String {
    let query = query.strip_prefix('?').unwrap_or(query);
    edgelink_wire::query::merge(target, query.as_bytes()).into_owned()
}

/// Draws a chart of `[[time, number], ...]` as SVG; see [`chart::draw`].
///
/// # Errors
/// The reason why the points are invalid.
#[wasm_bindgen]
pub fn chart(points: &str, title: &str) -> Result<String, String> {
    chart::read(points).map(|points| chart::draw(&points, title))
}

/// Draws a QR code as SVG; see [`qr::Options`].
///
/// # Errors
/// The invalid option, or a text that is too long.
#[wasm_bindgen]
pub fn qr(text: &str, options: &str) -> Result<String, String> {
    qr::Options::read(options)?.draw(text)
}
