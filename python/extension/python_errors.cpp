#include "python/extension/python_errors.h"

#include <string>

#include <pthread.h>

#include <torch/csrc/Exceptions.h>

#include "zero/base/error/error.h"
#include "zero/base/process/host_language.h"

namespace py = pybind11;

namespace zero::python {
namespace {

// The Python classes. They live as long as the process.
struct Classes {
  PyObject* error = nullptr;
  PyObject* config = nullptr;
  PyObject* comm = nullptr;
  PyObject* io = nullptr;
  PyObject* device = nullptr;
  PyObject* internal = nullptr;
};
Classes classes;
pthread_t main_thread;

PyObject* class_of(const Error& error) {
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) return classes.config;
  if (dynamic_cast<const CommError*>(&error) != nullptr) return classes.comm;
  if (dynamic_cast<const IoError*>(&error) != nullptr) return classes.io;
  if (dynamic_cast<const DeviceError*>(&error) != nullptr) return classes.device;
  if (dynamic_cast<const InternalError*>(&error) != nullptr) return classes.internal;
  return classes.error;
}

// What libtorch asks for a class when an exception leaves an operator or a backward pass.
class TypedError final : public torch::PyTorchError {
 public:
  explicit TypedError(const Error& error) : PyTorchError(error.what()), class_(class_of(error)) {}
  PyObject* python_type() override { return class_; }

 private:
  PyObject* class_;
};

void throw_typed(const Error& error) {
  throw TypedError(error);
}

// Ctrl-C while a rank waits. Only the main thread handles signals, as in Python.
void raise_signals() {
  if (pthread_equal(pthread_self(), main_thread) == 0 || Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return;
  python_error raised;  // torch's: an operator and a backward pass let it through
  raised.persist();
  throw raised;
}

// numpy(), tolist() and others hold the GIL while they run operators.
void* give_up_gil() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_gil(void* state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

PyObject* add_class(py::module_& module, const char* name, const char* text, const py::tuple& bases) {
  const std::string full = std::string("zerocpp.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), text, bases.ptr(), nullptr);
  if (made == nullptr) throw py::error_already_set();
  module.add_object(name, py::handle(made));  // takes a reference of its own
  return made;
}

}  // namespace

void set_up_errors(py::module_& module) {
  main_thread = pthread_self();
  const auto bases = [](PyObject* first, PyObject* second = nullptr) {
    return second == nullptr ? py::make_tuple(py::handle(first))
                             : py::make_tuple(py::handle(first), py::handle(second));
  };
  classes.error = add_class(module, "Error", "The base of all errors of zerocpp.", bases(PyExc_RuntimeError));
  classes.config = add_class(module, "ConfigError",
                             "An impossible option, or a wrong use of the library. The text ends with a remedy.",
                             bases(classes.error, PyExc_ValueError));
  classes.comm =
      add_class(module, "CommError", "A rank ended, is late, or called another function.", bases(classes.error));
  classes.io = add_class(module, "IoError", "A read or write failed, or a file is damaged.",
                         bases(classes.error, PyExc_OSError));
  classes.device = add_class(module, "DeviceError", "A GPU or its driver failed.", bases(classes.error));
  classes.internal = add_class(module, "InternalError", "A fault of zerocpp itself.", bases(classes.error));
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(class_of(error), error.what());
    } catch (torch::PyTorchError& error) {  // from an operator inside a call of ours
      PyErr_SetString(error.python_type(), error.what());
    } catch (python_error& error) {  // raised in a wait of ours
      error.restore();
    }
  });
  set_host_language({.check_wait = &raise_signals, .rethrow = &throw_typed, .unlock = &give_up_gil, .lock = &take_gil});
}

}  // namespace zero::python
