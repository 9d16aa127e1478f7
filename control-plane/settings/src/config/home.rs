//! Settings of pages that visitors write to: the home page, and reports of abuse.

use super::value::FileText;
use edgelink_model::token_bucket::Budget;
use edgelink_wire::settings::Problems;

edgelink_wire::settings! {
    snake_case;

    /// The home page of domains, and links that visitors create there.
    pub struct HomeConfig {
        /// Whether `/` of a domain without `rootUrl`, or the path that is `links.prefix`, is a page. Otherwise it is 404.
        pub page: bool = false;
        /// A file with an API key by which visitors create links on that page: role, quota, domains and tags of the key are
        /// theirs, and so is its tenant. Give it the role `creator`. Without a key they create none.
        pub stranger_key_file: Option<FileText> = None, "/etc/edgelink/home-key";
        /// How long links of visitors last.
        pub stranger_days: u64 = 30, 1..=3_650;
        /// Whether visitors may choose an alias.
        pub stranger_aliases: bool = false;
        /// The longest target of a visitor, in bytes.
        pub stranger_max_length: usize = 2_048, 100..=8_000;
        /// Links that an address (IPv6: a /64; a /56 four times, a /48 16 times as many) may create within an hour.
        pub stranger_per_hour: u32 = 10, 1..=1_000_000;
        /// Links that all visitors together may create within an hour.
        pub strangers_per_hour: u32 = 1_000, 1..=1_000_000;
    }

    /// Reports of abuse by visitors.
    pub struct ReportsConfig {
        /// Whether visitors can report a link, from its preview.
        pub enabled: bool = true;
        /// Reports that are kept. Of more, the ones go that the operator closed first; while all are open for the operator, no more are taken.
        pub max_reports: u64 = 10_000, 1..=1_000_000;
        /// Reports of an address (IPv6: a /64; a /56 four times, a /48 16 times as many) within an hour.
        pub per_hour: u32 = 5, 1..=1_000_000;
        /// Reports of all addresses together within an hour.
        pub all_per_hour: u32 = 500, 1..=1_000_000;
    }
}

impl HomeConfig {
    /// The key with which visitors create links.
    #[must_use]
    pub fn stranger_key(&self) -> Option<&str> {
        self.stranger_key_file
            .as_ref()
            .map(|file| file.text().trim())
    }

    /// Budget of links that visitors create: `stranger_per_hour` and `strangers_per_hour`.
    pub fn budget(&self) -> Budget {
        Budget::hourly("home", self.stranger_per_hour, self.strangers_per_hour)
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let Some(key) = self.stranger_key() else {
            return;
        };
        if !key.starts_with("edgelink_") || key.contains(char::is_whitespace) {
            let reason = "must name a file with an API key, from: edgelink keys create, or POST /api/v1/keys";
            problems.refuse("home.stranger_key_file", reason);
        }
        if !self.page {
            let reason = "has no effect while home.page is false";
            problems.refuse("home.stranger_key_file", reason);
        }
    }
}

impl ReportsConfig {
    /// Budget of reports by visitors: `per_hour` and `all_per_hour`.
    pub fn budget(&self) -> Budget {
        Budget::hourly("report", self.per_hour, self.all_per_hour)
    }
}
