//! Pictures for the page and for separate files, drawn by the same code in the same style. `kiln-record`'s views
//! describe them.
//!
//! They are narrow enough for a phone; wider screens show several side by side. Colours are the page's CSS variables.
//! Anything shown by a colour is also shown by a dash pattern, a marker or a word.

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
