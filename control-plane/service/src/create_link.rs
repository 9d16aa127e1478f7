//! Requests for new links, and their outcomes.

use super::caller::Caller;
use super::fields::Fields;
use super::link_patch::{LinkPatch, LinkProperties};
use super::passwords::NewPassword;
use super::request::request;
use super::tenant_links::TenantLinks;
use super::values;
use crate::problem::{FieldError, Kind, Problem};
use edgelink_model::links::checked::{CheckedContent, CheckedTarget};
use edgelink_model::links::model::{History, Link, LinkContent};
use edgelink_model::tenancy::Scope;
use edgelink_numbers::{IssueError, Subject};
use edgelink_settings::domains::NoDomain;
use edgelink_store::{
    ChangeError, NewLink, Receipt, StoreError, StoredReceipt, Twin, Wanted, WantedNames,
};
use edgelink_wire::target::TargetUrl;
use edgelink_wire::{Code, Domain, LinkKey};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A request for a link.
#[derive(Clone, Debug)]
pub struct CreateLink {
    pub(crate) domain: Domain,
    /// Without an alias a code is generated.
    pub(crate) alias: Option<Code>,
    pub(crate) content: CheckedContent,
    /// The password; [`CreateLink::with_hash`] puts its hash into the content.
    pub(crate) password: Option<NewPassword>,
    /// The id of the API key that creates it.
    pub(crate) owner: String,
    /// The user who will own it.
    pub(crate) owner_id: u64,
    /// The links that the creator may see; equal ones among them may fulfil the request.
    pub(crate) scope: Arc<Scope>,
    /// The history of an imported link.
    pub(crate) history: History,
    /// The number whose code the alias is, if the link is to have that number.
    pub(crate) number: Option<u64>,
    /// Lets an equal link that exists fulfil the request.
    pub(crate) find_if_exists: bool,
    /// The receipt to store.
    pub(crate) receipt: Option<Receipt>,
}

request! {
    /// A link to be created.
    #[schema(example = json!({
        "longUrl": "https://example.com/a?b=c", "customSlug": "summer-sale", "domain": "go.example:8080",
        "validSince": "2020-01-01T00:00:00Z", "validUntil": "2099-12-31T23:59:59Z", "redirectStatus": 302,
        "forwardQuery": true, "title": "Summer sale", "tags": ["summer"], "notes": "For the newsletter", "state": "active",
        "utmSource": "newsletter", "archived": false, "expiredUrl": "https://example.com/over", "forwardPath": false,
        "crawlable": true, "trackConversions": false, "maxVisits": 1000, "botsUseVisits": true, "findIfExists": false,
    }))]
    pub struct LinkRequest(links: &TenantLinks<'_>) as "NewLink" {
        /// Where the link goes: http or https, without user and password, and neither on a domain of this shortener nor on a
        /// blocked host. Visible ASCII is kept byte for byte; spaces inside become `%20`; other text is percent-encoded.
        #[schema(format = "target-url", max_length = 8000)]
        "longUrl" target: needed CheckedTarget as String = |value| values::target(value, links);
        /// The alias, which is case-sensitive; no reserved word. Without it a code is issued.
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "customSlug" alias: optional Code as String = |value| values::alias(value, links);
        /// One of the domains of this shortener; by default the first of them.
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = values::domain_name;
        /// Its id in another system, which no other link has.
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "externalId" external_id: optional String as String = values::external_id;
        /// Whether a link of the same domain, target and settings is answered, with 200, instead of creating another one.
        "findIfExists" find_if_exists: optional bool as bool = values::flag;
        ..properties: LinkProperties(links);
    }
}

request! {
    /// A link to be created or changed: the one with this external id. Fields are those of `NewLink`.
    #[schema(example = json!({ "longUrl": "https://example.com/b", "externalId": "cms-17", "title": "Page 17" }))]
    pub struct LinkUpsert(links: &TenantLinks<'_>) {
        #[schema(format = "target-url", max_length = 8000)]
        "longUrl" target: needed CheckedTarget as String = |value| values::target(value, links);
        #[schema(format = "line", min_length = 1, max_length = 255)]
        "externalId" external_id: needed String as String = values::external_id;
        #[schema(format = "alias", pattern = "^[0-9A-Za-z_-]{1,64}$")]
        "customSlug" alias: optional Code as String = |value| values::alias(value, links);
        #[schema(format = "short-domain")]
        "domain" domain: optional Domain as String = values::domain_name;
        ..properties: LinkProperties(links);
    }
}

/// A request for a link with an external id, which may exist already.
#[derive(Clone, Debug)]
pub struct PutLink {
    pub(crate) external_id: String,
    /// The link to create if there is none yet.
    pub(crate) create: CreateLink,
    /// Set if the request names a domain.
    is_on_domain: bool,
    /// The change to make if there is one.
    pub(crate) patch: LinkPatch,
}

