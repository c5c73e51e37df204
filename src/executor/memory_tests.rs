//! Tests of the public face of the simulated kernel.
