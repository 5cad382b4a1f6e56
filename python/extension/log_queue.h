// The queue of the library's log lines. Threads of the library write into it without the GIL; Python takes them out.
//
//   module.log_to_python(30);      // from warnings on: logging.WARNING
//   module.take_log()              // [(30, "a step is skipped: ..."), ...]
//
// It keeps the newest 1,000 lines. Errors are also written to standard error at once. Local.
#pragma once

#include <pybind11/pybind11.h>

namespace zero::python {

// Adds log_to_python() and take_log() to the module.
void bind_log(pybind11::module_& module);

}  // namespace zero::python
