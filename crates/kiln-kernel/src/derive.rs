//! Macros that implement traits for a type, based on its fields or the names of its values.

/// Implements `+=` for a structure by adding the fields one by one. For the fields listed after
/// `max`, `+=` keeps the larger value instead.
macro_rules! add_fields {
    ($counts:ty, $($sum:ident)* $(; max $($max:ident)*)?) => {
        impl std::ops::AddAssign for $counts {
            fn add_assign(&mut self, other: $counts) {
                $(self.$sum += other.$sum;)*
                $($(self.$max = self.$max.max(other.$max);)*)?
            }
        }
    };
}

/// Declares a structure of counts, with `+=` and `-` operators.
macro_rules! counts {
    ($(#[$doc:meta])* pub struct $counts:ident { $($(#[$of:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $counts {
            $($(#[$of])* pub $field: u64,)*
        }

        $crate::derive::add_fields!($counts, $($field)*);

        impl std::ops::Sub for $counts {
            type Output = $counts;

            fn sub(self, before: $counts) -> $counts {
                $counts { $($field: self.$field - before.$field),* }
            }
        }
    };
}

/// Implements `Display`, which prints `name()`, and `FromStr`, which accepts the name of any value
/// in `all`.
macro_rules! parse_names {
    ($type:ty, $what:literal, $all:expr) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(s: &str) -> Result<$type, String> {
                let all = $all;
                all.iter().copied().find(|t| t.name() == s).ok_or_else(|| {
                    let names: Vec<_> = all.iter().map(|t| t.name()).collect();
                    format!("unknown {} '{s}': choose from {}", $what, names.join(", "))
                })
            }
        }
    };
}

pub(crate) use {add_fields, counts, parse_names};
