// The class WeightFiles of the module _C, and the source of first values that a function of Python reads.
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>

#include "zero/base/error/check.h"
#include "zero/checkpoint/safetensors.h"

#include "python/extension/python_engine.h"

namespace py = pybind11;

namespace zero::python {
namespace {

std::unique_ptr<SafetensorsSet> open_files(const std::string& path) {
  const py::gil_scoped_release no_gil;
  return std::make_unique<SafetensorsSet>(SafetensorsSet::open(path, "weights"));
}

// Returns type and shape of each tensor, by name.
std::map<std::string, std::pair<std::string, std::vector<std::int64_t>>> tensors_in(const SafetensorsSet& self) {
  std::map<std::string, std::pair<std::string, std::vector<std::int64_t>>> found;
  for (const SafetensorsSet::Tensor& tensor : self.tensors())
    found.emplace(tensor.entry->name, std::pair(std::string(name_of(tensor.entry->dtype)), tensor.entry->shape));
  return found;
}

// `out` has the type and the shape of the tensor in the file.
void read_into(const SafetensorsSet& self, const std::string& name, const torch::Tensor& out) {
  const SafetensorsSet::Tensor* const found = self.find(name);
  ZERO_CHECK(found != nullptr, "no tensor {}", name);
  ZERO_CHECK(out.is_contiguous() && static_cast<std::int64_t>(out.nbytes()) == found->entry->size_bytes(),
             "{} has {} bytes", name, found->entry->size_bytes());
  if (out.nbytes() > 0)
    found->file->read(*found->entry, 0, {static_cast<std::byte*>(out.mutable_data_ptr()), out.nbytes()});
}

}  // namespace

WeightSource source_of(const py::function& read) {
  return [&read](const std::string& name, std::span<float> values) {
    const py::gil_scoped_acquire gil;
    const auto value = py::cast<at::Tensor>(read(name));
    ZERO_CHECK(value.is_contiguous() && value.nbytes() == values.size_bytes(), "{} has {} elements", name,
               values.size());
    std::memcpy(values.data(), value.const_data_ptr<float>(), values.size_bytes());
  };
}

void bind_weights(py::module_& module) {
  py::class_<SafetensorsSet>(module, "WeightFiles", "A safetensors file, or a folder with several. Local.")
      .def(py::init(&open_files))
      .def("tensors", &tensors_in, "Type and shape of each tensor, by name.")
      .def("read", &read_into, py::call_guard<py::gil_scoped_release>(), "Reads a tensor into one like it.");
}

}  // namespace zero::python
