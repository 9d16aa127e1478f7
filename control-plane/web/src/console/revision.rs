//! The revision of a link that a form began with, so that it overwrites no change of others unseen.

use super::fields::{Field, Fields};
use super::form::Form;
use super::strings as t;
use askama::Template;
use edgelink_service::problem::{Kind, Problem};

/// The revision of a link that a form began with, as hidden fields of it.
#[derive(Debug, Template)]
#[template(path = "console/revision.html")]
pub(super) struct Revision {
    began_with: String,
    /// The stored revision, if it is a later one; the form may confirm that it overwrites it.
    stored: Option<Stored>,
}

/// A later revision, and its fields that differ from the form.
#[derive(Debug)]
struct Stored {
    entity_tag: String,
    fields: Vec<Field>,
}

impl Revision {
    /// The revision of a new form, which begins with the stored values.
    pub(super) fn new(entity_tag: String) -> Self {
        Self {
            began_with: entity_tag,
            stored: None,
        }
    }

    /// The revision of a form that is shown again: the form keeps the revision it began with, although `self` is stored now.
    pub(super) fn again(self, form: &Form, problem: &Problem, stored: &Fields) -> Self {
        let is_late = problem.kind() == Kind::PreconditionFailed;
        Self {
            began_with: form.get("entityTag").to_owned(),
            stored: is_late.then(|| Stored {
                entity_tag: self.began_with,
                fields: stored.other_than(form),
            }),
        }
    }
}
