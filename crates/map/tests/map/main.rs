//! A map must never say that a file it covers lacks a key that the file has.

mod damage;
mod model;
mod rule;
mod shapes;
mod support;
mod vectors;
