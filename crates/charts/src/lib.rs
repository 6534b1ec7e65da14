//! Charts of filter figures as SVG, tables as text, and a description of the machine that measured them.
//!
//! A [`Chart`] holds values; [`Chart::svg`] draws it with plotters into a [`Frame`]. Text stays text. Every colour has
//! a counterpart for dark screens; [`css`] switches between them.
//!
//! ```
//! use sstfilter_charts::{Chart, Colour, Form, Frame, Mark, Point, Series, Style};
//!
//! let points = [(1e4, 2.1), (1e5, 2.3), (1e6, 3.9)];
//! let series = Series {
//!     name: "blocked Bloom".to_owned(),
//!     style: Style { colour: Colour::BLUE, mark: Mark::Disc, width: 2 },
//!     form: Form::Marked,
//!     points: points.map(|(keys, ns)| Point { at: (keys, ns), tip: format!("{ns} ns") }).to_vec(),
//! };
//! let svg = Chart::by_keys("Probe time", "nanoseconds per key", vec![series]).svg(Frame::WIDE)?;
//! assert!(svg.starts_with("<svg") && svg.contains("blocked Bloom"));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod axis;
mod chart;
mod draw;
mod machine;
mod style;
mod table;

pub use axis::Axis;
pub use chart::{Chart, Form, Point, Series};
pub use draw::{Frame, escaped};
pub use machine::{Machine, today};
pub use style::{Colour, Mark, Style, css};
pub use table::{Align, Column, Table, grouped};
