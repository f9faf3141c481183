//! The macro that bends a row for a mutant (`mutants`); without the feature the row is as written.

/// `mutant!("name" => { statements })`: done beside the honest row.
/// `mutant!("name": value, else honest)`: a value in place of the honest one.
/// The name is one of the list; any other does not compile.
macro_rules! mutant {
    ($name:literal => $bent:block) => {
        #[cfg(feature = "mutants")]
        if $crate::mutants::on(const { $crate::mutants::Mutant::named($name) }) $bent
    };
    ($name:literal: $bent:expr, else $honest:expr) => {{
        #[cfg(feature = "mutants")]
        let value = if $crate::mutants::on(const { $crate::mutants::Mutant::named($name) }) {
            $bent
        } else {
            $honest
        };
        #[cfg(not(feature = "mutants"))]
        let value = $honest;
        value
    }};
}
pub(crate) use mutant;
