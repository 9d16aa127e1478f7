//! Claims about a person who has logged in.

use super::error::OidcError;
use edgelink_model::tenancy::{AccountName, Role};
use edgelink_settings::config::OidcConfig;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Claims of an ID token, and of the user info if that was asked for.
#[derive(Debug)]
pub struct Claims(pub(super) Map<String, Value>);

/// The identity of a person who has logged in at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SHA-256 of issuer and subject, which identifies the person independently of the name.
    pub hash: [u8; 32],
    /// The name; `None` if the provider supplies no valid one.
    pub name: Option<AccountName>,
    /// The role in edgelink; `None` if no claim has roles, or none of the configured ones.
    pub role: Option<Role>,
}

impl Claims {
    /// Finds a claim by its name, or by a dotted path into an object.
    pub(super) fn find(&self, path: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(path) {
            return Some(value);
        }
        let mut parts = path.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.find(name).and_then(Value::as_str).map(str::to_owned)
    }

    /// Adds the claims of the user info, which must have the same subject. Claims of the ID token, which is signed, take precedence.
    pub(super) fn complete(
        &mut self,
        subject: &str,
        further: Map<String, Value>,
    ) -> Result<(), OidcError> {
        if further.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(OidcError::Invalid(
                "the user info is about another person".to_owned(),
            ));
        }
        for (name, value) in further {
            self.0.entry(name).or_insert(value);
        }
        Ok(())
    }

    pub(super) fn identity(&self, config: &OidcConfig, subject: &str) -> Identity {
        let issuer = config.issuer.as_deref().unwrap_or_default();
        let mut hash = Sha256::new();
        for part in [issuer, subject] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        Identity {
            hash: hash.finalize().into(),
            name: self.name(&config.name_claim),
            role: config
                .role_claim
                .as_deref()
                .and_then(|claim| self.role(config, claim)),
        }
    }

    fn name(&self, claim: &str) -> Option<AccountName> {
        let is_open = claim == "email" && self.find("email_verified") != Some(&Value::Bool(true));
        let name = self.text(claim).filter(|_| !is_open)?;
        AccountName::parse(&name).ok()
    }

    /// The most privileged role in a claim.
    fn role(&self, config: &OidcConfig, claim: &str) -> Option<Role> {
        let claimed = match self.find(claim)? {
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            value => value.as_str().into_iter().collect::<Vec<_>>(),
        };
        let is_claimed = |role: &Role| {
            let mut rules = config.roles.iter().filter(|rule| rule.role == *role);
            rules.any(|rule| claimed.contains(&rule.claimed.as_str()))
        };
        Role::ALL.into_iter().find(is_claimed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::config::RoleOfClaim;
    use serde_json::json;

    fn claims(value: Value) -> Claims {
        let Value::Object(claims) = value else {
            panic!()
        };
        Claims(claims)
    }

    fn config(name_claim: &str, role_claim: &str) -> OidcConfig {
        let rule = |claimed: &str, role| RoleOfClaim {
            claimed: claimed.to_owned(),
            role,
        };
        OidcConfig {
            issuer: Some("https://login.example".to_owned()),
            name_claim: name_claim.to_owned(),
            role_claim: Some(role_claim.to_owned()),
            roles: vec![
                rule("all", Role::Reader),
                rule("staff", Role::Editor),
                rule("ops", Role::Admin),
            ],
            ..OidcConfig::default()
        }
    }

    #[test]
    fn role_when_several_are_claimed_is_the_highest() {
        for (claim, value, role) in [
            (
                "groups",
                json!({ "groups": ["all", "ops", "staff"] }),
                Some(Role::Admin),
            ),
            ("groups", json!({ "groups": "staff" }), Some(Role::Editor)),
            ("groups", json!({ "groups": ["Staff", "other", 1] }), None),
            ("groups", json!({ "groups": { "staff": true } }), None),
            ("groups", json!({}), None),
            (
                "realm.roles",
                json!({ "realm": { "roles": ["all"] } }),
                Some(Role::Reader),
            ),
            (
                "https://x.example/roles",
                json!({ "https://x.example/roles": ["all"] }),
                Some(Role::Reader),
            ),
        ] {
            let identity = claims(value.clone()).identity(&config("sub", claim), "1");
            assert_eq!(identity.role, role, "{value}");
        }
    }

    #[test]
    fn name_when_not_a_text_or_not_verified_is_ignored() {
        for (claim, value, name) in [
            (
                "preferred_username",
                json!({ "preferred_username": " ada " }),
                Some("ada"),
            ),
            (
                "preferred_username",
                json!({ "preferred_username": " " }),
                None,
            ),
            (
                "preferred_username",
                json!({ "preferred_username": 7 }),
                None,
            ),
            (
                "email",
                json!({ "email": "a@b.example", "email_verified": true }),
                Some("a@b.example"),
            ),
            (
                "email",
                json!({ "email": "a@b.example", "email_verified": "true" }),
                None,
            ),
            ("email", json!({ "email": "a@b.example" }), None),
        ] {
            let identity = claims(value.clone()).identity(&config(claim, "groups"), "1");
            assert_eq!(
                identity.name.as_ref().map(AccountName::as_str),
                name,
                "{value}"
            );
        }
    }

    #[test]
    fn identity_when_its_subject_differs_is_another() {
        let of = |subject| {
            claims(json!({}))
                .identity(&config("sub", "groups"), subject)
                .hash
        };
        assert_eq!(of("1"), of("1"));
        assert_ne!(of("1"), of("2"));
    }

    #[test]
    fn user_info_when_of_another_subject_is_refused() {
        let mut known = claims(json!({ "sub": "1", "name": "signed" }));
        let Value::Object(other) = json!({ "sub": "2", "groups": ["ops"] }) else {
            panic!()
        };
        assert!(known.complete("1", other).is_err());
        assert!(known.find("groups").is_none());
        let Value::Object(own) = json!({ "sub": "1", "name": "unsigned", "groups": ["ops"] })
        else {
            panic!()
        };
        known.complete("1", own).unwrap();
        assert_eq!(
            (known.text("name").as_deref(), known.find("groups")),
            (Some("signed"), Some(&json!(["ops"])))
        );
    }
}
