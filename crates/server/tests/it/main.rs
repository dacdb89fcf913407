//! Tests of nodes as their clients and their operators have them.

mod whole;
