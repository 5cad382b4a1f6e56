// Exceptions of the package, and the functions that libzero calls in a Python program.
//
//   Error(RuntimeError)    ConfigError(Error, ValueError)    CommError(Error)    IoError(Error, OSError)
//   DeviceError(Error)     InternalError(Error)
//
// libtorch turns an exception that passes through an operator or a backward pass into a RuntimeError. set_up_errors()
// gives libzero a function that throws an exception with the Python class instead.
#pragma once

#include <pybind11/pybind11.h>

namespace zero::python {

// Adds the classes to the module, and registers the translation and the functions of HostLanguage.
void set_up_errors(pybind11::module_& module);

}  // namespace zero::python
