//! The fields of forms, and the problems shown at them.

use super::errors;
use super::form::Form;
use super::strings as t;
use askama::Template;
use edgelink_service::problem::{Kind, Problem};

/// A field of a form as it is shown.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "console/field.html")]
pub(crate) struct Field {
    /// Its name, and the id of its element.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) value: String,
    pub(super) input: Input,
    pub(super) is_required: bool,
    /// The attribute `autocomplete`; empty for the browser's default.
    pub(super) autocomplete: &'static str,
    pub(super) problem: String,
}

/// The kind of input of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Input {
    /// A line, by the type of the element.
    Line(&'static str),
    /// A password, with the value of `autocomplete`.
    Password(&'static str),
    /// Several lines.
    Lines,
    /// A file of the browser's machine.
    File,
    /// A box that is ticked or not.
    Tick,
    /// One of these values, each with its label.
    Choice(Vec<(String, String)>),
    #[default]
    Text,
}

impl Field {
    pub(crate) fn new(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            ..Self::default()
        }
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn value(self, value: impl Into<String>) -> Self {
        Self {
            value: value.into(),
            ..self
        }
    }

    pub(crate) fn input(self, input: Input) -> Self {
        Self { input, ..self }
    }

    pub(super) fn autocomplete(self, autocomplete: &'static str) -> Self {
        Self {
            autocomplete,
            ..self
        }
    }

    pub(crate) fn required(self) -> Self {
        Self {
            is_required: true,
            ..self
        }
    }

    /// A box that is ticked or not.
    pub(crate) fn tick(name: &'static str, label: &'static str, is_on: bool) -> Self {
        let value = if is_on { "on" } else { "" };
        Self::new(name, label).input(Input::Tick).value(value)
    }

    /// One of several values, each with its label.
    pub(crate) fn choice(
        name: &'static str,
        label: &'static str,
        choices: &[(&str, &str)],
    ) -> Self {
        let choices = choices.iter();
        let choices = choices.map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
        Self::new(name, label).input(Input::Choice(choices.collect()))
    }

    fn is_chosen(&self, value: &str) -> bool {
        self.value == value
    }

    /// The elements that describe the field.
    fn described_by(&self) -> String {
        let name = self.name;
        if self.hint.is_empty() {
            format!("{name}-problem")
        } else {
            format!("{name}-hint {name}-problem")
        }
    }
}

/// A form as it is shown. A form with errors is shown again, with its input.
#[derive(Debug, Default, Template)]
#[template(path = "console/fields.html")]
pub(crate) struct Fields {
    pub(super) all: Vec<Field>,
    /// The problem of the form as a whole.
    pub(super) problem: String,
}

impl Fields {
    pub(crate) fn new(all: Vec<Field>) -> Self {
        Self {
            all,
            problem: String::new(),
        }
    }

    /// With the values that a form has sent, but not passwords: a note asks the user to enter them again.
    pub(crate) fn filled(mut self, form: &Form) -> Self {
        for field in &mut self.all {
            let sent = form.get(field.name);
            match field.input {
                Input::Password(_) if sent.is_empty() => {}
                Input::Password(_) => t::ENTER_AGAIN.clone_into(&mut field.problem),
                _ => sent.clone_into(&mut field.value),
            }
        }
        self
    }

    /// The fields whose values differ from the values that a form has sent.
    pub(super) fn other_than(&self, form: &Form) -> Vec<Field> {
        let lines = |text: &str| text.replace("\r\n", "\n").trim().to_owned();
        let others = self.all.iter().filter(|field| {
            !matches!(field.input, Input::Password(_))
                && lines(&field.value) != lines(form.get(field.name))
        });
        others.cloned().collect()
    }

    /// With the problem at its fields; errors of other fields are shown above the form.
    pub(crate) fn with(mut self, problem: &Problem) -> Self {
        let mut others = Vec::new();
        for error in problem.errors() {
            let name = error.field.split(['[', '.']).next().unwrap_or_default();
            let reason = if error.field == name {
                error.reason.to_string()
            } else {
                format!("{}: {}", error.field, error.reason)
            };
            match self.all.iter_mut().find(|field| field.name == name) {
                Some(field) if field.problem.is_empty() => field.problem = reason,
                Some(field) => field.problem += &format!("; {reason}"),
                None => others.push(format!("{}: {}", error.field, error.reason)),
            }
        }
        if problem.errors().is_empty() {
            others.push(errors::describe(problem));
        }
        self.problem = others.join("; ");
        self
    }

    /// The fields with a problem.
    pub(super) fn wrong(&self) -> impl Iterator<Item = &Field> {
        self.all.iter().filter(|field| !field.problem.is_empty())
    }

    /// True if the form or one of its fields has a problem.
    pub(super) fn is_wrong(&self) -> bool {
        !self.problem.is_empty() || self.wrong().next().is_some()
    }
}

/// True if a problem is shown at the form that met it, and not on a page of its own.
pub(crate) fn stays(problem: &Problem) -> bool {
    !matches!(
        problem.kind(),
        Kind::Unauthorized
            | Kind::Forbidden
            | Kind::NotFound
            | Kind::LinkNotFound
            | Kind::DomainNotFound
            | Kind::TagNotFound
    )
}
