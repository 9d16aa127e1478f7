//! Passwords that the items of a bulk request set.

use crate::admission::Claim;
use crate::problem::Problem;
use crate::service::passwords::{MAX_PER_REQUEST, NewPassword, Passwords};

/// Hashes the passwords of items, one after the other, which is to be done before links are created or changed. Items with a
/// password beyond the first [`MAX_PER_REQUEST`] are refused.
pub(super) async fn hash_all<T>(
    passwords: &Passwords,
    items: &mut [Result<T, Problem>],
    password_of: fn(&T) -> Option<&NewPassword>,
    setter: &Claim,
) {
    refuse_beyond(MAX_PER_REQUEST, items, password_of);
    for item in items {
        let Ok(Some(password)) = item.as_ref().map(password_of) else {
            continue;
        };
        if let Err(problem) = passwords.hash(&password.clone(), setter.clone()).await {
            *item = Err(problem);
        }
    }
}

/// Refuses items with a password beyond the first `most`.
pub(super) fn refuse_beyond<T>(
    most: usize,
    items: &mut [Result<T, Problem>],
    password_of: fn(&T) -> Option<&NewPassword>,
) {
    let sets_password = |item: &&mut Result<T, Problem>| {
        let item = item.as_ref();
        item.is_ok_and(|item| password_of(item).is_some())
    };
    for item in items.iter_mut().filter(sets_password).skip(most) {
        let reason = format!("may be set by at most {most} items of a request");
        *item = Err(Problem::of_field("password", reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Kind;

    #[tokio::test]
    async fn so_many_items_may_set_a_password_and_no_more() {
        let refused = || Err(Problem::new(Kind::LinkNotFound));
        let with = |text| Ok(Some(NewPassword::new(text)));
        let mut items = vec![
            with("a"),
            Ok(None),
            refused(),
            with("b"),
            with("c"),
            Ok(None),
        ];
        refuse_beyond(2, &mut items, Option::as_ref);
        let setter = Claim::default();
        hash_all(&Passwords::new(), &mut items, Option::as_ref, &setter).await;
        let outcome = |item: &Result<Option<NewPassword>, Problem>| match item {
            Ok(Some(password)) => password.hash().starts_with("$argon2id$").to_string(),
            Ok(None) => "none".to_owned(),
            Err(problem) => format!("{:?}", problem.kind()),
        };
        let outcomes: Vec<_> = items.iter().map(outcome).collect();
        let expected = ["true", "none", "LinkNotFound", "true", "Validation", "none"];
        assert_eq!(outcomes, expected);
    }
}
