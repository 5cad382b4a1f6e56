// `zero export RUN -o FILE`: the weights of a checkpoint as safetensors that other programs load.
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/export_weights.h"
#include "zero/cli/flags.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;

// The checkpoint that is named, or the newest whole one of the run that is.
CheckpointReader open_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / kManifestName, ignored)) {
    CheckpointReader reader(path);
    reader.verify();
    return reader;
  }
  for (const auto& entry : CheckpointFolder(path / "checkpoints").list()) {
    try {
      CheckpointReader reader(entry.path);
      reader.verify();
      return reader;
    } catch (const IoError& error) {
      ZERO_LOG(warn, "this checkpoint is passed over: {}", error.what());
    }
  }
  std::string remedy = "name the [run] dir of a `zero train` with [checkpoint] every, or a checkpoint's folder";
  if (const fs::path weights = path / "model.safetensors"; fs::exists(weights, ignored))
    remedy += fmt::format("; the weights of the finished run are in {}", weights.string());
  const bool is_there = fs::exists(path, ignored);
  throw ConfigError("RUN", path.string(), is_there ? "holds no checkpoint that is whole" : "no such folder", remedy);
}

}  // namespace

int run_export(Arguments arguments) {
  CLI::App app("Writes the weights of a run's newest checkpoint as safetensors, sharded where they are large.",
               "zero export");
  std::string run, output, dtype = "fp32", shard = "5GB";
  bool json = false;
  app.add_option("RUN", run, "a run folder, or one of its checkpoints")->required();
  app.add_option("-o,--output", output, "the file to write, NAME.safetensors")->required();
  app.add_option("--dtype", dtype, "of trained parameters: fp32 or bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--shard-size", shard, "most bytes of a file; more become several, with an index");
  app.add_flag("--json", json, "as one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  if (fs::path(output).extension() != ".safetensors")
    throw ConfigError("-o", output, "is no name of a safetensors file", "end it with .safetensors");
  ExportOptions options{.dtype = dtype == "bf16" ? DType::kBFloat16 : DType::kFloat32,
                        .shard_bytes = parse_bytes(shard, "--shard-size")};
  CheckpointReader reader = open_checkpoint(run);
  const auto files = export_weights(reader, output, options);
  if (json) {
    nlohmann::ordered_json out{{"checkpoint", reader.path().string()}, {"files", nlohmann::ordered_json::array()}};
    for (const fs::path& file : files) out["files"].push_back(file.string());
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  fmt::print("{}: {} tensors\n", reader.path().string(), reader.manifest().tensors.size());
  for (const fs::path& file : files)
    fmt::print("  {}  {}\n", file.string(), format_bytes(static_cast<std::int64_t>(fs::file_size(file))));
  return 0;
}

}  // namespace zero::cli
