//! Planted defects.
