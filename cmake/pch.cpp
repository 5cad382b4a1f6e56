// Compiled once so that its precompiled header can be shared by every target that includes the same things.
