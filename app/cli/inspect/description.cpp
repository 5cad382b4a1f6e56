#include "app/cli/inspect/description.h"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/no_run.h"

#include "app/data/images/gzip.h"

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

struct Stranger {
  std::string_view mark, name, remedy;
};
using namespace std::string_view_literals;
constexpr std::string_view kWriteText = "write its columns as a text or as .csv first";
constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kPictures = "name a folder of pictures for each class: data.kind = \"images\"";
// Files that are no text, and that no data.kind reads as they are.
constexpr std::array<Stranger, 9> kStrangers{{{"PAR1"sv, "a Parquet file", kWriteText},
                                              {"ARROW1"sv, "an Arrow file", kWriteText},
                                              {"SQLite format 3"sv, "an SQLite database", kWriteText},
                                              {"%PDF-"sv, "a PDF", "write its text first"},
                                              {"PK\x03\x04"sv, "a zip archive", kUnpack},
                                              {"\x28\xb5\x2f\xfd"sv, "zstd-compressed", kUnpack},
                                              {"\x1f\x8b"sv, "gzip-compressed", kUnpack},
                                              {"\x89PNG"sv, "a PNG picture", kPictures},
                                              {"\xff\xd8\xff"sv, "a JPEG picture", kPictures}}};

void refuse_stranger(const std::filesystem::path& path, std::string_view head) {
  for (const Stranger& stranger : kStrangers)
    if (head.starts_with(stranger.mark))
      throw ConfigError("FILE", path.string(), fmt::format("is {}, which no data.kind reads", stranger.name),
                        stranger.remedy);
}

std::string first_part(const std::filesystem::path& path) {
  return read_at_most(FileDescriptor::open(path, O_RDONLY).get(), kPacked, path.native());
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
  if (extension == ".tsv") return describe_tsv(path);
  const std::string part = first_part(path);
  refuse_stranger(path, part);
  if (extension == ".jsonl" || extension == ".ndjson" || begins_with_json_line(part)) return describe_json_lines(path);
  return describe_tokens(path, /*text=*/true);
}

}  // namespace zero::cli
