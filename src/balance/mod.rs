//! Which target a new flow goes to.
