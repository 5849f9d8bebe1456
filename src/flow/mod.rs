//! The flow table and what is in it.
