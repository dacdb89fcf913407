//! Crashes at random moments.
