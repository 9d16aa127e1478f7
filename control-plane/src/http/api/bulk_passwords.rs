//! Passwords that the items of a bulk request set.

use crate::links::passwords::{NewPassword, Passwords};
use crate::problem::{FieldError, Problem};

/// The most items of a request that set a password: hashing one takes some ten milliseconds of a core.
pub(super) const MAX_PASSWORDS: usize = 100;

/// Hashes the passwords of items, one after the other, which is to be done before links are created or changed. Items with a
/// password beyond the first `most` are refused.
pub(super) async fn hash_all<T>(
    passwords: &Passwords,
    items: &mut [Result<T, Problem>],
    password_of: fn(&T) -> Option<&NewPassword>,
    most: usize,
) {
    let mut count = 0;
    for item in items {
        let Ok(Some(password)) = item.as_ref().map(password_of) else {
            continue;
        };
        count += 1;
        let hashed = match count <= most {
            true => passwords.hash(&password.clone()).await,
            false => Err(too_many(most)),
        };
        if let Err(problem) = hashed {
            *item = Err(problem);
        }
    }
}

fn too_many(most: usize) -> Problem {
    let reason = format!("may be set by at most {most} items of a request");
    Problem::validation(vec![FieldError::new("password", reason)])
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
        hash_all(&Passwords::new(), &mut items, Option::as_ref, 2).await;
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
