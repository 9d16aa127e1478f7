//! Sources of numbers on the servers that they need.

mod zookeeper;
