// Weights for Python: safetensors.torch.load_file("model.safetensors") returns a state_dict.
#include <zero/zero.h>

#include <torch/torch.h>

namespace examples {

// A checkpoint for any number of ranks at any stage, and weights for other programs. All ranks call it.
void save_for_both(zero::Engine& engine, const std::filesystem::path& folder) {
  engine.save(folder / "checkpoint");
  engine.export_weights(folder / "model.safetensors");                                // bf16 stays bf16
  engine.export_weights(folder / "model_fp32.safetensors", /*full_precision=*/true);  // fp32 masters of bf16
}

}  // namespace examples
