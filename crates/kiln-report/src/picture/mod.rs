//! Pictures: drawn once, for the page and for files of their own, in one style. `kiln-record`'s views describe them.
//!
//! Narrow enough for a phone at their own size; wider screens have several beside each other. Colours are the page's
//! variables. No colour says what a dash, a marker or a word does not say as well.

mod axis;
mod bands;
mod bars;
mod canvas;
mod fastest;
mod heat;
mod lines;
mod views;

pub use bands::{Band, Bands};
pub use canvas::{sheet, Picture};
pub(crate) use views::draw_group;
pub use views::draw_rows;
