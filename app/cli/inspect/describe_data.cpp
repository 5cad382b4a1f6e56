#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/text/bytes.h"
#include "zero/base/text/terminal_text.h"
#include "zero/checkpoint/safetensors.h"

#include "app/cli/inspect/description.h"
#include "app/data/images/idx.h"
#include "app/data/tokens/token_stream.h"

namespace zero::cli {
namespace {

constexpr std::size_t kMostTensorsShown = 200;  // in the text; the JSON has all tensors

}  // namespace

Description describe_safetensors(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path, "FILE");
  Description out;
  std::int64_t numel = 0;
  std::int64_t bytes = 0;
  auto tensors = nlohmann::ordered_json::array();
  std::string lines;
  for (std::size_t i = 0; i < file.entries().size(); ++i) {
    const auto& entry = file.entries()[i];
    numel += entry.numel();
    bytes += entry.size_bytes();
    tensors.push_back(
        {{"name", entry.name}, {"dtype", name_of(entry.dtype)}, {"shape", entry.shape}, {"bytes", entry.size_bytes()}});
    if (i < kMostTensorsShown) {
      lines += fmt::format("  {:<5} {:>20} {:>10}  {}\n", name_of(entry.dtype),
                           fmt::format("[{}]", fmt::join(entry.shape, ", ")), format_bytes(entry.size_bytes()),
                           terminal_text(entry.name));
    }
  }
  if (file.entries().size() > kMostTensorsShown)
    lines += fmt::format("  ... and {} more (--json shows all)\n", file.entries().size() - kMostTensorsShown);
  out.text = fmt::format("{}: safetensors, {}, {}, {}\n", path.string(),
                         format_count(static_cast<std::int64_t>(file.entries().size()), "tensor"),
                         format_count(numel, "element"), format_bytes(bytes));
  for (const auto& [key, value] : file.metadata())
    out.text += fmt::format("  {} = {}\n", terminal_text(key), terminal_text(value));
  out.text += lines;
  out.json = {{"kind", "safetensors"}, {"path", path.string()}, {"num_tensors", file.entries().size()},
              {"numel", numel},        {"bytes", bytes},        {"metadata", file.metadata()},
              {"tensors", tensors}};
  return out;
}

Description describe_tokens(const std::filesystem::path& path, bool text) {
  const TokenStream stream(path, text ? TokenKind::kText : TokenKind::kTokens, "FILE");
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  std::int64_t largest = -1;
  std::vector<bool> seen;
  std::vector<std::int64_t> piece;
  for (std::int64_t at = 0; at < stream.size(); at += static_cast<std::int64_t>(piece.size())) {
    piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 16, stream.size() - at)));
    stream.read(at, piece);
    for (const auto token : piece) {
      smallest = std::min(smallest, token);
      largest = std::max(largest, token);
      // Vocabularies are far smaller. The limit keeps a damaged file from using up the memory.
      if (token >= static_cast<std::int64_t>(seen.size()) && token < (1 << 24))
        seen.resize(static_cast<std::size_t>(token) + 1);
      if (token < static_cast<std::int64_t>(seen.size())) seen[static_cast<std::size_t>(token)] = true;
    }
  }
  if (stream.size() == 0) smallest = -1;
  const auto distinct = std::count(seen.begin(), seen.end(), true);
  Description out;
  out.text = fmt::format("{}: {}, {}, {} distinct, from {} to {}\n  use it with: [data] kind = \"{}\", path = \"{}\"\n",
                         path.string(), stream.layout().format, format_count(stream.size(), "token"), distinct,
                         smallest, largest, text ? "text" : "tokens", path.string());
  out.json = {{"kind", text ? "text" : "tokens"},
              {"path", path.string()},
              {"format", stream.layout().format},
              {"num_tokens", stream.size()},
              {"distinct", distinct},
              {"smallest", smallest},
              {"largest", largest}};
  return out;
}

Description describe_idx(const std::filesystem::path& path, int num_dimensions) {
  const IdxArray array = read_idx(path, num_dimensions, "FILE");
  std::array<std::int64_t, 256> counts{};
  for (const auto value : array.values) ++counts[value];
  const auto distinct = std::count_if(counts.begin(), counts.end(), [](auto count) { return count > 0; });
  Description out;
  out.text = fmt::format("{}: IDX of bytes, shape [{}], {}\n", path.string(), fmt::join(array.shape, ", "),
                         format_count(distinct, "distinct value"));
  out.json = {{"kind", "idx"}, {"path", path.string()}, {"shape", array.shape}, {"distinct", distinct}};
  if (num_dimensions == 1) {
    auto classes = nlohmann::ordered_json::array();
    for (std::size_t value = 0; value < counts.size(); ++value) {
      if (counts[value] == 0) continue;
      out.text += fmt::format("  class {:>3}: {}\n", value, format_count(counts[value]));
      classes.push_back({{"class", value}, {"count", counts[value]}});
    }
    out.json["classes"] = classes;
  }
  return out;
}

}  // namespace zero::cli
