#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"
#include "zero/checkpoint/read/checkpoint_reader.h"

#include "app/cli/inspect/description.h"

namespace zero::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const std::map<std::string, std::string>& run, const std::string& key) {
  const auto found = run.find(key);
  return found == run.end() ? "?" : found->second;
}

}  // namespace

CheckpointHealth look_at_checkpoint(const fs::path& folder, bool verify) {
  CheckpointHealth health;
  try {
    CheckpointReader reader(folder);
    health.manifest = reader.manifest();
    if (verify) reader.verify();
  } catch (const IoError& error) {
    health.damage = error.what();
  }
  return health;
}

Description describe_checkpoint(const fs::path& folder, bool verify) {
  const CheckpointHealth health = look_at_checkpoint(folder, verify);
  const Manifest& manifest = health.manifest;
  Description out;
  out.json = {{"kind", "checkpoint"}, {"path", folder.string()}, {"whole", health.damage.empty()}};
  if (manifest.files.empty()) {
    out.text = fmt::format("{}: DAMAGED: {}\n", folder.string(), health.damage);
    out.json["damage"] = health.damage;
    return out;
  }
  const std::string state = !health.damage.empty() ? "DAMAGED: " + health.damage
                            : verify               ? "every byte verified"
                                                   : "sizes and manifest are right";
  const std::string config_sha256 = manifest.config_sha256();
  const std::string config = manifest.config.empty() ? "" : fmt::format(", configuration {:.8}", config_sha256);
  out.text = fmt::format("{}: step {}, {} in {}{}, {}\n", folder.string(), terminal_text(text_of(manifest.run, "step")),
                         format_bytes(manifest.size_bytes()),
                         format_count(static_cast<std::int64_t>(manifest.files.size()), "file"), config, state);
  out.json["damage"] = health.damage;
  out.json["verified"] = verify;
  out.json["step"] = text_of(manifest.run, "step");
  out.json["bytes"] = manifest.size_bytes();
  out.json["ranks"] = manifest.files.size();
  out.json["tensors"] = manifest.tensors.size();
  out.json["states"] = manifest.states;
  out.json["config_sha256"] = config_sha256;
  return out;
}

}  // namespace zero::cli