impl PutLink {
    /// Reads a request.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read(
        object: Map<String, Value>,
        links: &TenantLinks<'_>,
        caller: &Caller,
    ) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        if fields.optional("findIfExists", values::flag) == Some(true) {
            fields.refuse("findIfExists", "does not go with an externalId");
        }
        let request = LinkUpsert::of(&mut fields, links);
        let new = request.map(|request| LinkRequest {
            target: request.target,
            alias: request.alias,
            domain: request.domain,
            external_id: request.external_id,
            find_if_exists: None,
            properties: request.properties,
        });
        let is_on_domain = new.as_ref().is_some_and(|new| new.domain.is_some());
        let (create, patch) = made(fields, new, links, caller)?;
        let external_id = create.content.external_id.clone();
        Ok(Self {
            external_id: external_id
                .ok_or_else(|| Problem::of_field("externalId", "is required"))?,
            create,
            is_on_domain,
            patch,
        })
    }

    /// Refuses a request that names another domain or code than the link has: only a move changes them.
    pub(super) fn check_place(&self, link: &Link) -> Result<(), Problem> {
        let mut errors = Vec::new();
        let reason = "is not that of the link with this externalId";
        if self.is_on_domain && self.create.domain != link.domain {
            errors.push(FieldError::new("domain", reason));
        }
        let alias = self.create.alias.as_ref();
        if alias.is_some_and(|alias| *alias != link.code) {
            errors.push(FieldError::new("customSlug", reason));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Problem::new(Kind::ExternalIdTaken).with_errors(errors))
        }
    }
}

/// Builds a request from fields that were read, and the patch for an existing link. Fields that were not read are unknown.
///
/// # Errors
/// A problem that names each wrong field.
pub(super) fn made(
    mut fields: Fields,
    new: Option<LinkRequest>,
    links: &TenantLinks<'_>,
    caller: &Caller,
) -> Result<(CreateLink, LinkPatch), Problem> {
    let Some(new) = new else {
        fields.finish()?;
        return Err(Problem::new(Kind::Internal));
    };
    let default = caller.default_domain(links.default_domain());
    let domain = values::place(&mut fields, new.domain, default, caller, links);
    let patch = LinkPatch {
        target: new.target.clone(),
        external_id: new.external_id.map(Some),
        properties: new.properties,
    };
    // A missing target is refused; other mistakes are reported nevertheless.
    let content = patch.apply(links.new_content(&domain, new.target), caller);
    if let Err(ChangeError::Invalid { field, reason }) = &content {
        fields.refuse(field, reason.clone());
    }
    fields.finish()?;
    let create = CreateLink {
        domain,
        alias: new.alias,
        content: content?,
        password: patch.new_password().cloned(),
        owner: caller.id().to_owned(),
        owner_id: caller.user_id(),
        scope: caller.scope().clone(),
        history: History::default(),
        number: None,
        find_if_exists: new.find_if_exists.unwrap_or(false),
        receipt: None,
    };
    Ok((create, patch))
}

impl CreateLink {
    /// Reads a request.
    ///
    /// # Errors
    /// A problem that names each wrong field.
    pub fn read(
        object: Map<String, Value>,
        links: &TenantLinks<'_>,
        caller: &Caller,
    ) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let new = LinkRequest::of(&mut fields, links);
        made(fields, new, links, caller).map(|(create, _)| create)
    }

    /// The request with the receipt to store.
    pub fn with_receipt(self, receipt: Option<Receipt>) -> Self {
        Self { receipt, ..self }
    }

    /// The requested content.
    pub fn content(&self) -> &LinkContent {
        &self.content
    }

    /// The password to hash.
    pub(crate) fn new_password(&self) -> Option<&NewPassword> {
        self.password.as_ref()
    }

    /// The request with the hash of its password, which has been hashed before.
    pub(crate) fn with_hash(mut self) -> Self {
        if let Some(password) = self.password.take() {
            let hash = Some(password.hash().to_owned());
            self.content
                .change_others(|others| others.details.password = hash);
        }
        self
    }

    /// The fields by which an equal link is found.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted {
            scope: &self.scope,
            domain: &self.domain,
            code: self.alias.as_ref(),
            content: &self.content,
        }
    }

    /// The names of the link that another link may have taken.
    pub(super) fn names(&self) -> WantedNames<'_> {
        WantedNames {
            tenant_id: self.scope.tenant_id,
            domain: &self.domain,
            code: self.alias.as_ref(),
            external_id: self.content.external_id.as_deref(),
        }
    }

    /// The subject for which a number is issued in this attempt.
    pub(super) fn subject(&self, attempt: u32) -> Subject<'_> {
        Subject {
            domain: &self.domain,
            target: &self.content.target,
            owner: &self.owner,
            attempt,
        }
    }

    /// The new link with number `id`, and with the alias or else `code`.
    pub(super) fn link(&self, id: u64, code: &Code) -> NewLink {
        NewLink {
            id,
            key: LinkKey::new(
                self.domain.clone(),
                self.alias.as_ref().unwrap_or(code).clone(),
            ),
            scope: self.scope.clone(),
            owner_id: Some(self.owner_id),
            content: self.content.clone().into_content(),
            history: self.history,
            receipt: self.receipt.clone(),
            twin: match (self.find_if_exists, &self.alias) {
                (false, _) => Twin::Allowed,
                (true, Some(_)) => Twin::NotWithThisCode,
                (true, None) => Twin::NotWithAnyCode,
            },
        }
    }

    /// An equal link that exists, for which only a receipt is stored.
    pub(super) fn existing(&self, link: Link) -> NewLink {
        NewLink {
            id: link.id,
            key: link.key(),
            scope: self.scope.clone(),
            owner_id: link.owner_id,
            content: link.content.clone(),
            history: History::default(),
            receipt: self.receipt.clone(),
            twin: Twin::Known(Box::new(link)),
        }
    }

    /// The link of a receipt, as it was then. Its content is taken from this request, which has the fingerprint of the receipt.
    pub(super) fn replayed(&self, stored: StoredReceipt) -> CreateOutcome {
        let own = self.receipt.as_ref().map(|receipt| receipt.fingerprint);
        if own != Some(stored.receipt.fingerprint) {
            return Err(Problem::new(Kind::IdempotencyKeyReused));
        }
        let link = Link {
            id: stored.id,
            domain: stored.key.domain,
            code: stored.key.code,
            tenant_id: self.scope.tenant_id,
            owner_id: Some(self.owner_id),
            content: self.content.clone().into_content(),
            imported_visits: self.history.visits,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            rev: stored.rev,
        };
        Ok(Created {
            is_found: stored.found,
            is_replayed: true,
            ..Created::fresh(link)
        })
    }
}

