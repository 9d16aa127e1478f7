//! Requests, each declared once: its fields, how they are read, and their part of the OpenAPI document.
//!
//! A field is `"jsonName" name: kind Type as Schema = reader;`. Kinds:
//!
//! | kind | in the request | in the struct |
//! |---|---|---|
//! | `required` | must be present | `T` |
//! | `needed` | must be present | `Option<T>`, so that other errors are found as well |
//! | `optional` | may be missing or null | `Option<T>` |
//! | `nullable` | may be missing, and null goes back to the default (RFC 7396) | `Option<Option<T>>` |
//! | `not_null` | may be missing | `Option<T>` |
//! | `nested` | may be missing or null, and may have several errors inside | `Option<T>` |
//!
//! `..name: Type(values);` has the fields of another request. The document names the request by its struct, or `as "Name"`.

/// Declares a request: the struct, its parser, and its schema. Readers may use the values that `read` gets.
macro_rules! request {
    (
        $(#[doc = $doc_of_struct:literal])* $(#[schema($($schema_of_struct:tt)*)])*
        $visibility:vis struct $name:ident($($value:ident: $of:ty),*) $(as $shown:literal)? {
            $(
                $(#[doc = $doc:literal])* $(#[schema($($schema_of:tt)*)])*
                $json:literal $field:ident: $kind:ident $type:ty as $schema:ty = $reader:expr;
            )*
            $(..$part:ident: $part_type:ident($($part_value:ident),*);)?
        }
    ) => {
        $(#[doc = $doc_of_struct])*
        #[allow(clippy::allow_attributes, missing_docs, reason = "some fields say all by the name that the API has for them")]
        #[derive(Clone, Debug)]
        $visibility struct $name {
            $($(#[doc = $doc])* $visibility $field: $crate::request::field_type!($kind $type),)*
            $(pub(crate) $part: $part_type,)?
        }

        impl $name {
            /// Reads the request among other fields. `None` if a required field is missing or wrong, which
            /// [`Fields::finish`](crate::fields::Fields::finish) reports.
            #[allow(clippy::allow_attributes, unused_variables, reason = "some readers need no values")]
            $visibility fn of(
                fields: &mut $crate::fields::Fields,
                $($value: $of,)*
            ) -> Option<Self> {
                $(let $field = fields.$kind($json, $reader);)*
                $(let $part = $part_type::of(fields, $($part_value),*)?;)?
                Some(Self {
                    $($field: $crate::request::field_value!($kind $field),)*
                    $($part,)?
                })
            }

            /// Reads the request.
            ///
            /// # Errors
            /// A problem that names each wrong field.
            #[allow(clippy::allow_attributes, dead_code, reason = "some are read among other fields only")]
            $visibility fn read(
                object: serde_json::Map<String, serde_json::Value>,
                $($value: $of,)*
            ) -> Result<Self, $crate::problem::Problem> {
                let mut fields = $crate::fields::Fields::new(object);
                let request = Self::of(&mut fields, $($value),*);
                fields.finish()?;
                request.ok_or_else(|| $crate::problem::Problem::new($crate::problem::Kind::Internal))
            }
        }

        const _: () = {
            $crate::request::declared! {
                [$(#[doc = $doc_of_struct])* $(#[schema($($schema_of_struct)*)])*] []
                $([$(#[doc = $doc])* $(#[schema($($schema_of)*)])*] $json $field $kind [$schema])*
            }

            impl utoipa::PartialSchema for $name {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    let schema = <Declared as utoipa::PartialSchema>::schema();
                    $(let schema = $crate::request::joined(schema, $part_type::schema());)?
                    schema
                }
            }

            impl utoipa::ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    $crate::request::shown_name!($name $($shown)?).into()
                }

                fn schemas(
                    schemas: &mut Vec<(
                        String,
                        utoipa::openapi::RefOr<utoipa::openapi::Schema>,
                    )>,
                ) {
                    <Declared as utoipa::ToSchema>::schemas(schemas);
                    $(<$part_type as utoipa::ToSchema>::schemas(schemas);)?
                }
            }
        };
    };
}

macro_rules! field_type {
    (required $type:ty) => { $type };
    (nullable $type:ty) => { Option<Option<$type>> };
    ($kind:ident $type:ty) => { Option<$type> };
}

/// Declares the struct from which the schema is derived, field by field, because the derive macro has to see the types.
macro_rules! declared {
    ([$($of_struct:tt)*] [$($done:tt)*]) => {
        #[derive(utoipa::ToSchema)]
        #[serde(deny_unknown_fields)]
        $($of_struct)*
        #[expect(dead_code, reason = "the fields of the schema")]
        struct Declared { $($done)* }
    };
    ($of_struct:tt [$($done:tt)*] [$($of_field:tt)*] $json:literal $field:ident required [$($schema:tt)*] $($rest:tt)*) => {
        $crate::request::declared! {
            $of_struct [$($done)* $($of_field)* #[schema(rename = $json)] $field: $($schema)*,] $($rest)*
        }
    };
    ($of_struct:tt [$($done:tt)*] [$($of_field:tt)*] $json:literal $field:ident needed [$($schema:tt)*] $($rest:tt)*) => {
        $crate::request::declared! {
            $of_struct [$($done)* $($of_field)* #[schema(rename = $json)] $field: $($schema)*,] $($rest)*
        }
    };
    ($of_struct:tt [$($done:tt)*] [$($of_field:tt)*] $json:literal $field:ident $kind:ident [$($schema:tt)*] $($rest:tt)*) => {
        $crate::request::declared! {
            $of_struct [$($done)* $($of_field)* #[schema(rename = $json)] $field: Option<$($schema)*>,] $($rest)*
        }
    };
}

macro_rules! shown_name {
    ($name:ident) => {
        stringify!($name)
    };
    ($name:ident $shown:literal) => {
        $shown
    };
}

macro_rules! field_value {
    (required $field:ident) => {
        $field?
    };
    ($kind:ident $field:ident) => {
        $field
    };
}

pub(crate) use {declared, field_type, field_value, request, shown_name};

use utoipa::openapi::{RefOr, Schema};

/// The schema of an object that also has the fields of another one.
pub(crate) fn joined(schema: RefOr<Schema>, part: RefOr<Schema>) -> RefOr<Schema> {
    match (schema, part) {
        (RefOr::T(Schema::Object(mut object)), RefOr::T(Schema::Object(part))) => {
            object.properties.extend(part.properties);
            object.required.extend(part.required);
            object.into()
        }
        (schema, _) => schema,
    }
}
