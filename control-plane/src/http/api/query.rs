//! The query of a request as an object of strings, so that parameters are read as fields are.

use super::fields::Fields;
use crate::problem::{FieldError, Problem};
use serde_json::{Map, Value};

/// The parameters of a query. One that is there twice is refused: who reads the first and who the last would disagree.
pub(crate) fn fields(query: Option<&str>) -> Result<Fields, Problem> {
    let mut object = Map::new();
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let name = name.into_owned();
        if object
            .insert(name.clone(), Value::String(value.into_owned()))
            .is_some()
        {
            return Err(Problem::validation(vec![FieldError::new(
                name,
                "is given twice",
            )]));
        }
    }
    Ok(Fields::new(object))
}
