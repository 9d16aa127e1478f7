//! Settings of logins by OpenID Connect.

use super::value::FileText;
use edgelink_model::tenancy::{AccountName, Role};
use edgelink_wire::settings::{Problems, SettingValue, Value, ValueKind};
use std::time::Duration;
use url::{Host, Url};

edgelink_wire::settings! {
    snake_case;

    /// Logins to the console by a provider of OpenID Connect, beside those by password and API key. The provider has to know
    /// `<console_url>/console/oidc/callback` as an address to come back to.
    pub struct OidcConfig {
        /// The issuer, below which the provider describes itself at `/.well-known/openid-configuration`. It is `https`, or `http` on
        /// this machine. Without it there are no such logins.
        pub issuer: Option<String> = None, "https://login.example/realms/main";
        /// The id of the console at the provider.
        pub client_id: String = "edgelink".to_owned();
        /// A file with the secret of the console at the provider. Without it the console has none, and PKCE alone protects a login.
        pub client_secret_file: Option<FileText> = None, "/etc/edgelink/oidc-secret";
        /// The address of the console as browsers see it, without path. Needed where there is an issuer.
        pub console_url: Option<String> = None, "https://console.example";
        /// What the console asks the provider for; `openid` has to be among it.
        pub scopes: Vec<String> = vec!["openid".to_owned(), "profile".to_owned()];
        /// The claim with the name of the user; `email` counts only where it is verified. At the first login it finds the user who was
        /// made by that name, where an admin awaits that login or `bind_existing` says so; with `sub` and `email`, which people
        /// cannot choose at the provider, always. Later logins go by the subject.
        pub name_claim: String = "preferred_username".to_owned();
        /// The claim with the roles at the provider: a text or a list of them, in an object by dots (`realm_access.roles`). Without
        /// it roles are those of the users here.
        pub role_claim: Option<String> = None, "groups";
        /// Which roles at the provider are which here, such as `staff=editor`. The one that may do most counts, at each login; those
        /// who have none of them are refused. Needed where there is a claim with roles.
        pub roles: Vec<RoleOfClaim> = Vec::new();
        /// Whether a login of a person who is no user yet makes one. Others are refused.
        pub create_users: bool = false;
        /// Whether the first login under the name of a user who was made here becomes that user without an admin who awaits it. Only
        /// where `name_claim` is one that people cannot choose at the provider: a person who takes the name of a user there would be that user.
        pub bind_existing: bool = false;
        /// The role of users that a login makes, where no claim has roles.
        pub new_role: Role = Role::Reader;
        /// The tenant of all who log in so.
        pub tenant: AccountName = AccountName::of_first_tenant();
        /// What the button says.
        pub label: String = "Log in by your organization".to_owned();
        /// Time for all answers of the provider in a login.
        pub timeout_ms: Duration = Duration::from_secs(5), 10..=60_000;
    }
}

/// A role at the provider and its role in edgelink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleOfClaim {
    /// The text of the claim.
    pub claimed: String,
    /// The role in edgelink.
    pub role: Role,
}

impl SettingValue for RoleOfClaim {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: Value, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(value, path, problems)?;
        let Some((claimed, word)) = text
            .rsplit_once('=')
            .filter(|(claimed, _)| !claimed.is_empty())
        else {
            problems.refuse(path, format!("is '{text}', must be such as staff=editor"));
            return None;
        };
        let role = Role::read(word.into(), path, problems)?;
        Some(Self {
            claimed: claimed.to_owned(),
            role,
        })
    }

    fn written(&self, _: &str) -> Option<Value> {
        Some(format!("{}={}", self.claimed, self.role.word()).into())
    }
}

impl OidcConfig {
    /// True if the first login under the name of a local user becomes that user even if no admin awaits it.
    pub fn binds_by_name(&self) -> bool {
        self.bind_existing || matches!(self.name_claim.as_str(), "sub" | "email")
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let Some(issuer) = &self.issuer else {
            return;
        };
        let is_issuer = trusted_url(issuer)
            .is_some_and(|url| url.query().is_none() && url.fragment().is_none());
        if !is_issuer {
            let must = "must be an https URL without query, or an http one on this machine";
            problems.refuse("oidc.issuer", format!("is '{issuer}', {must}"));
        }
        let origin = self.console_url.as_deref().unwrap_or_default();
        let is_origin =
            trusted_url(origin).is_some_and(|url| url.origin().ascii_serialization() == origin);
        if !is_origin {
            let must = "must be an https origin such as https://console.example, or an http one on this machine";
            problems.refuse("oidc.console_url", format!("is '{origin}', {must}"));
        }
        for (field, text) in [
            ("client_id", &self.client_id),
            ("name_claim", &self.name_claim),
            ("label", &self.label),
        ] {
            if text.trim().is_empty() {
                problems.refuse(format!("oidc.{field}"), "is empty");
            }
        }
        if self
            .client_secret_file
            .as_ref()
            .is_some_and(|file| file.text().trim().is_empty())
        {
            problems.refuse("oidc.client_secret_file", "names an empty file");
        }
        let is_scope =
            |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.scopes.iter().all(is_scope) || !self.scopes.iter().any(|scope| scope == "openid") {
            problems.refuse(
                "oidc.scopes",
                "must be words of visible ASCII characters, with openid among them",
            );
        }
        if self.role_claim.is_some() == self.roles.is_empty() {
            problems.refuse("oidc.roles", "goes with oidc.role_claim: set both or none");
        }
    }
}

/// Parses a URL that is trusted with logins: with TLS, or on this machine.
pub fn trusted_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_here = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let is_trusted = url.scheme() == "https" || (url.scheme() == "http" && is_here);
    let has_user = !url.username().is_empty() || url.password().is_some();
    (is_trusted && !has_user).then_some(url)
}
