#include "zero/inspect/description.h"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/checkpoint/no_run.h"
#include "zero/data/gzip.h"

namespace zero::cli {
namespace {

constexpr std::size_t kPeek = 16;
constexpr std::size_t kPacked = 1 << 20;  // bytes read of a compressed file: more than its header

// Returns the first bytes, decompressed if the file is compressed.
std::vector<std::byte> first_bytes(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open(path, O_RDONLY);
  std::string head = read_at_most(file.get(), kPeek, path.native());
  if (is_gzip(std::as_bytes(std::span(head)))) {
    head = read_at_most(file.get(), kPacked, path.native());
    return gunzip(std::as_bytes(std::span(head)), kPeek, "FILE", path.string());
  }
  const auto bytes = std::as_bytes(std::span(head));
  return {bytes.begin(), bytes.end()};
}

// Returns the number of dimensions of an IDX file of bytes; 0 for another file.
int idx_dimensions(std::span<const std::byte> head) {
  const std::array<std::byte, 3> mark{std::byte{0}, std::byte{0}, std::byte{8}};
  if (head.size() < 4 || std::memcmp(head.data(), mark.data(), mark.size()) != 0) return 0;
  const int dimensions = std::to_integer<int>(head[3]);
  return dimensions <= 8 ? dimensions : 0;
}

}  // namespace

Description describe_path(const std::filesystem::path& path, bool verify) {
  if (std::filesystem::exists(path / kManifestName)) return describe_checkpoint(path, verify);
  if (holds_weights_alone(path)) return describe_weights(path);
  if (std::filesystem::is_directory(path)) return describe_run(path, verify);
  if (!std::filesystem::exists(path))
    throw ConfigError(
        "FILE", path.string(), "no such file or folder",
        fmt::format("Check the spelling; paths are relative to {}.", std::filesystem::current_path().string()));
  require_input_file("FILE", path);
  const auto head = first_bytes(path);
  const std::string extension = path.extension().string();
  // A safetensors file begins with 8 bytes of length, followed by '{'.
  if (extension == ".safetensors" ||
      (head.size() > 8 && extension != ".bin" && head[8] == std::byte{'{'} && head[7] == std::byte{0})) {
    return describe_safetensors(path);
  }
  if (const int dimensions = idx_dimensions(head); dimensions > 0 && extension != ".bin")
    return describe_idx(path, dimensions);
  if (extension == ".bin") return describe_tokens(path, /*text=*/false);
  if (extension == ".csv") return describe_csv(path);
  return describe_tokens(path, /*text=*/true);
}

}  // namespace zero::cli
