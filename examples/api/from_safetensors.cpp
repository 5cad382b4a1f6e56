// First values of parameters and buffers from a safetensors file, or from a folder with several and their index.
#include <stdexcept>

#include <zero/weights.h>
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// Fills `out` with the tensor of this name; `out` keeps its type.
void read_tensor(const zero::SafetensorsSet& file, const std::string& name, const torch::Tensor& out) {
  const auto* found = file.find(name);
  if (found == nullptr) throw std::runtime_error("the file has no " + name);
  const zero::SafetensorsEntry& entry = *found->entry;
  if (entry.numel() != out.numel()) throw std::runtime_error("the file has another shape of " + name);
  const auto type = entry.dtype == zero::ElementType::kF32    ? torch::kFloat32
                    : entry.dtype == zero::ElementType::kBF16 ? torch::kBFloat16
                    : entry.dtype == zero::ElementType::kF16  ? torch::kFloat16
                    : entry.dtype == zero::ElementType::kI64  ? torch::kInt64
                                                              : throw std::runtime_error("another type: " + name);
  const torch::Tensor read = torch::empty(entry.shape, type);
  found->file->read(entry, 0, {static_cast<std::byte*>(read.data_ptr()), read.nbytes()});
  out.copy_(read.reshape(out.sizes()));
}

zero::Engine attach_from(const std::filesystem::path& path, torch::nn::Module& model, zero::World& world) {
  auto file = std::make_shared<zero::SafetensorsSet>(zero::SafetensorsSet::open(path, "weights"));
  const torch::NoGradGuard no_gradients;
  for (const auto& buffer : model.named_buffers()) read_tensor(*file, buffer.key(), buffer.value());
  return zero::attach(
      model, world,
      {.stage = 3, .optimizer = zero::AdamW{.lr = 2e-5}, .weights = [file](const auto& name, auto values) {
         read_tensor(*file, name, torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}));
       }});
}

}  // namespace examples
