//! The revision of a link that a form began with, so that it overwrites no change of others unseen.

use super::fields::{Field, Fields};
use super::form::Form;
use super::strings as t;
use crate::problem::{Kind, Problem};
use askama::Template;

/// The revision of a link that a form began with, as hidden fields of it.
#[derive(Debug, Template)]
#[template(path = "console/revision.html")]
pub(super) struct Revision {
    began_with: String,
    /// What is stored now, where that is another revision; the form may say that it is to be overwritten.
    stored: Option<Stored>,
}

/// A later revision, and what of it is not as in the form.
#[derive(Debug)]
struct Stored {
    entity_tag: String,
    fields: Vec<Field>,
}

impl Revision {
    /// That of a form which begins with what is stored.
    pub(super) fn new(entity_tag: String) -> Self {
        Self {
            began_with: entity_tag,
            stored: None,
        }
    }

    /// That of a form which is shown again: the one that it began with, though what is stored may be this one by now.
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
