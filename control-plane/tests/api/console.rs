//! The console as a browser sees it that runs no script.

mod accounts;
mod browser;
mod bulk;
mod forms;
mod hostile;
mod imports;
mod links;
mod login;
mod lost;
mod oidc;
mod pages;
mod reports;
mod roles;
mod trust;
