// guard_forks(): a forked child never waits for a lock that a thread of its parent held.
//
// A thread of C++ that calls Python first adds itself to the interpreter's list of threads, under the list's lock. Such
// threads are usual: a thread of gloo frees tensors after each collective. Up to Python 3.11 a child takes this lock
// before it makes a new one (PyOS_AfterFork_Child), so a child that was forked in between waits for ever. A data loader
// then never gets its first batch. With guard_forks() the thread that forks holds the lock during fork(). Newer
// versions of Python need no guard. docs/decisions/0135.
#pragma once

namespace zero::python {

// Local. Call it when the extension is loaded. A second call does nothing.
void guard_forks();

}  // namespace zero::python
