//! Draws charts for the report page and for separate files, using the same code and style. The
//! views in `kiln-record` describe what the charts show.
//!
//! Charts are narrow enough for a phone; wider screens show several side by side. Colours are CSS
//! variables that the page defines. Anything shown by a colour is also shown by a dash pattern, a
//! marker or a word.

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