/// The link that fulfils a request, and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Link as stored; its content is emptied if the answer has no room for it.
    pub link: Link,
    /// Set if the link existed already.
    pub is_found: bool,
    /// Set if the link comes from the receipt of an earlier request.
    pub is_replayed: bool,
    /// Set if the answer has no room for the link; only its key and revision are kept then.
    is_left_out: bool,
}

impl Created {
    /// A link that was created for a request.
    pub(crate) fn fresh(link: Link) -> Self {
        Self {
            link,
            is_found: false,
            is_replayed: false,
            is_left_out: false,
        }
    }

    /// A link that existed before.
    pub(crate) fn found(link: Link) -> Self {
        Self {
            is_found: true,
            ..Self::fresh(link)
        }
    }

    /// Leaves the link out of the answer.
    pub(crate) fn leave_out(&mut self) {
        self.link.content = LinkContent::to(TargetUrl::from_store(""));
        self.is_left_out = true;
    }

    /// The link, if the answer has it.
    pub fn shown(&self) -> Option<&Link> {
        (!self.is_left_out).then_some(&self.link)
    }

    /// Key and revision of the link if this request has created it.
    pub(crate) fn new_link(&self) -> Option<(LinkKey, u64)> {
        let is_new = !self.is_found && !self.is_replayed;
        is_new.then(|| (self.link.key(), self.link.rev))
    }
}

/// The outcome of a request.
pub type CreateOutcome = Result<Created, Problem>;

/// The failure of a creation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("the alias is taken")]
    AliasTaken,
    #[error("the external id is taken")]
    ExternalIdTaken,
    #[error("the domain is gone")]
    DomainGone,
    #[error("no free code was found in {0} tries")]
    CodesTaken(usize),
    #[error("too many links wait for their commit")]
    Overloaded,
    #[error(transparent)]
    Issue(#[from] IssueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<CreateFailure> for Problem {
    fn from(failure: CreateFailure) -> Self {
        match failure {
            CreateFailure::AliasTaken => {
                Self::new(Kind::SlugTaken).with_errors(vec![FieldError::new(
                    "customSlug",
                    "is taken on this domain",
                )])
            }
            CreateFailure::ExternalIdTaken => Self::external_id_taken(),
            // Answered as if the request had come a moment later.
            CreateFailure::DomainGone => {
                let reason = NoDomain::Unknown.to_string();
                Self::of_field("domain", reason)
            }
            CreateFailure::Overloaded => Self::new(Kind::Overloaded),
            CreateFailure::CodesTaken(_) => {
                tracing::error!(error = %failure, "no free code found; answering 503");
                Self::new(Kind::CodesTaken)
            }
            CreateFailure::Issue(IssueError::Store(error)) | CreateFailure::Store(error) => {
                error.into()
            }
            CreateFailure::Issue(error @ IssueError::Exhausted { .. }) => {
                tracing::error!(%error, "all codes are in use: creations get 503; configure a longer links.code_length");
                Self::new(Kind::CodesExhausted)
            }
            CreateFailure::Issue(
                error @ (IssueError::Source { .. } | IssueError::ClockWentBack { .. }),
            ) => {
                tracing::error!(%error, "number source failed; answering 503");
                Self::new(Kind::IssuerUnavailable)
            }
            CreateFailure::Issue(IssueError::Closed) => Self::new(Kind::Stopping),
        }
    }
}
