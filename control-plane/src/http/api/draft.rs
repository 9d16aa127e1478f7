//! Orders whose passwords are not hashed yet.

use crate::admission::Claim;
use crate::links::model::LinkContent;
use crate::problem::Problem;
use crate::service::order::Order;
use crate::service::passwords::{NewPassword, Passwords};

/// An order as a request has it, which becomes one that can be carried out when its password is hashed.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    order: Order,
    password: Option<NewPassword>,
}

impl Draft {
    pub(super) fn new(order: Order, password: Option<NewPassword>) -> Self {
        Self { order, password }
    }

    /// The content of the link that is asked for.
    pub(super) fn content(&self) -> &LinkContent {
        &self.order.content
    }

    pub(super) fn new_password(&self) -> Option<&NewPassword> {
        self.password.as_ref()
    }

    /// The order with the hash of its password, which takes a while if it has one.
    pub(crate) async fn hash(self, passwords: &Passwords, setter: Claim) -> Result<Order, Problem> {
        if let Some(password) = self.new_password() {
            passwords.hash(password, setter).await?;
        }
        Ok(self.hashed())
    }

    /// The same of a password that was hashed before.
    pub(super) fn hashed(mut self) -> Order {
        if let Some(password) = &self.password {
            *self.order.content.others().password = Some(password.hash().to_owned());
        }
        self.order
    }

    /// An order from which no link is made: one without a hash says only that there is a password.
    pub(super) fn unhashed(self) -> Order {
        self.order
    }
}
