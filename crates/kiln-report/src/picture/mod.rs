//! Pictures: drawn once, for the page and for files of their own, in one style.
//!
//! Narrow enough for a phone at their own size; wider screens have several beside each other. Colours are the page's
//! variables. No colour says what a dash, a marker or a word does not say as well.

mod axis;
mod bands;
mod bars;
mod canvas;
mod heat;
mod lines;
mod views;

pub use canvas::Picture;
pub use views::of;
